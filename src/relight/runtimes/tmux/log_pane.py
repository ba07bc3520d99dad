"""Writes a pane's output to a log: `python -m relight.runtimes.tmux.log_pane FILE BYTES`, run by tmux's pipe-pane.

FILE (mode 0600) gets redacted lines, and is rotated to FILE.1 at BYTES. The secrets to redact come in FILE.secrets
(0600), which is removed at once: the tmux server's environment does not have them, and arguments are public. If the
disk is full the output is still read, so that the agent does not block.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from relight.system.environment_secrets import redactor

_CHUNK_BYTES: Final = 65_536
_LINE_BYTES: Final = 1024 * 1024
"""of an unterminated line; longer ones are written in parts"""


def opened(path: str) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def hand_secrets(path: str, secrets: dict[str, str]) -> None:
    """Write the secrets for the process that will log to FILE."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(f"{path}.secrets", flags, 0o600), "wb") as file:
        file.write(b"\0".join(os.fsencode(f"{name}={value}") for name, value in secrets.items()))


def take_secrets(path: str) -> None:
    """Move the secrets into this process's environment, where the redactor finds them."""
    try:
        with open(f"{path}.secrets", "rb") as file:
            entries = file.read().split(b"\0")
        os.unlink(f"{path}.secrets")
    except FileNotFoundError:
        return
    for name, _, value in (os.fsdecode(entry).partition("=") for entry in entries if entry):
        os.environ[name] = value


def main(path: str, max_bytes: int) -> None:
    take_secrets(path)
    file, rest = opened(path), b""
    while chunk := os.read(0, _CHUNK_BYTES):
        whole, newline, rest = (rest + chunk).rpartition(b"\n")
        if len(rest) > _LINE_BYTES:
            whole, newline, rest = whole + newline + rest, b"", b""
        file = append(file, path, whole + newline, max_bytes)
    append(file, path, rest, max_bytes)


def append(file: int, path: str, data: bytes, max_bytes: int) -> int:
    """Append redacted data, rotating at `max_bytes`; the descriptor to use from here on."""
    clean = redactor().text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    try:
        if clean and os.fstat(file).st_size + len(clean) > max_bytes:
            os.replace(path, path + ".1")
            os.close(file)
            file = opened(path)
        while clean:
            clean = clean[os.write(file, clean) :]
    except OSError:
        return file  # this part is lost; reading must continue
    return file


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
