"""Runs beside a pane, as a script of its own, and keeps what it prints: `python -I -S keep.py FILE BYTES`.

FILE is 0600 and gets everything at once; when it holds BYTES it becomes FILE.1. Where the disk is full the output is
still read, so that the agent does not stand still.
"""

from __future__ import annotations

import os
import sys


def opened(path: str) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def main(path: str, most: int) -> None:
    file = opened(path)
    while chunk := os.read(0, 65_536):
        try:
            if os.fstat(file).st_size + len(chunk) > most:
                os.replace(path, path + ".1")
                os.close(file)
                file = opened(path)
            while chunk:
                chunk = chunk[os.write(file, chunk) :]
        except OSError:
            continue  # this part is not kept


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
