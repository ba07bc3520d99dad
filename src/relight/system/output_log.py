"""What a process in the background prints, on its way into its log: line by line, and without secrets.

Standard output and standard error become a pipe that a thread of this process empties; what the programs it starts
inherit is that pipe too. So a log holds nothing that did not pass through here. A process that is killed loses the
lines that were still on their way, and nothing else: nobody waits for a log.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from relight.system.machine import redactor

_STDOUT: Final = 1
_STDERR: Final = 2
_CHUNK_BYTES: Final = 65_536
_LINE_BYTES: Final = 1024 * 1024
"""of a line that does not end; what is longer is written in parts"""
_FLUSH_SECONDS: Final = 2.0
"""for what is on its way at the end; a program that lives on may still hold the pipe"""


@contextmanager
def cleaned_output() -> Iterator[None]:
    """All that this process and its children print meanwhile is redacted before it reaches its file."""
    before = sys.stdout, sys.stderr
    _flush(*before)
    file, kept = os.dup(_STDERR), os.dup(_STDOUT)
    near, far = os.pipe()
    os.dup2(far, _STDOUT)
    os.dup2(far, _STDERR)
    os.close(far)
    thread = threading.Thread(target=_copy, args=(near, file), name="relight-log", daemon=True)
    thread.start()
    sys.stdout, sys.stderr = _text_of(_STDOUT), _text_of(_STDERR)  # the former ones know a file, with a place in it
    try:
        yield
    finally:
        _flush(sys.stdout, sys.stderr)
        os.dup2(kept, _STDOUT)
        os.dup2(file, _STDERR)
        sys.stdout, sys.stderr = before
        os.close(kept)
        thread.join(_FLUSH_SECONDS)


def _text_of(descriptor: int) -> TextIO:
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)


def _flush(*streams: TextIO) -> None:
    for stream in streams:
        stream.flush()


def _copy(near: int, file: int) -> None:
    """Until nobody holds the other end any more."""
    rest = b""
    while chunk := os.read(near, _CHUNK_BYTES):
        whole, newline, rest = (rest + chunk).rpartition(b"\n")
        if len(rest) > _LINE_BYTES:
            whole, newline, rest = whole + newline + rest, b"", b""
        _write(file, whole + newline)
    _write(file, rest)


def _write(file: int, data: bytes) -> None:
    if not data:
        return
    clean = redactor().text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    try:
        while clean:
            clean = clean[os.write(file, clean) :]
    except OSError:
        return  # a full disk: this part is not kept, and the program goes on
