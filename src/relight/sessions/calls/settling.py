"""Settling: the outcome recorded when a person or the program decides about an effect in doubt.

Either the result it is taken to have returned, or that it may run again, under the next generation of its key, so that
an external service sees a new request.
"""

from __future__ import annotations

from typing import Any

import msgspec

from relight.errors import NotFound
from relight.journal.codec import isolated
from relight.journal.effects.ledger import next_generation
from relight.journal.fold import Fold, Slot
from relight.sessions.recorder import Recorder
from relight.values.call import Outcome


def settling_outcome(recorder: Recorder, key: str, result: Any, *, retry: bool) -> Outcome:
    """The outcome to record for an open effect: its result, or that it may run again. NotFound if there is no such
    effect."""
    found = retriable(recorder.fold, key) if retry else find_open(recorder.fold, key)
    if found is None:
        raise no_such_effect(recorder, key)
    if retry:
        return found
    return msgspec.structs.replace(found, status="ok", content=isolated(result, "the result"))


def retriable(fold: Fold, key: str) -> Outcome | None:
    """The outcome that lets an effect run again, by call id, effect key or `once` key; None if none could. An effect
    that may have begun gets the next generation of its key."""
    effect = fold.once.get(key)
    if effect is not None and (effect.outcome is None or effect.carried_from or effect.outcome.carried_from):
        generation = fold.generations.get(key, 1) + 1
        return Outcome(id=key, status="void", synthetic=True, generation=generation)
    slot = _open_slot(fold, key)
    if slot is None:
        return None
    generation = next_generation(slot)
    return Outcome(id=slot.site.id, asked_seq=slot.asked_seq, status="void", synthetic=True, generation=generation)


def find_open(fold: Fold, key: str) -> Outcome | None:
    """An outcome without content for the open effect that a person names; None if there is none."""
    effect = fold.once.get(key)
    if effect is not None and effect.outcome is None:
        return Outcome(id=key, synthetic=True, generation=fold.generations.get(key, 1))
    slot = _open_slot(fold, key)
    if slot is None:
        return None
    return Outcome(id=slot.site.id, asked_seq=slot.asked_seq, synthetic=True, generation=slot.generation)


def _open_slot(fold: Fold, key: str) -> Slot | None:
    return next((slot for slot in fold.open_slots() if key in (slot.site.id, slot.key)), None)


def no_such_effect(recorder: Recorder, key: str) -> NotFound:
    """NotFound, with the effects that are open."""
    open_keys = [slot.site.id for slot in recorder.fold.open_slots()]
    open_keys += [name for name, one in recorder.fold.once.items() if one.outcome is None]
    name = recorder.identity.name or recorder.identity.id
    hints = [f"see what is open: relight can-resume {name}"]
    return NotFound(key, what="open call", evidence=[f"open: {one}" for one in open_keys], hints=hints)
