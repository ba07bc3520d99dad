"""What a resume, rewind or fork will do about open calls, shown before it is done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from relight.journal.effects.ledger import action_for
from relight.journal.fold import Effect, Fold, Slot
from relight.values.call import NOT_RUN_HERE, OUTCOME_UNKNOWN, Action, PlannedCall

_TEXTS: Final[dict[Action, str]] = {
    "run": "runs",
    "run_again": "runs again under the same key, as its effect allows",
    "probe": "its probe is asked whether it took effect",
    "carry": "is not run: it gets the result that was recorded at {at}",
    "tell_unknown": "is not run: the model is told that its outcome is unknown",
    "not_run_here": "is not run: it belongs to {belongs_to}",
    "settle": "is refused until it is settled: it began at {at}",
}
_CUT_OFF: Final = "is not run: the agent is told that it was cut off, and may ask for it again"


def planned_calls(fold: Fold, *, agent: bool) -> list[PlannedCall]:
    """Open calls in order, then keys of `once` that are known from elsewhere or in doubt.

    `agent`: a coding agent runs its tools itself, so nothing is run here; it gets what is known.
    """
    known = [(key, one) for key, one in fold.once.items() if one.outcome is None or one.carried_from]
    return [_call(slot, agent=agent) for slot in fold.open_slots()] + [_key(fold, key, one) for key, one in known]


def _call(slot: Slot, *, agent: bool) -> PlannedCall:
    action, prior = action_for(slot), slot.prior
    runs = action in ("run", "run_again", "probe")
    if agent and runs:
        action = "tell_unknown"
    at = _short_ref(prior.at) if prior is not None else ""
    text = _CUT_OFF if agent and runs else _TEXTS[action].format(at=at, belongs_to=prior.belongs_to if prior else "")
    if action == "run" and slot.generation > 1:
        text = f"runs again under a new key ({slot.key})"
    effect = slot.intent.effect if slot.intent is not None else prior.effect if prior is not None else None
    carried = prior.at if action == "carry" and prior is not None else None
    return PlannedCall(
        id=slot.site.id,
        name=slot.site.name,
        effect=effect,
        key=slot.key,
        action=action,
        text=text,
        carried_from=carried,
    )


def _key(fold: Fold, key: str, effect: Effect) -> PlannedCall:
    action: Action = "carry" if effect.outcome is not None else "settle"
    at = _short_ref(effect.carried_from) if effect.carried_from else f"@{effect.intent_seq}"
    generation = fold.generations.get(key, 1)
    return PlannedCall(
        id=key,
        name=key,
        effect="once",
        key=f"{key}/{generation}" if generation > 1 else key,
        action=action,
        text=_TEXTS[action].format(at=at),
        carried_from=effect.carried_from or None if action == "carry" else None,
    )


def _short_ref(ref: str) -> str:
    return f"@{ref.rpartition('@')[2]}"


def notice_for(calls: Iterable[PlannedCall]) -> str | None:
    """What the model will be told about calls whose outcome is unknown."""
    actions = {call.action: call for call in calls}
    if "tell_unknown" in actions:
        return OUTCOME_UNKNOWN
    if "not_run_here" in actions:
        return f"{NOT_RUN_HERE}{actions['not_run_here'].text.rpartition(' belongs to ')[2]}"
    return None
