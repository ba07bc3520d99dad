"""The right to write to a session: its owner, epoch, deadline, and the clock it is measured by.

An `Instant` is a moment on a named timeline. A local store uses the machine's time since boot on the timeline of that
boot; a server store uses the server's time. Instants of different timelines cannot be compared, and a lease of an
earlier boot has expired: nothing that ran before a boot runs after it.
"""

from __future__ import annotations

import msgspec


class Instant(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A moment on one timeline, in microseconds."""

    timeline: str
    us: int


class Owner(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The holder of a lease, with what it takes to check whether that process still exists."""

    id: str
    """unique per opening of a session"""
    host: str = ""
    boot: str = ""
    pid_namespace: str = ""
    pid: int = 0
    pid_start: int = 0
    """start time of the process as its kernel counts it, because pids are reused"""

    @property
    def label(self) -> str:
        """Text that identifies the owner to users."""
        return f"pid {self.pid} on {self.host}" if self.pid else self.id


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Held until `deadline`; expiry makes a session claimable and nothing more."""

    owner: Owner
    deadline: Instant
    seconds: float

    def expired(self, now: Instant) -> bool:
        """Past its deadline, or granted on a timeline that has ended."""
        # Another timeline means a reboot, or another server. Nothing that held a lease before a reboot can still run.
        return now.timeline != self.deadline.timeline or now.us >= self.deadline.us

    def remaining_seconds(self, now: Instant) -> float:
        """Seconds until the deadline; 0 if it has expired."""
        return 0.0 if self.expired(now) else (self.deadline.us - now.us) / 1e6
