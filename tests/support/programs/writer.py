"""Opens a session and appends when it is told to: each line of a fifo is a message, each answer a line in a file."""

from __future__ import annotations

import os

import relight


def main(store: str, session: str, orders: str, reported: str, lease_seconds: float) -> None:
    """`open`, then for each order `ok SEQ` or the name of the error that ends it."""
    out = os.open(reported, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        with relight.open(store) as rl, rl.session(session, lease_seconds=lease_seconds) as s:
            os.write(out, b"open\n")
            with open(orders, encoding="utf-8") as lines:
                for line in lines:
                    checkpoint = s.append({"role": "user", "content": line.strip()})
                    assert checkpoint is not None
                    os.write(out, f"ok {checkpoint.seq}\n".encode())
    except relight.RelightError as error:
        os.write(out, f"{type(error).__name__} {error}\n".encode())
        raise
    os.write(out, b"end\n")
