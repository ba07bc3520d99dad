"""What follows the end of an attempt: finished, retry now, retry later, or ask a person.

One pure decision over the verdict on the ending and the endings before it. An attempt that recorded something new
resets the count: only endings in a row without progress count. The same failure several times is quarantined
(`halted`), because another try would end the same way.
"""

from __future__ import annotations

from typing import Final

import msgspec

from relight.values.ending import Backoff, Cure, FailureClass, Verdict
from relight.values.policy import RunPolicy
from relight.values.status import Failure, StatusChange

MAX_FRUITLESS: Final = 5
"""default number of endings in a row without progress that are retried"""
_AT_ONCE: Final = Backoff(first_seconds=1, most_seconds=60)
_SIGNATURE_TEXT: Final = 120
_US: Final = 1_000_000


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Endings in a row without progress."""

    fruitless: int = 0
    signature: str = ""
    same: int = 0
    """how many of them, up to the last, had the same signature"""
    once: frozenset[FailureClass] = frozenset()
    """classes whose single retry is used up"""


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about one ending."""

    change: StatusChange
    """the status until then"""
    again: bool = False
    wake_us: int | None = None
    """when to retry; None: at once"""
    prompt: str | None = None
    """prompt for the agent then"""
    history: History = History()


def decide(
    verdict: Verdict,
    history: History,
    *,
    progressed: bool,
    policy: RunPolicy,
    now_us: int,
    jitter: float,
    name: str = "REF",
) -> Move:
    """Decide what follows one ending."""
    if verdict.kind == "ok":
        return Move(change=StatusChange(status="completed"))
    if verdict.cure == "stop":
        return _stopped(verdict)
    # Progress resets the count: an agent that works for days may be interrupted any number of times.
    now = _after(verdict, History() if progressed else history)
    if verdict.cure == "ask":
        return _asks(verdict, now)
    # Before the retry limit: the tries that are left would end the same way, and each may cost money.
    if now.same >= max(policy.same_failures, 1) and verdict.counts and not verdict.transient:
        return _quarantined(verdict, now, name)
    if verdict.counts and now.fruitless > _allowed(verdict, policy):
        return _gives_up(verdict, now)
    if verdict.cure == "resume_once" and verdict.kind in (History() if progressed else history).once:
        return _asks(verdict, now)
    return _again(verdict, now, now_us=now_us, jitter=jitter)


def signature(verdict: Verdict) -> str:
    """Two endings with equal signatures are the same failure."""
    status = verdict.fields.get("status") or verdict.fields.get("signal") or verdict.fields.get("exit_code")
    return f"{verdict.kind}:{status}:{verdict.text[:_SIGNATURE_TEXT]}"


def failure_of(verdict: Verdict) -> Failure:
    """The failure as the session shows it."""
    fields = dict(verdict.fields)
    if verdict.reset_us is not None:
        fields["reset_us"] = verdict.reset_us
    fields |= {"provider": verdict.scope.provider, "account": verdict.scope.account, "model": verdict.scope.model}
    return Failure(kind=verdict.kind, text=verdict.text, fields={k: v for k, v in fields.items() if v is not None})


def reason_of(verdict: Verdict) -> str:
    """The reason as one line."""
    words = verdict.kind.replace("_", " ")
    if verdict.kind == "killed":
        return f"killed (signal {verdict.fields.get('signal', 9)})"
    if verdict.kind == "terminated" and not verdict.text:
        return "asked to end, not by relight"
    return f"{words}: {verdict.text}" if verdict.text else words


def _after(verdict: Verdict, before: History) -> History:
    now = signature(verdict)
    return History(
        fruitless=before.fruitless + (1 if verdict.counts else 0),
        signature=now,
        same=before.same + 1 if before.signature == now else 1,
        once=before.once | {verdict.kind} if verdict.cure == "resume_once" else before.once,
    )


def _allowed(verdict: Verdict, policy: RunPolicy) -> int:
    if policy.retries is not None:
        return policy.retries
    tries = verdict.backoff.tries if verdict.backoff is not None else None
    return MAX_FRUITLESS if tries is None else tries


def _stopped(verdict: Verdict) -> Move:
    if verdict.kind == "refused":
        change = StatusChange(status="failed", reason=reason_of(verdict), failure=failure_of(verdict))
    else:
        change = StatusChange(status="terminated", reason=reason_of(verdict))
    return Move(change=change)


def _asks(verdict: Verdict, history: History) -> Move:
    change = StatusChange(status="failed", reason=reason_of(verdict), failure=failure_of(verdict))
    return Move(change=change, history=history)


def _quarantined(verdict: Verdict, history: History, name: str) -> Move:
    what = f"the same failure {history.same} times: {reason_of(verdict)}; release it: relight resume {name}"
    return Move(change=StatusChange(status="halted", reason=what, failure=failure_of(verdict)), history=history)


def _gives_up(verdict: Verdict, history: History) -> Move:
    times = f"{history.fruitless} endings without progress: " if history.fruitless > 1 else ""
    what = times + reason_of(verdict)
    return Move(change=StatusChange(status="failed", reason=what, failure=failure_of(verdict)), history=history)


def _again(verdict: Verdict, history: History, *, now_us: int, jitter: float) -> Move:
    wake_us = _wake_us(verdict, history, now_us=now_us, jitter=jitter)
    waits = verdict.cure in _LATER
    change = StatusChange(
        status="queued" if waits else "terminated",
        reason=reason_of(verdict),
        failure=failure_of(verdict),
        wake_us=wake_us if waits else None,
    )
    return Move(change=change, again=True, wake_us=wake_us, prompt=verdict.prompt, history=history)


_LATER: Final[frozenset[Cure]] = frozenset({"wait_until", "backoff"})


def _wake_us(verdict: Verdict, history: History, *, now_us: int, jitter: float) -> int | None:
    if verdict.cure == "wait_until":
        return verdict.wake_us
    if verdict.cure == "backoff":
        return now_us + _delay_us(verdict.backoff or _AT_ONCE, max(history.same, 1), jitter)
    if history.fruitless > 1:
        return now_us + _delay_us(_AT_ONCE, history.fruitless - 1, jitter)
    return None


def _delay_us(backoff: Backoff, failures: int, jitter: float) -> int:
    """Exponential backoff, half of it random, so that many sessions do not retry at the same moment."""
    ceiling = min(float(backoff.most_seconds), backoff.first_seconds * 2.0 ** min(failures - 1, 30))
    return round(ceiling * (0.5 + 0.5 * jitter) * _US)
