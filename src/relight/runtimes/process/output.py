"""A child's output: copied to our own streams at once, written to a bounded log, split into lines for the caller.

The child never blocks or fails because of this: a closed stream of ours, a full disk or a caller that never takes its
lines loses that copy only.
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
"""of one log file; one rotated file is stored beside it, so a log takes at most twice as much"""
LINE_BYTES: Final = 8 * 1024 * 1024
"""of one line; longer ones are truncated"""
HELD_BYTES: Final = 32 * 1024 * 1024
"""of lines not taken yet; the oldest are dropped first"""
_CHUNK_BYTES: Final = 65_536


Clean = Callable[[str], str]
"""redacts text before it is stored"""


class Log:
    """A log file (mode 0600) of redacted lines, rotated once to `NAME.1`."""

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
                self._append(data)
                return
            # Redact whole lines only: a secret that is split over two chunks would not be recognised in either.
            whole, newline, rest = (self._rest + data).rpartition(b"\n")
            self._rest = rest
            self._append_redacted(whole + newline)
            if len(self._rest) > LINE_BYTES:
                self._append_redacted(self._rest)
                self._rest = b""

    def close(self) -> None:
        with self._lock:
            self._append_redacted(self._rest)
            self._rest = b""
            self._close()

    def _append_redacted(self, data: bytes) -> None:
        if data and self._clean is not None:
            self._append(self._clean(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"))

    def _append(self, data: bytes) -> None:
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
            self._close()  # logging ends here; the child continues

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Lines:
    """Splits bytes into lines in bounded memory. `count`: hold only the last non-blank lines."""

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
        """End of the stream: an unterminated last line counts as a line."""
        with self._lock:
            if self._rest_size:
                self._finish()

    def take(self) -> list[str]:
        """Return and forget the lines since the last call."""
        with self._lock:
            taken, self._held = list(self._lines), 0
            self._lines.clear()
        return [line.decode("utf-8", "backslashreplace") for line in taken]

    def peek(self) -> list[str]:
        """The lines held now, which stay held."""
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
            return  # last lines are evidence for a person: blank ones would only push out others
        self._lines.append(line)
        if self._lines.maxlen is not None:
            return
        self._held += len(line)
        while self._held > self._held_bytes:
            self._held -= len(self._lines.popleft())


class Stream:
    """Copies one output stream of a child, on a thread that ends when no process holds the other end any more."""

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
        return b""  # EIO: a pty reports its closed other end as an error, not as EOF


def write_all(descriptor: int, data: bytes) -> bool:
    """Write everything; False if the descriptor no longer accepts it, which must not affect the child."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        return False
    return True
