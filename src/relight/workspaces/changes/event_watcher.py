"""Watcher for systems without inotify: FSEvents on macOS, kqueue on the BSDs, through `watchfiles` (extra `watch`).

Their events arrive late and without a sign of loss, so each `drain` writes a marker file beside the store and waits for
its event: events of one stream come in order, so those of earlier changes have come too. Two streams are read, since
one may lose what arrives in the moment in which it is emptied. A drain means "walk" wherever events could be missing or
mistaken: too many of them, a directory that came or went, a name that the system may spell differently, no marker.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Final

from relight.system import private_directories
from relight.workspaces.changes.hints import Hints

STREAMS: Final = 2
MAX_EVENTS: Final = 512
"""events between two drains; with more of them the system may have dropped some"""
MARKER_SECONDS: Final = 1.0
"""how long a marker's event is waited for"""
_STEP_MS: Final = 1
_TURN_MS: Final = 50
_MODIFIED: Final = 2

Event = tuple[int, str]
"""kind of change, path"""


class EventWatcher:
    """One recursive watch on a root. `markers` is a directory of ours on the same file system."""

    def __init__(self, root: bytes, markers: Path) -> None:
        self._root, self._markers = root, markers
        self._known: set[bytes] = set()
        self._streams: list[Generator[set[Event], None, None]] = []
        self.is_trusted, self.why = True, ""
        try:
            private_directories.make(markers)
            if os.stat(root).st_dev != os.stat(markers).st_dev:
                raise OSError("the store is on another file system")
            for _ in range(STREAMS):
                self._streams.append(_stream(os.fsdecode(root), str(markers)))
                next(self._streams[-1])  # watching begins with the first call
        except (OSError, RuntimeError, UnicodeError, StopIteration) as error:  # RuntimeError: the library's own
            self.disable(str(error) or "it could not be started")

    def add(self, paths: Iterable[bytes]) -> None:
        """Directories that are captured. They are watched already, as everything below the root."""
        self._known.update(paths)

    def forget(self, path: bytes) -> None:
        """A directory that is not captured any more."""
        self._known.discard(path)

    def disable(self, why: str) -> None:
        """Stop watching: `drain` returns None from now on."""
        self.is_trusted, self.why = False, why
        self.close()

    def drain(self) -> Hints | None:
        """Directories in which something may have changed since the last time; None means "walk"."""
        if not self.is_trusted:
            return None
        try:
            events = self._events()
        except (OSError, RuntimeError, StopIteration) as error:
            self.disable(str(error) or "the events ended")
            return None
        return hints_of(events, self._root, self._known)

    def _events(self) -> set[Event]:
        marker = self._markers / secrets.token_hex(8)
        marker.touch(mode=0o600)
        deadline = time.monotonic() + MARKER_SECONDS
        found: set[Event] = set()
        try:
            for stream in self._streams:
                has_come = False
                while not has_come:
                    batch = next(stream)
                    found |= batch
                    has_come = any(path.endswith(marker.name) for _, path in batch)
                    if not has_come and time.monotonic() > deadline:
                        raise OSError("events did not arrive in time")
        finally:
            marker.unlink(missing_ok=True)
        markers = f"{self._markers}{os.sep}"
        return {event for event in found if not event[1].startswith(markers)}

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        self._streams.clear()


def hints_of(events: set[Event], root: bytes, known: set[bytes]) -> Hints | None:
    """The directories to be scanned for these events; None if only a walk is certain to see everything."""
    if len(events) > MAX_EVENTS:
        return None
    hints = Hints()
    for kind, text in events:
        full = os.fsencode(text)
        if full != root and not full.startswith(root + b"/"):
            return None
        path = full[len(root) + 1 :]
        is_directory = path in known
        if not path.isascii() or (is_directory and kind != _MODIFIED):
            return None
        if is_directory:
            hints.lost.add(path)
        if path:
            hints.lost.add(_nearest(path, known))
    return hints


def _nearest(path: bytes, known: set[bytes]) -> bytes:
    """The nearest directory above a path that is captured; what is new or ignored in it is seen by its scan."""
    while path:
        path = path.rpartition(b"/")[0]
        if path in known:
            return path
    return path


def _stream(*paths: str) -> Generator[set[Event], None, None]:
    """The events below these paths, batch by batch; an empty one after a while without any."""
    from watchfiles import watch

    found = watch(
        *paths, watch_filter=None, debounce=_TURN_MS, step=_STEP_MS, rust_timeout=_TURN_MS, yield_on_timeout=True
    )
    try:
        for batch in found:
            yield {(int(kind), path) for kind, path in batch}
    finally:
        found.close()
