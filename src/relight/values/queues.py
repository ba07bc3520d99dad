"""Queues: position of a queued session, limits of a queue, workers.

A `QueuePosition` is part of the session itself, so that being queued and existing is one row. A `Queue` and a `Worker`
are records beside the sessions, the same for every process that opens the store.
"""

from __future__ import annotations

from typing import Final

import msgspec

from relight.values.lease import Instant

DEFAULT_QUEUE: Final = "default"
MAX_STARTS: Final = 1000
"""the largest number of starts in a rate: so many instants are stored"""


class QueueKey(msgspec.Struct, frozen=True, gc=False, order=True):
    """A queue, and the labels a worker must have: sessions with equal keys wait for the same workers."""

    queue: str
    wants: tuple[str, ...] = ()
    """sorted"""


class QueuePosition(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The position a session has whenever it is queued."""

    queue: str
    priority: int = 0
    """the greater goes first"""
    wants: tuple[str, ...] = ()
    """labels that a worker must have, sorted"""
    since_us: int = 0
    """when it was first queued: with equal priority the older goes first, also after a crash"""

    @property
    def line(self) -> QueueKey:
        """The queue key of this position."""
        return QueueKey(self.queue, self.wants)


class Rate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """At most so many starts in any period of so many seconds."""

    starts: int
    seconds: float


class Queue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of a queue. One without a record has none."""

    name: str
    concurrency: int | None = None
    """sessions of it that may run at once, on all workers"""
    rate: Rate | None = None
    retries: int | None = None
    """deaths in a row without progress that are retried, unless the session says otherwise"""


class Slots(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Slots of a limited queue in use. Written only with the claims of its sessions."""

    holders: tuple[str, ...] = ()
    """sessions that took a slot; one counts while it is working"""
    started: tuple[Instant, ...] = ()
    """the latest starts, oldest first, up to the rate's number"""


class Pause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nothing runs under supervision in this store until the pause is ended."""

    at_us: int
    """since when, wall time"""
    by: str
    """who began it: a person's name and entry point"""
    reason: str | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The causes that one address was notified of, among those that still hold."""

    causes: tuple[str, ...] = ()


class PushKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key of a store that messages to browsers are signed with."""

    private: bytes


class PushSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that wants messages."""

    endpoint: str
    """where its push service takes them"""
    public: bytes
    secret: bytes


class Worker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process that takes sessions from queues, as it last reported."""

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
    """when it reported this, on the timeline of the store"""
    sweep_seconds: float
    """how often it reports"""
    finished: int = 0
    """attempts that ended"""
