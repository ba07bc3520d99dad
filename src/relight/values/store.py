"""What a store says about itself, and the durability levels: what an acknowledged step survives."""

from __future__ import annotations

from typing import Final

import msgspec

LEVELS: Final = ("none", "process-crash", "power-loss")
"""from least to most"""


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A store as it is at the moment."""

    kind: str
    """memory, sqlite, postgres, redis, or the name of a store of your own"""
    location: str
    """its address for display, without a password"""
    durability: str
    """one of LEVELS"""
    durability_reason: str = ""
    """why acknowledged steps may not survive a power cut; empty if they do, or if it is the nature of the store"""
    durability_cures: tuple[str, ...] = ()
    """commands that would raise its durability"""
    on_server: bool = False
    """it is on a server, whose clock counts for leases and queues, and not a file or the memory of this machine"""
    schema_version: int | None = None
    read_only: bool = False
    """it can be read at present, but not written"""
    expires: bool = False
    """it deletes finished sessions by itself: the store is an `ExpiringStore` too"""
    copies_itself: bool = False
    """it can write a copy of all of it to a file: the store is a `SelfCopyingStore` too"""
    indexed: bool = False
    """it has an index of the words of all steps: the store is an `IndexedStore` too"""
    ordered: bool = False
    """it has indexes for other orders than the newest first: the store is an `OrderedStore` too"""


def reaches(level: str, demanded: str) -> bool:
    """Whether a level is at least the demanded one. An unknown level counts as the lowest."""
    known = LEVELS.index(level) if level in LEVELS else 0
    return known >= LEVELS.index(demanded)
