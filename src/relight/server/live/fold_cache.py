"""Cache of folded sessions: of many requests for the same state one reads and folds it, the others wait for it.

A page of messages or calls needs the whole session folded, which takes time in proportion to its length. The state of a
session at a seq never changes, so a result is valid as long as it is cached.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from relight.library.facade import Relight
from relight.library.loaded import Loaded
from relight.values.ref import parse_ref

MAX_CACHED: Final = 8
MAX_BYTES: Final = 64 * 1024 * 1024
"""of a session's journal; a larger one is folded for every request, and not cached"""

_Key = tuple[str, int, int, str]


class FoldCache:
    """LRU cache of folded sessions. Thread-safe."""

    def __init__(self, rl: Relight) -> None:
        self._rl = rl
        self._cached: OrderedDict[_Key, Loaded] = OrderedDict()
        self._loading: dict[_Key, threading.Event] = {}
        self._lock = threading.Lock()
        self.loads = 0
        """how many sessions were folded, for tests"""

    def load(self, ref: str) -> Loaded:
        """Like `Relight.load`; the result is shared between callers and must not be modified."""
        info, asked = self._rl.sessions.get(ref), parse_ref(ref)
        at = str(asked.seq) if asked.seq is not None else ref.rpartition("@")[2] if "@" in ref else ""
        # A ref by label is not cached: the label can be moved to another checkpoint without a new seq.
        if info.size_bytes > MAX_BYTES or (at and not at.isdigit()):
            return self._load(ref)
        key = (info.id, info.seq, info.head, at)
        while True:
            with self._lock:
                if key in self._cached:
                    self._cached.move_to_end(key)
                    return self._cached[key]
                event = self._loading.get(key)
                if event is None:
                    mine = self._loading[key] = threading.Event()
                    break
            event.wait()
        try:
            found = self._load(ref)
            with self._lock:
                self._cached[key] = found
                while len(self._cached) > MAX_CACHED:
                    self._cached.popitem(last=False)
            return found
        finally:
            # Also on failure: the waiters loop, one of them loads again and gets the error itself.
            with self._lock:
                del self._loading[key]
            mine.set()

    def _load(self, ref: str) -> Loaded:
        self.loads += 1
        return self._rl.history.load(ref)
