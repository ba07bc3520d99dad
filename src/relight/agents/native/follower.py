"""Incremental reader of a growing file of JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from relight.agents.native import jsonl
from relight.ports.agent import Line, Transcript

Assemble = Callable[[Sequence[Line], int, bytes], Transcript]
"""from all lines, where they end, and the tail, to the session"""
_NONE: Final = (0, 0)


class FileFollower:
    """Remembers the lines read so far. A file that was replaced or truncated is read again from the start."""

    def __init__(self, path: Path, assemble: Assemble) -> None:
        self._path = path
        self._assemble = assemble
        self._lines: list[Line] = []
        self._offset = 0
        self._seen: tuple[int, int] | None = None
        """inode and size"""
        self._read: Transcript | None = None

    def read(self) -> Transcript:
        """The present session; the same object if nothing changed."""
        seen = self._look()
        if self._read is not None and seen == self._seen:
            return self._read
        if self._seen is None or seen[0] != self._seen[0] or seen[1] < self._offset:
            self._lines, self._offset = [], 0
        found = jsonl.read(self._path, after=self._offset)
        self._lines += found.lines
        self._offset += found.offset
        self._seen = seen
        self._read = self._assemble(self._lines, self._offset, found.tail)
        return self._read

    def _look(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError:
            return _NONE
        return status.st_ino, status.st_size
