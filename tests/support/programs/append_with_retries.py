"""Appends a few messages, each until it is acknowledged or the tries are over, and tells what happened to each try."""

from __future__ import annotations

import os
import sys

import relight

TRIES = 3


def main(store: str, reported: str, appends: str) -> None:
    """`ok SEQ NUMBER` for an acknowledged append, `no CODE NUMBER` for a refused one."""
    out = os.open(reported, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with relight.open(store) as rl, rl.session("a") as s:
        for number in range(int(appends)):
            for _ in range(TRIES):
                try:
                    checkpoint = s.append({"role": "user", "content": str(number), "padding": "x" * 900})
                except relight.errors.StoreError as error:
                    os.write(out, f"no {error.code} {number} \n".encode())
                    continue
                assert checkpoint is not None
                os.write(out, f"ok {checkpoint.seq} {number}\n".encode())
                break


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except relight.RelightError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
