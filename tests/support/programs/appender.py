"""Appends numbered messages for ever and tells each acknowledged seq, in a file that outlives it."""

from __future__ import annotations

import os

import relight


def main(store: str, session: str, reported: str) -> None:
    """One line `SEQ NUMBER` for each append that has returned."""
    out = os.open(reported, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with relight.open(store) as rl, rl.session(session, lease_seconds=600) as s:
        os.write(out, b"open\n")
        number = len(s.messages)
        while True:
            checkpoint = s.append({"role": "user", "content": str(number)})
            assert checkpoint is not None
            os.write(out, f"{checkpoint.seq} {number}\n".encode())
            number += 1
