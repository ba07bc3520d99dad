"""Limits of money, tokens and time, where they act: before a program's next model call, and before an agent's.

What is used up is decided in journal/limiting.py. A program of one's own is halted by the library itself: `loop` before
it calls the model, and `append` with the reply that reached the limit, which is kept. A coding agent is halted through
its hook, which is not answered any more. The supervisor ends what does neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from relight.errors import LimitReached, NotResumable, UsageError
from relight.journal.limiting import Reached, overtime, reached, spent, uncounted
from relight.model.policy import Allowance, RunPolicy
from relight.model.step import Changes
from relight.model.usage import Usage

if TYPE_CHECKING:
    from relight.engine.context import Context
    from relight.engine.observing import Observer
    from relight.engine.reading import Found
    from relight.engine.session import Session
    from relight.engine.starting import Life
    from relight.ports.agent import AgentAdapter, Heard, Surroundings

HOLD_SECONDS: Final = 15.0
"""that a hook is kept waiting at most while its agent is ended; less than the patience of its client"""


# -- programs of one's own ------------------------------------------------------------------------------------------


def allowance(*, budget: Any = None, budget_tokens: Any = None, time_limit: Any = None) -> Allowance:
    """Limits as somebody gave them. UsageError where one is no limit."""
    given = {"budget": budget, "budget_tokens": budget_tokens, "time_limit": time_limit}
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise UsageError(f"{name} is a number over 0, not {value!a}")
    if budget_tokens is not None and budget_tokens != int(budget_tokens):
        raise UsageError(f"budget_tokens is a whole number of tokens, not {budget_tokens!a}")
    return Allowance(
        budget=budget, budget_tokens=int(budget_tokens) if budget_tokens is not None else None, time_limit=time_limit
    )


def priced(context: Context, usage: Usage | None, model: str | None) -> Usage | None:
    """With what it cost, where the caller did not say and the price of the model is known."""
    if usage is None or usage.cost is not None or not usage.tokens:
        return usage
    price = context.price(model)
    return usage if price is None else msgspec.structs.replace(usage, cost=price.cost(usage))


def note_reply(s: Session, messages: Sequence[Any], usage: Usage | None) -> None:
    """A reply that tells nothing of what it used makes a limit of money or tokens impossible to hold."""
    policy = s._recorder.identity.policy
    if not policy.counts_usage or not any(map(s._recorder.fold.format.is_assistant, messages)):
        return
    if usage is None or not (usage.tokens or usage.cost):
        s._uncounted = "a reply came without its usage"
    elif policy.budget is not None and usage.cost is None:
        s._uncounted = no_price(s._recorder.identity.model)


def no_price(model: str | None) -> str:
    """Why money cannot be counted, and what can."""
    which = f"no price is known for the model {model}" if model else "nobody said which model replies"
    return f"{which}; give it one in RELIGHT_PRICES, or limit tokens instead (budget_tokens)"


def reached_by(s: Session) -> Reached | None:
    """The limit that keeps this session from another model call."""
    recorder, policy = s._recorder, s._recorder.identity.policy
    used = reached(policy, recorder.head, now_us=s._context.clock.now_us())
    return used or (uncounted(policy, s._uncounted) if s._uncounted is not None else None)


def halt_at_limit(s: Session) -> bool:
    """Before a model call: halt the session where a limit is reached. Was it?"""
    limit = reached_by(s)
    if limit is None:
        return False
    s._record("status", Changes(status=limit.change), release=True)
    return True


def stop_own_loop(s: Session, recorded: Any) -> None:
    """After a reply was recorded by a program with a loop of its own: LimitReached where it must not ask for more."""
    recorder = s._recorder
    if recorder.identity.policy == _NO_LIMITS or not recorder.owns:
        return
    messages = recorded if isinstance(recorded, list | tuple) else [recorded]
    if not any(map(recorder.fold.format.is_assistant, messages)):
        return  # only a reply leads to the next one; what the user says is kept whatever was spent
    limit = reached_by(s)
    if limit is not None:
        halt_at_limit(s)
        raise LimitReached(s.name or s.id, limit.why)


_NO_LIMITS: Final = RunPolicy()


# -- coding agents --------------------------------------------------------------------------------------------------


def limit_of(context: Context, observer: Observer) -> Reached | None:
    """The limit of money or tokens that an agent has reached, as far as its transcript tells."""
    policy = observer.recorder.identity.policy
    if policy.budget is not None and observer.unpriced is not None:
        return uncounted(policy, no_price(observer.unpriced))
    return spent(policy, observer.recorder.head)


def stop_at_limit(context: Context, observer: Observer, life: Life, heard: Heard) -> bool:
    """Before a tool or a model call of an agent: is a limit reached? Then its hook waits until it was ended.

    The reply that reached the limit is recorded; a tool that it asks for is not begun."""
    if not observer.recorder.identity.policy.counts_usage:
        return False
    observer.catch_up(heard)
    limit = limit_of(context, observer)
    if limit is None:
        return False
    life.halted = life.halted or limit
    life.over.wait(HOLD_SECONDS)
    return True


# -- before a start -------------------------------------------------------------------------------------------------


def check_enforceable(
    context: Context, adapter: AgentAdapter, command: Sequence[str], policy: RunPolicy, where: Surroundings
) -> None:
    """UsageError where a limit of money or tokens could not be held."""
    if not policy.counts_usage:
        return
    if adapter.capabilities.transcript:
        model = adapter.model_of(command, where)
        if policy.budget is not None and model is not None and context.price(model) is None:
            hints = ["limit tokens instead: --budget-tokens N", "or give it a price: RELIGHT_PRICES=FILE"]
            raise UsageError(f"no price is known for the model {model}, so a budget cannot be counted", hints=hints)
        return
    if policy.library or context.uses_library(command, where.directory):
        return
    hints = ["limit its time instead: --time-limit SECONDS"]
    hints += ["or, where it opens its session with relight, say so: --library"]
    raise UsageError("this program does not tell what it uses, so a budget cannot be held", hints=hints)


def refuse_used_up(context: Context, found: Found, policy: RunPolicy) -> None:
    """NotResumable where a limit is reached already: it would be halted before it did anything."""
    limit = spent(policy, found.whole_head()) or overtime(policy, found.whole_head(), now_us=context.clock.now_us())
    if limit is None:
        return
    name = found.identity.name or found.identity.id[:8]
    flag = limit.limit.replace("_", "-")
    hints = [f"allow more: relight resume {name} --{flag} N"]
    raise NotResumable(name, limit.why, hints=hints)
