"""The right to write to a session: who has it, under which epoch, until when, and on whose clock.

An `Instant` is a moment on a named timeline. A local store uses the machine's time since boot on the timeline of that
boot; a server store uses the server's time. Moments of different timelines cannot be compared, and a lease from
another boot has ended: nothing that ran before a boot runs after it.
"""

from __future__ import annotations

import msgspec


class Instant(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A moment on one timeline, in microseconds."""

    timeline: str
    us: int


class Owner(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Who holds a lease, with what it takes to see whether that process still exists."""

    id: str
    """unique to one opening of one session"""
    host: str = ""
    boot: str = ""
    pid_namespace: str = ""
    pid: int = 0
    pid_start: int = 0
    """the process's start time in ticks since boot, because pids are used again"""

    @property
    def label(self) -> str:
        """As shown to a person."""
        return f"pid {self.pid} on {self.host}" if self.pid else self.id


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Held until `deadline`; expiry makes a session claimable and nothing more."""

    owner: Owner
    deadline: Instant
    seconds: float

    def expired(self, now: Instant) -> bool:
        """Ended by time, or begun on a timeline that is over."""
        return now.timeline != self.deadline.timeline or now.us >= self.deadline.us

    def remaining_seconds(self, now: Instant) -> float:
        """How long it still holds; 0 where it has ended."""
        return 0.0 if self.expired(now) else (self.deadline.us - now.us) / 1e6
