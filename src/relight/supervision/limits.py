"""Budget and token limits of a coding agent, enforced in its hooks: an agent at a limit gets no reply and is ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relight.journal.limits import Reached, spent, uncounted
from relight.sessions.limits import no_price

if TYPE_CHECKING:
    from relight.sessions.context import Context
    from relight.supervision.observe import Observer


def limit_of(context: Context, observer: Observer) -> Reached | None:
    """The budget or token limit that an agent has reached according to its transcript; or None."""
    policy = observer.recorder.identity.policy
    if policy.budget is not None and observer.unpriced is not None:
        return uncounted(policy, no_price(observer.unpriced))
    return spent(policy, observer.recorder.head)
