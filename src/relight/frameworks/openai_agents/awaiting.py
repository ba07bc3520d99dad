"""Reading and writing a joint session from an event loop: the work is done in a thread, and always to its end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from relight.event_loop import stored
from relight.journal.fold import Fold
from relight.sessions.shared import Decide, SharedSession
from relight.values.checkpoint import Checkpoint
from relight.values.session import Head

_T = TypeVar("_T")


async def in_thread(function: Callable[[], _T]) -> _T:
    """Done to its end, also where the caller is cancelled meanwhile: who writes must know what was written."""
    return await stored(function, always=True)


async def look(joint: SharedSession, reader: Callable[[Fold, Head], _T]) -> _T | None:
    """What the reader makes of the newest state; None where there is no such session."""
    return await in_thread(partial(joint.read, reader))


async def write(joint: SharedSession, decide: Decide) -> Checkpoint | None:
    """One durable step; its place in the row is taken before anything is awaited, so it is that of the call."""
    asked = joint.enqueue(decide)
    return await in_thread(asked.wait)


async def write_if_there(joint: SharedSession, decide: Decide) -> None:
    """The same, where the session exists: it is not begun for it."""
    if await look(joint, lambda fold, head: True):
        await write(joint, decide)
