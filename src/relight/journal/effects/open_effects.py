"""The effects of a fold that have begun and not ended, as a head lists them."""

from __future__ import annotations

from relight.journal.fold import Fold, Slot
from relight.values.call import Intent, OpenEffect


def open_effects(fold: Fold, step_seq: int, at_us: int) -> tuple[OpenEffect, ...]:
    """Started effects without an outcome, as a head records them."""
    begun = [_begun(slot) for slot in fold.open_slots() if slot.in_doubt]
    begun += [
        (effect.intent, effect.intent_seq, effect.started_us)
        for effect in (*fold.once.values(), *fold.hooked.values())
        if effect.outcome is None
    ]
    return tuple(
        OpenEffect(
            id=intent.id,
            name=intent.name,
            effect=intent.effect,
            asked_seq=intent.asked_seq,
            intent_seq=seq if seq is not None else step_seq,
            started_us=us if us is not None else at_us,
        )
        for intent, seq, us in begun
        if intent is not None
    )


def _begun(slot: Slot) -> tuple[Intent | None, int | None, int | None]:
    prior = slot.prior
    if slot.intent is not None or prior is None or prior.effect is None:
        return slot.intent, slot.intent_seq, slot.started_us
    intent = Intent(id=slot.site.id, name=slot.site.name, effect=prior.effect, asked_seq=slot.asked_seq)
    return intent, prior.intent_seq, prior.started_us
