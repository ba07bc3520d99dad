"""Sessions as folded, shared by who reads them: of many that ask for the same state one reads and folds it.

A page of messages or calls needs the whole session folded, which takes as long as the session is. What a session is at
a seq never changes, so the result is kept under it, for the few that are looked at now; whoever comes while it is being
made waits for it instead of making it again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from relight.library.facade import Loaded, Relight
from relight.values.ref import parse_ref

KEPT: Final = 8
MAX_BYTES: Final = 64 * 1024 * 1024
"""of a session's journal; what is larger is folded for each who asks, and not kept"""

_Key = tuple[str, int, int, str]


class Folds:
    """Of one server. Thread-safe; bounded, the one unused longest goes."""

    def __init__(self, rl: Relight) -> None:
        self._rl = rl
        self._known: OrderedDict[_Key, Loaded] = OrderedDict()
        self._making: dict[_Key, threading.Event] = {}
        self._lock = threading.Lock()
        self.made = 0
        """how many were folded, for who watches"""

    def load(self, ref: str) -> Loaded:
        """As `Relight.load`; the same value for all who ask for the same state, not to be changed."""
        info, asked = self._rl.get(ref), parse_ref(ref)
        at = str(asked.seq) if asked.seq is not None else ref.rpartition("@")[2] if "@" in ref else ""
        if info.size_bytes > MAX_BYTES or (at and not at.isdigit()):  # a label can be given to another checkpoint
            return self._made(ref)
        key = (info.id, info.seq, info.head, at)
        while True:
            with self._lock:
                if key in self._known:
                    self._known.move_to_end(key)
                    return self._known[key]
                event = self._making.get(key)
                if event is None:
                    mine = self._making[key] = threading.Event()
                    break
            event.wait()
        try:
            found = self._made(ref)
            with self._lock:
                self._known[key] = found
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
            return found
        finally:  # where it failed the next who waits tries it, and is told the same
            with self._lock:
                del self._making[key]
            mine.set()

    def _made(self, ref: str) -> Loaded:
        self.made += 1
        return self._rl.load(ref)
