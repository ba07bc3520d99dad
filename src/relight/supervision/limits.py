"""Budget and token limits of a coding agent, enforced in its hooks: an agent at a limit gets no reply and is ended."""

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
"""longest time that a hook is left without a reply while its agent is ended; less than the client's timeout"""


def limit_of(context: Context, observer: Observer) -> Reached | None:
    """The budget or token limit that an agent has reached according to its transcript; or None."""
    policy = observer.recorder.identity.policy
    if policy.budget is not None and observer.unpriced is not None:
        return uncounted(policy, no_price(observer.unpriced))
    return spent(policy, observer.recorder.head)


def stop_at_limit(context: Context, observer: Observer, live: LiveAttempt, heard: Heard) -> bool:
    """Before a tool or model call: whether a limit is reached. If so, blocks the hook until the agent was ended.

    The reply that reached the limit is recorded; a tool call in it does not begin."""
    if not observer.recorder.identity.policy.counts_usage:
        return False
    observer.catch_up(heard)
    limit = limit_of(context, observer)
    if limit is None:
        return False
    live.halted = live.halted or limit
    live.over.wait(HOLD_SECONDS)
    return True
