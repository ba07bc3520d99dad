"""Budget and token limits of a coding agent, enforced in its hooks: an agent at a limit gets no reply and is ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relight.journal.limits import Reached, uncounted
from relight.sessions.limits import budgets_of, no_price

if TYPE_CHECKING:
    from relight.sessions.context import Context
    from relight.supervision.observe import Observer


def limit_of(context: Context, observer: Observer) -> Reached | None:
    """The budget or token limit that an agent has reached according to its transcript; or None."""
    recorder = observer.recorder
    budgets, policy = budgets_of(context, recorder.identity), recorder.identity.policy
    if observer.unpriced is not None and (covered := budgets.covering(policy)).budget is not None:
        return uncounted(covered, no_price(observer.unpriced))
    return budgets.spent(policy, recorder.head)
