"""What a tree workspace captures and what it may cost: numbers and lists a user may set."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from relight.errors import UsageError

_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


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
    cache_bytes: int | None = 4 * 1024 * 1024 * 1024
    """most that content which lies off the machine may take here, for all workspaces of a store together"""
    names_most: int = 10_000_000
    """names one snapshot may look at; a larger tree is refused"""

    def fingerprint(self) -> str:
        """Changes where the same tree would be captured differently."""
        said = msgspec.json.encode([self.include, self.file_most_bytes, self.unreadable])
        return hashlib.sha256(said).hexdigest()[:16]


def asked_policy(environment: Mapping[str, str]) -> TreePolicy:
    """The defaults, but for what these variables say. UsageError names the one that cannot be read."""
    own = TreePolicy()
    cap = _size("RELIGHT_FILE_CAP", environment.get("RELIGHT_FILE_CAP"), own.file_most_bytes)
    return msgspec.structs.replace(
        own,
        include=tuple(one for one in environment.get("RELIGHT_INCLUDE", "").split(":") if one),
        file_most_bytes=own.file_most_bytes if cap is None else cap,
        quota_bytes=_size("RELIGHT_QUOTA", environment.get("RELIGHT_QUOTA"), own.quota_bytes),
        floor_bytes=_size("RELIGHT_FREE_FLOOR", environment.get("RELIGHT_FREE_FLOOR"), own.floor_bytes),
        cache_bytes=_size("RELIGHT_BLOB_CACHE", environment.get("RELIGHT_BLOB_CACHE"), own.cache_bytes),
    )


def _size(name: str, said: str | None, default: int | None) -> int | None:
    """Bytes; None for no bound, which is said as `none`."""
    if said is None or not said.strip():
        return default
    found = _SIZE.fullmatch(said.strip())
    if found is not None:
        return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])
    if said.strip().lower() == "none" and name != "RELIGHT_FILE_CAP":
        return None
    raise UsageError(f"{name} is a size such as 500 MB or 2 GB, not {said[:40]!a}")
