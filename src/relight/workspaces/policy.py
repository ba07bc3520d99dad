"""Limits and choices of what a workspace captures, set by environment variables."""

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
    """What is captured, and its limits."""

    include: tuple[str, ...] = ()
    """patterns captured although ignored or secret, such as ".env"; a path may reach into an ignored directory"""
    max_file_bytes: int = 100 * 1024 * 1024
    """a larger file is left out, with its reason"""
    budget_bytes: int = 20 * 1024 * 1024 * 1024
    """maximum bytes that one snapshot reads; the rest is left out and retried by the next"""
    budget_seconds: float = 900.0
    unreadable: Literal["error", "skip"] = "error"
    """a path that cannot be read: no snapshot, or left out with its reason"""
    watch: bool = False
    """use inotify to find changes; verified by an audit walk"""
    audit_seconds: float = 300.0
    """a walk checks the watcher at least this often"""
    quota_bytes: int | None = 100 * 1024 * 1024 * 1024
    """maximum size of a pool on disk; a snapshot that would exceed it is refused"""
    floor_bytes: int | None = 200 * 1024 * 1024
    """minimum free space that a snapshot leaves on the disk"""
    cache_bytes: int | None = 4 * 1024 * 1024 * 1024
    """maximum size of the local cache of remote content, for all workspaces of a store together"""
    max_names: int = 10_000_000
    """maximum number of names in a tree; a larger one is refused"""

    def fingerprint(self) -> str:
        """Differs if the same tree would be captured differently."""
        value = msgspec.json.encode([self.include, self.max_file_bytes, self.unreadable])
        return hashlib.sha256(value).hexdigest()[:16]


def policy_from_environment(environment: Mapping[str, str]) -> TreePolicy:
    """The defaults, overridden by these variables; UsageError names the one that is invalid."""
    own = TreePolicy()
    cap = _size("RELIGHT_FILE_CAP", environment.get("RELIGHT_FILE_CAP"), own.max_file_bytes)
    return msgspec.structs.replace(
        own,
        include=tuple(one for one in environment.get("RELIGHT_INCLUDE", "").split(":") if one),
        max_file_bytes=own.max_file_bytes if cap is None else cap,
        quota_bytes=_size("RELIGHT_QUOTA", environment.get("RELIGHT_QUOTA"), own.quota_bytes),
        floor_bytes=_size("RELIGHT_FREE_FLOOR", environment.get("RELIGHT_FREE_FLOOR"), own.floor_bytes),
        cache_bytes=_size("RELIGHT_BLOB_CACHE", environment.get("RELIGHT_BLOB_CACHE"), own.cache_bytes),
    )


def _size(name: str, value: str | None, default: int | None) -> int | None:
    """A size in bytes; None for `none`: unlimited."""
    if value is None or not value.strip():
        return default
    found = _SIZE.fullmatch(value.strip())
    if found is not None:
        return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])
    if value.strip().lower() == "none" and name != "RELIGHT_FILE_CAP":
        return None
    raise UsageError(f"{name} is a size such as 500 MB or 2 GB, not {value[:40]!r}")
