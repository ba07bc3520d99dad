"""Detects files of relight stores in a workspace: no snapshot captures them, and no restore touches them.

This store's own files are known by path, any store's by content (`journal.files.store_marks`). Content is checked only
of files that are read anyway, of names that belong beside a database, and of directories with a mark or a segment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

from relight.journal.files.store_marks import (
    HEAD_BYTES,
    MARK,
    MARK_NAME,
    PAGE_BYTES,
    SEGMENT_MAGIC,
    database_of,
    is_content,
    is_database,
    may_be_database,
)
from relight.workspaces.restore.openat import open_file

MARK_ENTRY: Final = MARK_NAME.encode()
_LOG_MAGIC: Final = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_LOG_HEADER: Final = 32
_FRAME_HEADER: Final = 24
_MAX_FRAMES: Final = 64
"""frames searched for the first page, which a new database writes at once"""
_MAX_PAGE: Final = 65_536


class Stores:
    """Tells which files of one workspace belong to a store."""

    def __init__(self, root_fd: int, root: Path, own: Iterable[Path] = ()) -> None:
        """`own`: database, content and run directory of the store that this workspace is captured into."""
        self._root_fd, self._own = root_fd, tuple(own)
        self._inside = _inside(self._own, root)

    def is_store_path(self, path: bytes, name: bytes) -> bool:
        """Whether a path is this store's, or its name belongs beside a database that is a store's."""
        if path in self._inside:
            return True
        database = database_of(name)
        if database is None:
            return False
        beside = path[: len(path) - len(name)] + database
        return beside in self._inside or self._is_database_at(beside)

    def is_store_file(self, fd: int, path: bytes, head: bytes, found: os.stat_result) -> bool:
        """Whether an open file is a store's, by its first bytes; `found` is its stat."""
        if is_database(head) or is_content(head):
            return True
        if may_be_database(head) and self._is_log_at(path + b"-wal"):
            return True
        if head.startswith(_LOG_MAGIC) and is_our_log(lambda size, at: os.pread(fd, size, at)):
            return True
        return found.st_nlink > 1 and self._is_linked(found)

    def is_store_directory(self, path: bytes, names: Collection[bytes]) -> bool:
        """Whether a directory with these names is a store's: it has the mark, or segments."""
        if MARK_ENTRY in names and self._head(path + b"/" + MARK_ENTRY, len(MARK) + 1) == MARK:
            return True
        segment = next((name for name in names if name.endswith(b".seg")), None)
        return segment is not None and self._head(path + b"/" + segment, len(SEGMENT_MAGIC)) == SEGMENT_MAGIC

    def _is_database_at(self, path: bytes) -> bool:
        head = self._head(path)
        return is_database(head) or (may_be_database(head) and self._is_log_at(path + b"-wal"))

    def _is_log_at(self, path: bytes) -> bool:
        try:
            fd = open_file(self._root_fd, path)
        except OSError:
            return False
        try:
            return is_our_log(lambda size, at: os.pread(fd, size, at))
        except OSError:
            return False
        finally:
            os.close(fd)

    def _head(self, path: bytes, max_bytes: int = HEAD_BYTES) -> bytes:
        try:
            fd = open_file(self._root_fd, path)
        except OSError:
            return b""
        try:
            return os.read(fd, max_bytes)
        except OSError:
            return b""
        finally:
            os.close(fd)

    def _is_linked(self, found: os.stat_result) -> bool:
        """Whether it is a hard link to a file of our own store: the watermark and the log's index have no magic
        number."""
        for path in self._own:
            for beside in (
                path,
                *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-told", "-reserve")),
            ):
                try:
                    known = beside.stat()
                except OSError:
                    continue
                if (known.st_dev, known.st_ino) == (found.st_dev, found.st_ino):
                    return True
        return False


def is_marked(root_fd: int) -> bool:
    """Whether this directory itself has a store's mark."""
    try:
        fd = os.open(MARK_ENTRY, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=root_fd)
    except OSError:
        return False
    try:
        return os.read(fd, len(MARK) + 1) == MARK
    except OSError:
        return False
    finally:
        os.close(fd)


def is_our_log(read: Callable[[int, int], bytes]) -> bool:
    """Whether a write-ahead log contains the first page of a store's database; `read` takes size and offset."""
    header = read(_LOG_HEADER, 0)
    size = int.from_bytes(header[8:12], "big")
    if not header.startswith(_LOG_MAGIC) or not PAGE_BYTES <= size <= _MAX_PAGE:
        return False
    for number in range(_MAX_FRAMES):
        frame = read(_FRAME_HEADER + HEAD_BYTES, _LOG_HEADER + number * (_FRAME_HEADER + size))
        if frame[:4] == b"\0\0\0\1" and is_database(frame[_FRAME_HEADER:]):
            return True
    return False


def _inside(own: Iterable[Path], root: Path) -> frozenset[bytes]:
    """The store's files that are in the workspace, by their path and by where symbolic links on the way lead."""
    found: set[bytes] = set()
    for path in own:
        for real in (path.resolve(), path.parent.resolve() / path.name):
            if root in real.parents:
                found.add(os.fsencode(real.relative_to(root)))
    return frozenset(found)
