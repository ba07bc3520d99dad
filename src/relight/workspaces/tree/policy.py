"""What a tree workspace captures and what it may cost: numbers and lists a user may set."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec


class TreePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults relight stands by."""

    include: tuple[str, ...] = ()
    """patterns captured although ignored or secret, such as ".env"; a path may reach into an ignored directory"""
    file_most_bytes: int = 100 * 1024 * 1024
    """a larger file is left out, with its reason"""
    budget_bytes: int = 20 * 1024 * 1024 * 1024
    """most bytes that one snapshot reads; the rest is left out and tried again by the next"""
    budget_seconds: float = 900.0
    unreadable: Literal["error", "skip"] = "error"
    """a path that cannot be read: no snapshot, or left out with its reason"""
    watch: bool = False
    """let the kernel tell what changed; a hint, checked by an audit walk"""
    audit_seconds: float = 300.0
    """a walk checks the watcher at least this often"""
    quota_bytes: int | None = 100 * 1024 * 1024 * 1024
    """most that the content of one pool may take on disk; a snapshot that would pass it is refused"""
    floor_bytes: int | None = 200 * 1024 * 1024
    """least that a snapshot leaves free on the disk"""
    names_most: int = 10_000_000
    """names one snapshot may look at; a larger tree is refused"""

    def fingerprint(self) -> str:
        """Changes where the same tree would be captured differently."""
        said = msgspec.json.encode([self.include, self.file_most_bytes, self.unreadable])
        return hashlib.sha256(said).hexdigest()[:16]
