"""Reading and writing a shared session from an event loop: in a thread, and always to completion."""

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
    """Run in a thread to completion, even if the caller is cancelled: a writer must know what was written."""
    return await stored(function, always=True)


async def read_newest(shared: SharedSession, reader: Callable[[Fold, Head], _T]) -> _T | None:
    """Apply a reader to the newest state; None if the session does not exist."""
    return await in_thread(partial(shared.read, reader))


async def write(shared: SharedSession, decide: Decide) -> Checkpoint | None:
    """Commit one step, creating the session if needed."""
    # Queued before the first await: concurrent writes keep the order of their calls.
    pending = shared.enqueue(decide)
    return await in_thread(pending.wait)


async def write_if_exists(shared: SharedSession, decide: Decide) -> None:
    """Commit one step if the session exists; it is not created."""
    if await read_newest(shared, lambda fold, head: True):
        await write(shared, decide)
