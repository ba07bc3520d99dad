"""Failover of one supervised session: the next agent after a usage limit, an overloaded provider or a refused key."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from relight.errors import RelightError
from relight.history.loading import resolve
from relight.journal.retry import Move, failure_of, reason_of
from relight.sessions.context import Context
from relight.supervision import hand_over, launch
from relight.supervision.hand_over import Handed
from relight.supervision.waiting import account_of, limited_until
from relight.values.ending import FailureClass, Verdict
from relight.values.options import ResumeOptions
from relight.values.session import Away, Identity
from relight.values.status import StatusChange

FALLS: Final[frozenset[FailureClass]] = frozenset({"usage_limit", "rate_limit", "overloaded", "auth", "billing"})
"""endings that another provider does not share"""
_OVERLOADED_SECONDS: Final = 300.0
"""an overloaded provider is not tried again before"""


def next_agent(
    current: str, fallback: Sequence[str], *, home: str, returns: bool, unusable: Collection[str]
) -> str | None:
    """The agent that continues after `current` ended so; None: none of them can. `home` is the agent that the session
    was begun with, which is tried first if it may return."""
    order = [*([home] if returns else []), *fallback]
    return next((name for name in dict.fromkeys(order) if name != current and name not in unusable), None)


class Failover:
    """What a supervisor remembers about the agents of its session. Off unless the policy names a fallback."""

    def __init__(self, context: Context, session: str) -> None:
        self._context, self._session = context, session
        self._unusable: dict[str, int | None] = {}
        """agents that ended so: until when, None: for the life of this supervisor"""
        self._chosen: Handed | None = None

    def decide(self, verdict: Verdict) -> Move | None:
        """What follows an ending: halted at the last permitted usage limit, or the next agent at once. None: neither
        applies, or no other agent can continue."""
        identity = resolve(self._context.store, self._session).identity
        if verdict.kind == "usage_limit":
            identity = self._context.store.update(self._session, _one_window_more)
            max_windows = identity.policy.windows
            if max_windows is not None and identity.windows >= max_windows:
                why = f"it reached {identity.windows} usage limits, of {max_windows} allowed: {reason_of(verdict)}"
                return Move(change=StatusChange(status="halted", reason=why, failure=failure_of(verdict)))
        if verdict.kind not in FALLS or not identity.policy.fallback:
            return None
        current = self._context.agent(identity).name
        self._unusable[current] = self._until(verdict)
        home = identity.away or Away(home=current, until_us=self._unusable[current])
        while (name := self._next(identity, current, home)) is not None:
            if (chosen := self._able(name, home)) is not None:
                self._chosen = chosen
                reason = f"{reason_of(verdict)}; it continues in {name}"
                change = StatusChange(status="terminated", reason=reason, failure=failure_of(verdict))
                return Move(change=change, again=True)
            self._unusable[name] = None
        return None

    def next(self) -> Handed | None:
        """For the next attempt, to be written with its claim: the chosen agent, or the first one again if its limit is
        over."""
        found = resolve(self._context.store, self._session)
        chosen, self._chosen = self._chosen, None
        if chosen is None and hand_over.due_home(self._context, found.identity) is not None:
            after = hand_over.handed(self._context, found, ResumeOptions()).identity
            chosen = Handed(before=found.identity, after=after)
        return chosen

    def _until(self, verdict: Verdict) -> int | None:
        """When an agent that ended so can be tried again; None: only a person can make it work."""
        if verdict.cure == "wait_until":
            return verdict.wake_us
        return self._context.clock.now_us() + round(_OVERLOADED_SECONDS * 1e6) if verdict.cure == "backoff" else None

    def _next(self, identity: Identity, current: str, away: Away) -> str | None:
        now_us = self._context.clock.now_us()
        unusable = {name for name, until_us in self._unusable.items() if until_us is None or until_us > now_us}
        policy = identity.policy
        return next_agent(current, policy.fallback, home=away.home, returns=policy.returns, unusable=unusable)

    def _able(self, name: str, away: Away) -> Handed | None:
        """The session with this agent; None, with a notice, if it cannot be started or has met a limit itself."""
        context = self._context
        found = resolve(context.store, self._session)
        try:
            handed = hand_over.handed(context, found, ResumeOptions(agent=name))
            adapter, identity = context.agent(handed.identity), handed.identity
            launch.check_program(
                context, adapter, identity.command or (), identity.directory or ".", identity.runtime or "process"
            )
            if limited_until(context, handed, adapter.provider, account_of(context, identity)) is not None:
                return None
        except RelightError as error:
            context.notify(f"{name} cannot continue: {error}")
            return None
        after = msgspec.structs.replace(identity, away=None if name == away.home else away)
        return Handed(before=found.identity, after=after)


def _one_window_more(identity: Identity) -> Identity:
    return msgspec.structs.replace(identity, windows=identity.windows + 1)
