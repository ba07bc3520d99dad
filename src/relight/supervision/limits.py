"""Limits of money and tokens of a coding agent: it is halted through its hook, which is not answered any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from relight.journal.limits import Reached, spent, uncounted
from relight.sessions.limits import no_price

if TYPE_CHECKING:
    from relight.ports.agent import Heard
    from relight.sessions.context import Context
    from relight.supervision.observe import Observer
    from relight.supervision.start import LiveAttempt

HOLD_SECONDS: Final = 15.0
"""that a hook is kept waiting at most while its agent is ended; less than the patience of its client"""


def limit_of(context: Context, observer: Observer) -> Reached | None:
    """The limit of money or tokens that an agent has reached, as far as its transcript tells."""
    policy = observer.recorder.identity.policy
    if policy.budget is not None and observer.unpriced is not None:
        return uncounted(policy, no_price(observer.unpriced))
    return spent(policy, observer.recorder.head)


def stop_at_limit(context: Context, observer: Observer, live: LiveAttempt, heard: Heard) -> bool:
    """Before a tool or a model call of an agent: is a limit reached? Then its hook waits until it was ended.

    The reply that reached the limit is recorded; a tool that it asks for is not begun."""
    if not observer.recorder.identity.policy.counts_usage:
        return False
    observer.catch_up(heard)
    limit = limit_of(context, observer)
    if limit is None:
        return False
    live.halted = live.halted or limit
    live.over.wait(HOLD_SECONDS)
    return True
