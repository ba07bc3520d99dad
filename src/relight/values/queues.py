"""Standing in line: where a queued session waits, what a queue allows, and who works on it.

A `QueuePosition` is part of the session itself, so that being in line and being there is one row. A `Queue` and a
`Worker` are records beside the sessions, the same for everyone who opens the store.
"""

from __future__ import annotations

from typing import Final

import msgspec

from relight.values.lease import Instant

DEFAULT_QUEUE: Final = "default"
MAX_STARTS: Final = 1000
"""the most that a rate may count: so many moments are kept"""


class QueueKey(msgspec.Struct, frozen=True, gc=False, order=True):
    """Those who wait for the same: a queue, and the labels a worker must have."""

    queue: str
    wants: tuple[str, ...] = ()
    """sorted"""


class QueuePosition(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Where a session stands whenever it is queued."""

    queue: str
    priority: int = 0
    """the greater goes first"""
    wants: tuple[str, ...] = ()
    """labels that a worker must have, sorted"""
    since_us: int = 0
    """when it was first put in line: of equal priority the older goes first, also after a death"""

    @property
    def line(self) -> QueueKey:
        """With whom it waits."""
        return QueueKey(self.queue, self.wants)


class Rate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """At most so many starts in any so many seconds."""

    starts: int
    seconds: float


class Queue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a queue allows. One without a record allows everything."""

    name: str
    concurrency: int | None = None
    """sessions of it that may run at once, on all workers together"""
    rate: Rate | None = None
    retries: int | None = None
    """deaths in a row without progress that a session of it survives, where the session does not say"""


class Slots(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a limited queue has given away. Written with the claims of its sessions, and by nobody else."""

    holders: tuple[str, ...] = ()
    """sessions that took a slot; one counts until it is at work no longer"""
    started: tuple[Instant, ...] = ()
    """the latest starts, oldest first, as many as the rate counts"""


class Worker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process that takes sessions from queues, as it last said of itself."""

    name: str
    host: str
    pid: int
    engine: str
    queues: tuple[str, ...]
    labels: tuple[str, ...] = ()
    concurrency: int
    running: tuple[str, ...] = ()
    """ids of the sessions it runs"""
    draining: bool = False
    started_us: int
    """wall time, for people"""
    seen: Instant
    """when it said this, on the timeline of the store"""
    sweep_seconds: float
    """how often it says so"""
    finished: int = 0
    """attempts that ended"""
