"""Keeps what a pane prints, as a process beside it: `python -m relight.runtimes.tmux.keep FILE BYTES`.

FILE is 0600 and gets everything line by line, without secrets; when it holds BYTES it becomes FILE.1. The variables
whose values are secrets come in FILE.secrets (0600), which is removed at once: a tmux server has its own environment,
and an argument could be seen by others. Where the disk is full the output is still read, so that the agent does not
stand still.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from relight.system.machine import redactor

_CHUNK_BYTES: Final = 65_536
_LINE_BYTES: Final = 1024 * 1024
"""of a line that does not end; what is longer is written in parts"""


def opened(path: str) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def hand_secrets(path: str, secrets: dict[str, str]) -> None:
    """For the process that will keep FILE."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(f"{path}.secrets", flags, 0o600), "wb") as file:
        file.write(b"\0".join(os.fsencode(f"{name}={value}") for name, value in secrets.items()))


def take_secrets(path: str) -> None:
    """Into this process's environment, where the redactor looks for them."""
    try:
        with open(f"{path}.secrets", "rb") as file:
            entries = file.read().split(b"\0")
        os.unlink(f"{path}.secrets")
    except FileNotFoundError:
        return
    for name, _, value in (os.fsdecode(entry).partition("=") for entry in entries if entry):
        os.environ[name] = value


def main(path: str, most: int) -> None:
    take_secrets(path)
    file, rest = opened(path), b""
    while chunk := os.read(0, _CHUNK_BYTES):
        whole, newline, rest = (rest + chunk).rpartition(b"\n")
        if len(rest) > _LINE_BYTES:
            whole, newline, rest = whole + newline + rest, b"", b""
        file = kept(file, path, whole + newline, most)
    kept(file, path, rest, most)


def kept(file: int, path: str, data: bytes, most: int) -> int:
    """Write it without secrets; the descriptor of the file that goes on."""
    clean = redactor().text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    try:
        if clean and os.fstat(file).st_size + len(clean) > most:
            os.replace(path, path + ".1")
            os.close(file)
            file = opened(path)
        while clean:
            clean = clean[os.write(file, clean) :]
    except OSError:
        return file  # this part is not kept
    return file


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
