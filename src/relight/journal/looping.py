"""The loop detector: the same calls with the same results, so many times in a row, lead nowhere."""

from __future__ import annotations

from typing import Any

from relight.journal.codec import encoded
from relight.journal.fold import Fold, Slot
from relight.model.view import Result


def repeated(fold: Fold, *, since: int, repeats: int) -> str | None:
    """The reason to halt, or None. Looks at the last turns only: a conversation may be long.

    Only at what was asked after `since`: whoever resumes a halted session wants it to go on.
    """
    if repeats < 1:
        return None
    turns = _last_turns(fold, since, repeats)
    if len(turns) < repeats or any(slot.is_open for calls in turns for slot in calls):
        return None
    if len({_signature(fold, calls) for calls in turns}) > 1:
        return None
    site = turns[0][0].site
    return f"loop: {site.name}({str(site.parsed())[:120]}) gave the same result {repeats} times in a row"


def _last_turns(fold: Fold, since: int, most: int) -> list[list[Slot]]:
    """The calls of the last replies that made any, newest reply first."""
    turns: list[list[Slot]] = []
    asked = 0
    for slot in reversed(fold.slots()):
        if slot.asked_seq <= since:
            break
        if slot.asked_seq != asked:
            if len(turns) == most:
                break
            asked = slot.asked_seq
            turns.append([])
        turns[-1].append(slot)
    return turns


def _signature(fold: Fold, slots: list[Slot]) -> bytes:
    return encoded([[slot.site.name, slot.site.parsed(), _result(fold, slot)] for slot in slots])


def _result(fold: Fold, slot: Slot) -> Any:
    """What came of a call, without what is different each time: ids."""
    if slot.outcome is not None:
        return [slot.outcome.content, slot.outcome.status]
    if slot.carrier is None:
        return None
    blocks = [block for message in fold.format.read([slot.carrier]) for block in message.blocks]
    return [[one.text, one.status] for one in blocks if isinstance(one, Result) and one.call == slot.site.id]
