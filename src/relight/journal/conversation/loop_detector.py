"""The loop detector: finds the same calls with the same results, repeated.

A turn is the calls of one reply with their results. A loop is a cycle of up to `MAX_CYCLE_TURNS` turns (A, A, A or A,
B, A, B) that repeats often enough with nothing different in it. A call whose result changes, such as polling with
progress, is no loop.
"""

from __future__ import annotations

from typing import Any, Final

from relight.journal.codec import encoded
from relight.journal.fold import Fold, Slot
from relight.values.view import Result

MAX_CYCLE_TURNS: Final = 4
"""length of the longest cycle that is detected"""


def repeated(fold: Fold, *, since: int, repeats: int) -> str | None:
    """The reason to halt, or None. Reads only the last turns: a conversation may be long.

    Calls up to `since` do not count: resuming a halted session means that it should continue.
    """
    if repeats < 1:
        return None
    turns = _last_turns(fold, since, MAX_CYCLE_TURNS * repeats)
    asked = [encoded([[slot.site.name, slot.site.parsed()] for slot in slots]) for slots in turns]
    for length in range(1, MAX_CYCLE_TURNS + 1):
        newest = turns[: length * repeats]
        # Arguments are compared first: results may be large, and mostly need not be compared at all.
        if _is_cycle(asked[: length * repeats], length, repeats) and _same_results(fold, newest, length, repeats):
            return _reason(newest[:length], repeats)
    return None


def _is_cycle(values: list[bytes], length: int, repeats: int) -> bool:
    """Whether these are so many rounds of the same values."""
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
    """The result of a call without its ids, which differ each time."""
    if slot.outcome is not None:
        return [slot.outcome.content, slot.outcome.status]
    if slot.carrier is None:
        return None
    blocks = [block for message in fold.format.read([slot.carrier]) for block in message.blocks]
    return [[one.text, one.status] for one in blocks if isinstance(one, Result) and one.call == slot.site.id]
