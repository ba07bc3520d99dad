"""What a child prints: copied on at once, kept in a bounded log, cut into lines for whoever asks.

Nothing here can stop the child: a reader of ours that is gone, a full disk or a caller that never asks for its lines
costs that copy and no other.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from relight.runtimes.process.terminal import resize

LOG_BYTES: Final = 16 * 1024 * 1024
"""of one log file; the one before it is kept beside it, so a log is at most twice as long"""
LINE_BYTES: Final = 8 * 1024 * 1024
"""of one line; what is longer is cut"""
HELD_BYTES: Final = 32 * 1024 * 1024
"""of lines that nobody has asked for yet; the oldest go first"""
_CHUNK_BYTES: Final = 65_536


Clean = Callable[[str], str]
"""text as it may be kept"""


class Log:
    """A file that gets everything, line by line and cleaned, 0600, with one older part as `NAME.1`."""

    def __init__(self, path: Path, clean: Clean | None = None) -> None:
        self._path = path
        self._clean = clean
        self._rest = b""
        self._lock = threading.Lock()
        self._file, self._size = -1, 0
        self._open()

    def write(self, data: bytes) -> None:
        with self._lock:
            if self._clean is None:
                self._keep(data)
                return
            whole, newline, rest = (self._rest + data).rpartition(b"\n")
            self._rest = rest
            self._keep_clean(whole + newline)
            if len(self._rest) > LINE_BYTES:
                self._keep_clean(self._rest)
                self._rest = b""

    def close(self) -> None:
        with self._lock:
            self._keep_clean(self._rest)
            self._rest = b""
            self._close()

    def _keep_clean(self, data: bytes) -> None:
        if data and self._clean is not None:
            self._keep(self._clean(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"))

    def _keep(self, data: bytes) -> None:
        if self._file < 0:
            return
        if self._size + len(data) > LOG_BYTES:
            self._rotate()
        self._size += len(data)
        if not write_all(self._file, data):
            self._close()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)
        os.fchmod(self._file, 0o600)
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        self._close()
        try:
            os.replace(self._path, f"{self._path}.1")
            self._open()
        except OSError:
            self._close()  # it is not kept any further; the child goes on

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Lines:
    """Bytes in, whole lines out, in bounded memory."""

    def __init__(self, *, line_bytes: int = LINE_BYTES, held_bytes: int = HELD_BYTES, count: int | None = None) -> None:
        self._line_bytes, self._held_bytes = line_bytes, held_bytes
        self._lines: deque[bytes] = deque(maxlen=count)
        self._rest: list[bytes] = []
        self._rest_size, self._held = 0, 0
        self._lock = threading.Lock()

    def feed(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        with self._lock:
            for part in whole:
                self._grow(part)
                self._finish()
            self._grow(rest)

    def end(self) -> None:
        """What has no newline at the end is a line too."""
        with self._lock:
            if self._rest_size:
                self._finish()

    def take(self) -> list[str]:
        """All since the last call."""
        with self._lock:
            taken, self._held = list(self._lines), 0
            self._lines.clear()
        return [line.decode("utf-8", "backslashreplace") for line in taken]

    def look(self) -> list[str]:
        """What is held now, without taking it."""
        with self._lock:
            return [line.decode("utf-8", "backslashreplace") for line in self._lines]

    def _grow(self, part: bytes) -> None:
        room = self._line_bytes - self._rest_size
        if part and room > 0:
            self._rest.append(part[:room])
            self._rest_size += min(len(part), room)

    def _finish(self) -> None:
        line = b"".join(self._rest).rstrip(b"\r")
        self._rest, self._rest_size = [], 0
        if self._lines.maxlen is not None and not line.strip():
            return  # of the last words only those that say something
        self._lines.append(line)
        if self._lines.maxlen is not None:
            return
        self._held += len(line)
        while self._held > self._held_bytes:
            self._held -= len(self._lines.popleft())


class Stream:
    """One stream of a child on its way through us. Ends with the last process that holds the other end."""

    def __init__(self, channel: int, ours: int, *, lines: Lines, log: Log | None, name: str) -> None:
        self._channel, self._ours, self._lines, self._log = channel, ours, lines, log
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._copy, name=name, daemon=True)
        self._thread.start()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def resize(self) -> None:
        with self._lock:
            if self._channel >= 0:
                resize(self._channel, self._ours)

    def _copy(self) -> None:
        while chunk := _read(self._channel):
            write_all(self._ours, chunk)
            if self._log is not None:
                self._log.write(chunk)
            self._lines.feed(chunk)
        self._lines.end()
        with self._lock:
            os.close(self._channel)
            self._channel = -1


def _read(channel: int) -> bytes:
    try:
        return os.read(channel, _CHUNK_BYTES)
    except OSError:
        return b""  # a terminal whose other end is closed says so with an error


def write_all(descriptor: int, data: bytes) -> bool:
    """False where nobody takes it any more; the child must not feel it."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        return False
    return True
