"""Adds numbered messages to a session that others write to as well, each once, and tells every one that is durable."""

from __future__ import annotations

import os

import relight
from relight.journal.fold import Fold
from relight.sessions.shared import Write
from relight.values.step import Changes

AGENT = "joiner"


def main(store: str, session: str, me: str, count: int, reported: str) -> None:
    """One line `ME.NUMBER SEQ` for each write that has returned; SEQ is 0 where it was there already."""
    out = os.open(reported, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with relight.open(store) as rl:
        shared = rl.sessions.shared(session, agent=AGENT)
        for number in range(count):
            content = f"{me}.{number}"

            def decide(fold: Fold, content: str = content) -> Write | None:
                if any(one["content"] == content for one in fold.messages):
                    return None
                return Write(changes=Changes(messages=[{"role": "user", "content": content}]))

            checkpoint = shared.write(decide)
            os.write(out, f"{content} {checkpoint.seq if checkpoint is not None else 0}\n".encode())
        shared.close()
