"""The events of a window, with the other steps of every call in it, however far away in the journal they are.

Some steps around a window are read with it, which is enough for nearly every call. For any other one the journal is
searched outwards, block by block. A block is read once, and remembered as the steps that name each call: no step ever
changes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

from relight.errors import Corrupt
from relight.history.events import Event
from relight.journal.formats.registry import detect
from relight.values.info import SessionInfo
from relight.values.view import Call, Result

if TYPE_CHECKING:
    from relight.library.facade import Relight

T = TypeVar("T")

SEED: Final = 40
"""steps around a window that are read with it"""
_BLOCK: Final = 1000
_MAX_BLOCKS: Final = 400
_MAX_FAR: Final = 5000
"""far steps that one window takes in; reached only where a provider gives every call the same id"""

Unpaired = tuple[Collection[str], Collection[str]]
"""ids of calls whose other steps are looked for before, and of those for which they are looked for after"""


class _Block:
    """The steps of a part of a journal that name each call."""

    def __init__(self, after: int) -> None:
        self.lock, self.upto, self.named = threading.Lock(), after, dict[str, list[int]]()

    def read(self, rl: Relight, info: SessionInfo, upto: int) -> None:
        """Take the steps in that are new; what follows a damaged one is not named."""
        with self.lock:
            if self.upto >= upto:
                return
            events, _ = _readable(rl, info, self.upto, upto)
            for event in events:
                for call in calls_of(event, info.provider):
                    self.named.setdefault(call, []).append(event.seq)
            self.upto = upto


_BLOCKS: Final[WeakKeyDictionary[Relight, OrderedDict[tuple[str, int], _Block]]] = WeakKeyDictionary()
_LOCK: Final = threading.Lock()


def read_around(
    rl: Relight,
    info: SessionInfo,
    window: tuple[int, int],
    read: Callable[[list[Event]], T],
    unpaired: Callable[[T], Unpaired],
    margin: int = SEED,
) -> tuple[T, Corrupt | None]:
    """What `read` makes of the events with after < seq <= upto, of those of some steps around them, and of every other
    one that names a call which `unpaired` finds without its other half; and the damage that ends them."""
    low, high, reach = max(0, window[0] - margin), min(info.seq, window[1] + margin), _BLOCK
    events, damage = _readable(rl, info, low, high)
    most = len(events) + _MAX_FAR
    while True:
        found = read(events)
        before, later = unpaired(found)
        is_searched = (not before or low == 0) and (not later or high == info.seq)
        if damage is not None or is_searched or len(events) >= most:
            return found, damage
        lower, higher = max(0, low - reach), min(info.seq, high + reach)
        seqs = _naming(rl, info, before, lower, low) | _naming(rl, info, later, high, higher)
        events = _with(rl, info, events, sorted(seqs))
        low, high, reach = lower, higher, 2 * reach


def calls_of(event: Event, provider: str | None) -> set[str]:
    """The ids of the calls that a step requests, begins or ends."""
    named = {str(one["id"]) for one in (*event.intents, *event.outcomes)}
    for message in detect(event.messages, provider).read(event.messages) if event.messages else ():
        named.update(
            one.id if isinstance(one, Call) else one.call for one in message.blocks if isinstance(one, Call | Result)
        )
    return named


def _readable(rl: Relight, info: SessionInfo, after: int, upto: int) -> tuple[list[Event], Corrupt | None]:
    """The events up to the first damaged one."""
    events: list[Event] = []
    try:
        for event in rl.history.events(info.id, after=after, upto=upto):
            events.append(event)
    except Corrupt as error:
        return events, error
    return events, None


def _with(rl: Relight, info: SessionInfo, events: Sequence[Event], seqs: Sequence[int]) -> list[Event]:
    """The events with these steps, each with the one before it, whose time is when it began."""
    found = {event.seq: event for event in events}
    for seq in seqs[:_MAX_FAR]:
        if seq not in found:
            found.update((event.seq, event) for event in _readable(rl, info, max(0, seq - 2), seq)[0])
    return [found[seq] for seq in sorted(found)]


def _naming(rl: Relight, info: SessionInfo, calls: Collection[str], after: int, upto: int) -> set[int]:
    """The steps with after < seq <= upto that name one of these calls."""
    found = set[int]()
    for number in range(after // _BLOCK, (upto - 1) // _BLOCK + 1) if calls else ():
        with _LOCK:
            blocks = _BLOCKS.setdefault(rl, OrderedDict())
            block = blocks.pop((info.id, number), None) or _Block(number * _BLOCK)
            blocks[info.id, number] = block
            while len(blocks) > _MAX_BLOCKS:
                blocks.popitem(last=False)
        block.read(rl, info, min(info.seq, (number + 1) * _BLOCK))
        found.update(seq for call in calls for seq in block.named.get(call, ()) if after < seq <= upto)
    return found
