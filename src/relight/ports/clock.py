"""Time, randomness and evidence about processes, as ports, so that tests can replay every decision."""

from __future__ import annotations

from typing import Protocol

from relight.values.lease import Instant, Owner


class Clock(Protocol):
    """Wall time for display, and monotonic time for leases and waiting."""

    def now_us(self) -> int:
        """Wall time, microseconds since 1970. For display and retention only."""
        ...

    def instant(self) -> Instant:
        """Monotonic time: never set back, continues during suspend."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait so long; a manual clock advances instead."""
        ...


class Entropy(Protocol):
    """Source of ids and jitter; a seeded one replays a failure."""

    def session_id(self) -> str:
        """32 hexadecimal characters, random from the first one on, so that short prefixes differ."""
        ...

    def key(self) -> bytes:
        """8 random bytes that identify one commit of one writer."""
        ...

    def jitter(self) -> float:
        """A random number in [0, 1)."""
        ...


class Host(Protocol):
    """Evidence about this process and other processes of this machine."""

    def owner(self, owner_id: str) -> Owner:
        """This process as the owner of a lease."""
        ...

    def is_gone(self, owner: Owner) -> bool | None:
        """True: the process is dead. False: it is alive. None: unknown, for example because it is on another host."""
        ...
