"""inotify watcher: which names may have changed. Only a hint; the caller must be able to walk instead.

Guarantee: a change in a watched directory after `add` returned is in a later `drain`, or `drain` returns None, which
means "walk": after a queue overflow, a watch that could not be set (ENOSPC), a moved root, or anything unexpected. What
inotify does not see (writes through mmap, other machines on a network file system) is found by the audit walk.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import termios
from collections.abc import Iterable
from typing import Final

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x8, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _OVERFLOW, _IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW, _ISDIR = 0x1000000, 0x2000000, 0x40000000
_MASK: Final = (
    _MODIFY
    | _ATTRIB
    | _MOVED_FROM
    | _MOVED_TO
    | _CREATE
    | _DELETE
    | _DELETE_SELF
    | _MOVE_SELF
    | _ONLYDIR
    | _DONT_FOLLOW
)
_EVENT: Final = struct.Struct("iIII")
_WAITING: Final = struct.Struct("i")
_READ_BYTES: Final = 256 * 1024
_MAX_READS: Final = 64
"""reads per drain; a writer that outruns them counts as an overflow"""

_libc = ctypes.CDLL(None, use_errno=True)


class Hints:
    """What may have changed since the last `drain`."""

    def __init__(self) -> None:
        self.names: dict[bytes, set[bytes]] = {}
        """directory to the names in it that may have changed"""
        self.lost: set[bytes] = set()
        """directories whose watch is gone; another may have replaced them: scan and watch again"""


class Watcher:
    """Watches on directories below one root."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(_libc, "inotify_init1") else -1
        self._paths: dict[int, bytes] = {}
        self._watches: dict[bytes, int] = {}
        self.is_trusted = self._fd >= 0
        self.why = "" if self.is_trusted else "no inotify here"

    def add(self, paths: Iterable[bytes]) -> None:
        """Watch these directories. They must be scanned after this, so that no change falls in between."""
        for path in paths:
            if not self.is_trusted:
                return
            full = self._root + b"/" + path if path else self._root
            watch = _libc.inotify_add_watch(self._fd, ctypes.c_char_p(full), _MASK)
            if watch < 0:
                code = ctypes.get_errno()
                if code not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # those are seen by the scan
                    self.disable(f"a watch could not be set: {os.strerror(code)}")
                continue
            former = self._paths.get(watch)
            if former is not None and former != path:
                self._watches.pop(former, None)
            self._paths[watch] = path
            self._watches[path] = watch

    def disable(self, why: str) -> None:
        """Stop watching: `drain` returns None from now on."""
        self.is_trusted, self.why = False, why
        self.close()

    def forget(self, path: bytes) -> None:
        """Stop watching a directory that is not captured any more."""
        watch = self._watches.pop(path, None)
        if watch is not None and self._paths.get(watch) == path:
            del self._paths[watch]
            _libc.inotify_rm_watch(self._fd, watch)

    def drain(self) -> Hints | None:
        """What may have changed since the last time; None means "walk"."""
        hints = Hints()
        for _ in range(_MAX_READS):
            if self._fd < 0:
                return None
            try:
                waiting = self._waiting_bytes()
                if not waiting:
                    return hints
                data = os.read(self._fd, waiting)
            except OSError as error:
                self.disable(str(error))
                return None
            if not self._parse_events(data, hints):
                return None
        self.disable("events came faster than they could be read")
        return None

    def _waiting_bytes(self) -> int:
        """The size of the queue; asked first, because allocating a large buffer costs more than the call."""
        (waiting,) = _WAITING.unpack(fcntl.ioctl(self._fd, termios.FIONREAD, _WAITING.pack(0)))
        return int(min(waiting, _READ_BYTES))

    def _parse_events(self, data: bytes, hints: Hints) -> bool:
        at = 0
        while at < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, at)
            name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            if mask & (_OVERFLOW | _UNMOUNT):
                self._drop_queue()
                return False
            path = self._paths.get(watch)
            if path is None:
                continue
            if mask & (_DELETE_SELF | _MOVE_SELF | _IGNORED):
                if not path:
                    self.disable("the root moved")
                    return False
                if mask & _IGNORED:
                    del self._paths[watch]
                    if self._watches.get(path) == watch:
                        del self._watches[path]
                hints.lost.add(path)
                parent, _, name = path.rpartition(b"/")
                hints.names.setdefault(parent, set()).add(name)
            elif name:
                hints.names.setdefault(path, set()).add(name)
        return True

    def _drop_queue(self) -> None:
        """Empty the queue after an overflow: the walk sees everything."""
        for _ in range(_MAX_READS):
            try:
                os.read(self._fd, _READ_BYTES)
            except OSError:  # BlockingIOError: the queue is empty
                return

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._paths.clear()
        self._watches.clear()
