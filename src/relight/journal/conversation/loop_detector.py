"""The loop detector: the same calls with the same results, again and again, lead nowhere.

A turn is the calls of one reply with what came of them. A loop is a cycle of up to `LONGEST_CYCLE` turns (A, A, A or
A, B, A, B) that came so many times in a row, nothing in it different. A call whose result changes, such as polling
that makes progress, is no loop.
"""

from __future__ import annotations

from typing import Any, Final

from relight.journal.codec import encoded
from relight.journal.fold import Fold, Slot
from relight.values.view import Result

LONGEST_CYCLE: Final = 4
"""turns that a cycle may have before it repeats"""


def repeated(fold: Fold, *, since: int, repeats: int) -> str | None:
    """The reason to halt, or None. Looks at the last turns only: a conversation may be long.

    Only at what was asked after `since`: whoever resumes a halted session wants it to go on.
    """
    if repeats < 1:
        return None
    turns = _last_turns(fold, since, LONGEST_CYCLE * repeats)
    asked = [encoded([[slot.site.name, slot.site.parsed()] for slot in slots]) for slots in turns]
    for length in range(1, LONGEST_CYCLE + 1):
        newest = turns[: length * repeats]
        # What was asked is compared first: results may be large, and mostly they need not be looked at.
        if _is_cycle(asked[: length * repeats], length, repeats) and _same_results(fold, newest, length, repeats):
            return _reason(newest[:length], repeats)
    return None


def _is_cycle(values: list[bytes], length: int, repeats: int) -> bool:
    """Are these so many rounds of the same values?"""
    return len(values) == length * repeats and values == values[:length] * repeats


def _same_results(fold: Fold, turns: list[list[Slot]], length: int, repeats: int) -> bool:
    if any(slot.is_open for slots in turns for slot in slots):
        return False
    results = [encoded([_result(fold, slot) for slot in slots]) for slots in turns]
    return _is_cycle(results, length, repeats)


def _reason(cycle: list[list[Slot]], repeats: int) -> str:
    calls = ", then ".join(f"{slots[0].site.name}({str(slots[0].site.parsed())[:120]})" for slots in reversed(cycle))
    same = "the same result" if len(cycle) == 1 else "the same results"
    return f"loop: {calls} gave {same} {repeats} times in a row"


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


def _result(fold: Fold, slot: Slot) -> Any:
    """What came of a call, without what is different each time: ids."""
    if slot.outcome is not None:
        return [slot.outcome.content, slot.outcome.status]
    if slot.carrier is None:
        return None
    blocks = [block for message in fold.format.read([slot.carrier]) for block in message.blocks]
    return [[one.text, one.status] for one in blocks if isinstance(one, Result) and one.call == slot.site.id]
