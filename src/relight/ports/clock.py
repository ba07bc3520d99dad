"""Time, randomness and evidence about processes: what a decision must be handed, never fetch."""

from __future__ import annotations

from typing import Protocol

from relight.values.lease import Instant, Owner


class Clock(Protocol):
    """Two kinds of time: the wall's for people, and one that never jumps for leases and waiting."""

    def now_us(self) -> int:
        """Wall time, microseconds since 1970. For display and retention only."""
        ...

    def instant(self) -> Instant:
        """Now, on a timeline that does not jump."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait. A manual clock moves instead."""
        ...


class Entropy(Protocol):
    """Ids and jitter, so that a seed replays a failure."""

    def session_id(self) -> str:
        """32 hexadecimal characters, random from the first one on, so that short prefixes differ."""
        ...

    def key(self) -> bytes:
        """8 bytes that no other writer uses."""
        ...

    def jitter(self) -> float:
        """In [0, 1)."""
        ...


class Host(Protocol):
    """This process and its neighbours, as evidence."""

    def owner(self, owner_id: str) -> Owner:
        """This process as the owner of a lease."""
        ...

    def is_gone(self, owner: Owner) -> bool | None:
        """True: seen to be dead. False: seen alive. None: cannot be seen from here."""
        ...
