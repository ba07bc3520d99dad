"""Playing a script: which turn answers this request.

In `turns` mode the replies in the request are laid along the slots. A slot is over when the calls of its last turn are
all there, so a reply that a kill cut between two of its calls is completed: only the missing ones are made. Calls that
a repair put into the reply before theirs count for the slot they are of.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from tests.support.fake_model.conversation import Item, texts, turns
from tests.support.fake_model.script import DONE, Call, Script, Turn
from tests.support.fake_model.tools import make


class Player:
    """One performance of a script. Safe for threads."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._played: Counter[int] = Counter()
        self._lock = Lock()
        self._parts = {text: Player(part) for text, part in script.parts.items()}

    def next(self, items: Sequence[Item], tools: dict[str, dict[str, Any]]) -> tuple[int, Turn]:
        """The slot and the turn for a request with this conversation and these tools."""
        prompt = "\n".join(texts([item for item in items if item.turn == 0], "user")) if self._parts else ""
        for text, part in self._parts.items():
            if text in prompt:
                return part.next(items, tools)
        with self._lock:
            if self._script.mode == "requests":
                slot, missing = self._played.total(), None
            else:
                slot, missing = _stand(self._script, items, tools)
            tries = self._script.slots[slot] if slot < len(self._script.slots) else (DONE,)
            turn = tries[min(self._played[slot], len(tries) - 1)]
            self._played[slot] += 1
        if missing is None or not turn.calls:
            return slot, turn
        return slot, replace(turn, calls=missing, text="", thinking="")


def _stand(
    script: Script, items: Sequence[Item], tools: dict[str, dict[str, Any]]
) -> tuple[int, tuple[Call, ...] | None]:
    """The slot a conversation stands on, and what is left of its calls if some were made."""
    results = {item.id: str(item.value) for item in items if item.kind == "result"}
    slot, made, missing = 0, [], None
    for number in range(1, turns(items) + 1):
        made += [item for item in items if item.kind == "call" and item.turn == number]
        done = False
        while not done or made:
            wanted = script.slots[slot][-1] if slot < len(script.slots) else DONE
            left, rest = _left(wanted, made, results, tools)
            missing = left if 0 < len(left) < len(wanted.calls) else None
            if left or (done and not wanted.calls):
                break
            slot, made, done = slot + 1, rest, True
    return slot, missing


def _left(
    wanted: Turn, made: Sequence[Item], results: dict[str, str], tools: dict[str, dict[str, Any]]
) -> tuple[tuple[Call, ...], list[Item]]:
    """The calls of a turn that were not made yet, or have to be made again; and those made that are of another."""
    usable = [item for item in made if not (wanted.again and re.search(wanted.again, results.get(item.id, "")))]
    left = []
    for call in wanted.calls:
        found = next((item for item in usable if _same(call, item, tools)), None)
        if found is None:
            left.append(call)
        else:
            usable.remove(found)
    return tuple(left), usable


def _same(call: Call, item: Item, tools: dict[str, dict[str, Any]]) -> bool:
    """Is this the scripted call? Agents add defaults of their own to the arguments."""
    ours = make(call, tools, "")
    if ours.name != item.name:
        return False
    if isinstance(ours.input, dict) and isinstance(item.value, dict):
        # The reason of a command is lost where an agent in between had no place for it.
        return all(item.value.get(name) == value for name, value in ours.input.items() if name != "description")
    return bool(ours.input == item.value)
