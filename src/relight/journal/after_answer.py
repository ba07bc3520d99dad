"""How a session continues after a person answered, approved, denied or settled: who starts it, if anyone does."""

from __future__ import annotations

from typing import Literal

from relight.values.info import SessionInfo
from relight.values.status import LIVE

Continuation = Literal["start", "worker", "owner", "waits", "program", "archived"]
"""a supervisor can be started; a worker takes it; its process runs; it waits for more; only its own program can"""


def continuation_of(info: SessionInfo) -> Continuation:
    """How a session would continue from its present state."""
    if info.status == "archived":
        return "archived"
    if info.status in LIVE:
        return "owner"
    if info.status == "waiting":
        return "waits"
    if info.queue is not None:
        return "worker"
    return "start" if info.command is not None else "program"


def after_answer(info: SessionInfo) -> Continuation:
    """The same for a waiting session, as if its question had been answered already."""
    if info.status != "waiting":
        return continuation_of(info)
    if info.queue is not None:
        return "worker"
    return "start" if info.command is not None else "program"


def continuation_text(how: Continuation, info: SessionInfo) -> str:
    """What follows, as a sentence for a person."""
    name = info.title
    texts: dict[Continuation, str] = {
        "start": f"{name} is started again.",
        "worker": f"A worker of the queue {info.queue} takes it.",
        "owner": "Its process is running and reads it.",
        "waits": "It waits for one more answer before it can continue.",
        "program": "It continues when your program runs again: relight does not know how to start it.",
        "archived": "It is archived and does not continue.",
    }
    return texts[how]
