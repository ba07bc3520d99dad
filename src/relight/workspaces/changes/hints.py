"""Hints of what may have changed, and what gives them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Hints:
    """What may have changed since the last `drain`."""

    def __init__(self) -> None:
        self.names: dict[bytes, set[bytes]] = {}
        """directory to the names in it that may have changed"""
        self.lost: set[bytes] = set()
        """directories whose watch is gone; another may have replaced them: scan and watch again"""


class ChangeWatcher(Protocol):
    """What finds changes without a walk: inotify in `watch`, another system's events in `event_watcher`."""

    is_trusted: bool
    why: str
    """why it is not trusted"""

    def add(self, paths: Iterable[bytes]) -> None: ...
    def forget(self, path: bytes) -> None: ...
    def drain(self) -> Hints | None: ...
    def disable(self, why: str) -> None: ...
    def close(self) -> None: ...
