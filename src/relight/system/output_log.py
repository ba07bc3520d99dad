"""Redacts the output of a background process, line by line, on its way into its log.

Standard output and standard error become a pipe that a thread of this process reads; programs that it starts inherit
the pipe. So everything in the log has passed through here. A process that is killed loses the lines in the pipe only.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from relight.system.environment_secrets import redactor

_STDOUT: Final = 1
_STDERR: Final = 2
_CHUNK_BYTES: Final = 65_536
_LINE_BYTES: Final = 1024 * 1024
"""of an unterminated line; longer ones are written in parts"""
_END_SECONDS: Final = 2.0
"""to wait for the end of the pipe; not longer, because a program that outlives us may still hold it open"""
_DRAIN_SECONDS: Final = 60.0
"""to copy what is in the pipe after that; on a loaded machine the first line waits for the redactor's patterns"""


def last_lines(path: Path, most_bytes: int) -> tuple[list[str], bool] | None:
    """The last whole lines of a log, and whether older ones are left out; None if there is none. No link is followed:
    what is beside a log may come from the program that it is about."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        file.seek(max(0, found.st_size - most_bytes))
        lines = file.read(most_bytes).decode("utf-8", "backslashreplace").splitlines()
    cut = found.st_size > most_bytes
    return (lines[1:] if cut and len(lines) > 1 else lines), cut


@contextmanager
def cleaned_output() -> Iterator[None]:
    """Redact everything that this process and its children print within the block."""
    before = sys.stdout, sys.stderr
    _flush(*before)
    file, stdout = os.dup(_STDERR), os.dup(_STDOUT)
    reader, writer = os.pipe()
    os.dup2(writer, _STDOUT)
    os.dup2(writer, _STDERR)
    os.close(writer)
    is_drained = threading.Event()
    thread = threading.Thread(target=_copy, args=(reader, file, is_drained), name="relight-log", daemon=True)
    thread.start()
    # New text streams, because the old ones were opened on a seekable file and remember their position in it.
    sys.stdout, sys.stderr = _text_of(_STDOUT), _text_of(_STDERR)
    try:
        yield
    finally:
        _flush(sys.stdout, sys.stderr)
        os.dup2(stdout, _STDOUT)
        os.dup2(file, _STDERR)
        sys.stdout, sys.stderr = before
        os.close(stdout)
        thread.join(_END_SECONDS)
        is_drained.wait(_DRAIN_SECONDS)


def _text_of(descriptor: int) -> TextIO:
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


def _flush(*streams: TextIO) -> None:
    for stream in streams:
        stream.flush()


def _copy(reader: int, file: int, is_drained: threading.Event) -> None:
    """Copy redacted lines until no process holds the pipe open any more. The event is set while nothing is left to
    copy."""
    rest = b""
    while chunk := _read(reader, is_drained):
        whole, newline, rest = (rest + chunk).rpartition(b"\n")
        if len(rest) > _LINE_BYTES:
            whole, newline, rest = whole + newline + rest, b"", b""
        _write(file, whole + newline)
    _write(file, rest)
    is_drained.set()


def _read(reader: int, is_drained: threading.Event) -> bytes:
    ready = select.poll()  # not select(), which refuses descriptors from 1024 on
    ready.register(reader, select.POLLIN)
    if not ready.poll(0):
        is_drained.set()
        ready.poll()
        is_drained.clear()
    return os.read(reader, _CHUNK_BYTES)


def _write(file: int, data: bytes) -> None:
    if not data:
        return
    clean = redactor().text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    try:
        while clean:
            clean = clean[os.write(file, clean) :]
    except OSError:
        return  # a full disk: this part is lost, and the program continues
