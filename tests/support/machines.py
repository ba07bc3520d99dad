"""Machines that share a store: each has a local directory and a tree of its own; rows and blobs are common to all."""

from __future__ import annotations

import os
from pathlib import Path

from relight.blobs.directory import DirectoryBlobs
from relight.ports.blobs import Blob, Blobs, list_all
from relight.testing.workspace_kit import FileSegments
from relight.workspaces.policy import TreePolicy
from relight.workspaces.pool.pool import Pool
from relight.workspaces.remote.cache import PartCache
from relight.workspaces.remote.prefix import RemotePrefix
from relight.workspaces.workspace import TreeWorkspace

POOL = "pool"


class Counted:
    """A blob store, and how many bytes came out of it."""

    def __init__(self, inner: Blobs) -> None:
        self._inner = inner
        self.fetched_bytes = self.gets = self.puts = 0

    @property
    def location(self) -> str:
        return self._inner.location

    @property
    def address(self) -> str:
        return self._inner.address

    @property
    def is_own(self) -> bool:
        return self._inner.is_own

    def put(self, key: str, data: bytes) -> bool:
        self.puts += 1
        return self._inner.put(key, data)

    def get(self, key: str) -> bytes | None:
        return self._came(self._inner.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        return self._came(self._inner.get_range(key, start, length))

    def _came(self, data: bytes | None) -> bytes | None:
        self.gets += 1
        self.fetched_bytes += len(data or b"")
        return data

    def stat(self, key: str) -> Blob | None:
        return self._inner.stat(key)

    def list(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[Blob]:
        return self._inner.list(prefix, after=after, limit=limit)

    def delete(self, keys: object) -> None:
        self._inner.delete(keys)  # type: ignore[arg-type]


class Fleet:
    """The common part."""

    def __init__(self, path: Path, blobs: Blobs | None = None) -> None:
        self.path = path
        self.rows = FileSegments(path / "rows")
        self.blobs = Counted(blobs or DirectoryBlobs(path / "blobs"))

    def machine(self, name: str, cache_bytes: int | None = None) -> Machine:
        return Machine(self, name, cache_bytes)

    def names(self) -> list[str]:
        """What lies in the blob store."""
        return [blob.key for blob in list_all(self.blobs)]

    def size_bytes(self) -> int:
        return sum(blob.size_bytes for blob in list_all(self.blobs))

    def files(self) -> list[Path]:
        """The blobs, where they are files."""
        return sorted(path for path in (self.path / "blobs").rglob("*") if path.is_file())


class Machine:
    """One of them."""

    def __init__(self, fleet: Fleet, name: str, cache_bytes: int | None) -> None:
        self.fleet, self.home = fleet, fleet.path / name
        self.root, self.local = self.home / "tree", self.home / "local"
        self.root.mkdir(parents=True, exist_ok=True)
        self.cache_bytes = cache_bytes

    @property
    def remote(self) -> RemotePrefix:
        return RemotePrefix(self.fleet.blobs, self.fleet.rows, PartCache(self.local, self.cache_bytes))

    def open(self, **policy: object) -> TreeWorkspace:
        """As a new process would."""
        chosen = TreePolicy(**policy)  # type: ignore[arg-type]
        return TreeWorkspace(
            self.root, blobs=self.local, rows=self.fleet.rows, key=POOL, policy=chosen, remote=self.remote
        )

    def pool(self) -> Pool:
        return Pool(self.local, POOL, self.fleet.rows, self.remote)

    def write(self, name: str, data: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def cached_bytes(self) -> int:
        return sum(path.stat().st_size for path in (self.local / POOL / "parts").glob("*"))


def restored(workspace: TreeWorkspace, snapshot: str) -> None:
    """Everything as the snapshot holds it."""
    workspace.restore(workspace.plan_restore(snapshot, history=[snapshot], choice="force", exact=True))


def noise(size: int) -> bytes:
    """What no compression makes smaller."""
    return os.urandom(size)
