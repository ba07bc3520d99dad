"""`TreeWorkspaces`: the workspaces of one store, where their content is stored, and its housekeeping.

Content is in the store's blob directory; a store without one (in memory) gets a temporary directory that is removed
with the process. With a blob store content is there, and the directory is a bounded cache.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from relight.errors import Conflict, WorkspaceUnusable
from relight.ports.blobs import Blobs
from relight.ports.store import Store
from relight.system import private_directories
from relight.values.snapshot import GitHead, Snapshot, SweepReport
from relight.workspaces.git_heads import read_head
from relight.workspaces.manifest import Manifests
from relight.workspaces.policy import TreePolicy
from relight.workspaces.pool import sweep
from relight.workspaces.pool.forget import remove_dead_state
from relight.workspaces.pool.pool import Pool
from relight.workspaces.readonly import ReadOnlyWorkspace, TreeContent
from relight.workspaces.remote.cache import PartCache
from relight.workspaces.remote.prefix import NO_POOL, RemotePrefix, check_location
from relight.workspaces.restore.new_directory import NewDirectory, is_unfinished
from relight.workspaces.restore.openat import exists
from relight.workspaces.workspace import TreeWorkspace, workspace_key


class TreeWorkspaces:
    """Opens and manages a store's workspaces. Implements `ports.workspace.Workspaces`."""

    def __init__(
        self,
        store: Store,
        policy: TreePolicy | None = None,
        blobs: Blobs | None = None,
        *,
        is_chosen: bool = True,
        own: Sequence[Path] = (),
    ) -> None:
        """`blobs` is the blob store, if content is remote; `is_chosen`: the user has configured the location; `own` are
        the store's other files and directories, which no workspace captures or restores."""
        self._store, self._own = store, tuple(own)
        self._location_checked = is_chosen and blobs is None
        self._policy = policy or TreePolicy()
        self._blobs = store.blobs or self._temporary()
        self._remote = None
        if blobs is not None:
            self._remote = RemotePrefix(blobs, store, PartCache(self._blobs, self._policy.cache_bytes))

    def _temporary(self) -> Path:
        made = Path(tempfile.mkdtemp(prefix="relight-blobs-"))
        weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        return made

    def pool_of(self, path: str) -> str:
        return workspace_key(Path(path))

    def open(
        self,
        path: str,
        *,
        name: str,
        pool: str,
        watch: bool = False,
        adopt: bool = False,
        read_only: bool = False,
        plain_modes: bool = False,
    ) -> TreeWorkspace:
        policy = msgspec.structs.replace(self._policy, watch=watch)
        return (ReadOnlyWorkspace if read_only else TreeWorkspace)(
            path,
            blobs=self._directory(),
            rows=self._store,
            key=pool,
            name=name,
            policy=policy,
            store=self._own,
            adopt=adopt,
            remote=self._remote,
            plain_modes=plain_modes,
        )

    def content(self, pool: str) -> TreeContent:
        return TreeContent(self._pool(pool))

    def _pool(self, pool: str) -> Pool:
        return Pool(self._directory(), pool, self._store, self._remote)

    def broken(self, pool: str, snapshots: Iterable[str]) -> dict[str, str]:
        if self._remote is None:
            return self._broken(pool, snapshots, None)
        with tempfile.TemporaryDirectory(prefix="relight-verify-") as fresh:
            # With an empty cache: what is in the blob store counts, not what was cached of it here.
            remote = RemotePrefix(self._remote.blobs, self._store, PartCache(Path(fresh), self._policy.cache_bytes))
            return self._broken(pool, snapshots, remote)

    def _broken(self, pool: str, snapshots: Iterable[str], remote: RemotePrefix | None) -> dict[str, str]:
        content = TreeContent(Pool(self._directory(), pool, self._store, remote))
        try:
            return content.broken(snapshots)
        finally:
            content.close()

    def objects(self, pool: str, snapshots: Iterable[str]) -> Iterator[bytes]:
        content = self.content(pool)
        try:
            yield from content.objects(snapshots)
        finally:
            content.close()

    def take_in(self, pool: str, objects: Iterable[bytes], snapshots: Sequence[str]) -> dict[str, Snapshot]:
        content = self.content(pool)
        try:
            return content.take_in(objects, snapshots)
        finally:
            content.close()

    def repository(self, path: str) -> tuple[bool, GitHead | None]:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False, None
        try:
            return exists(fd, b".git"), read_head(fd, b"")
        finally:
            os.close(fd)

    def recorded_head(self, pool: str, snapshot: str) -> GitHead | None:
        content = self._pool(pool)
        try:
            heads = Manifests(content).record(snapshot).heads
        finally:
            content.close()
        return next((head for head in heads if head.path == b""), None)

    def prepare(self, path: str, *, name: str) -> None:
        directory = Path(path)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            occupied = next(directory.iterdir(), None)
        except OSError as error:
            raise WorkspaceUnusable(name, path, error.strerror or str(error)) from error
        if occupied is not None:
            raise Conflict(f"{path}: not empty; choose a new directory")

    def make(
        self, path: str, *, name: str, session: str, attempt: int, begun: Callable[[str, int], bool]
    ) -> NewDirectory:
        return NewDirectory(path, name=name, session=session, attempt=attempt, begun=begun)

    def is_unfinished(self, path: str, begun: Callable[[str, int], bool]) -> bool:
        return is_unfinished(path, begun)

    def sweep(
        self,
        pool: str,
        live: Callable[[], Iterable[str]],
        *,
        dry_run: bool = False,
        thorough: bool = False,
        grace_seconds: float = 0.0,
    ) -> SweepReport:
        if pool.startswith(NO_POOL):
            return SweepReport(segments_removed=0, bytes_removed=0, objects_kept=0, bytes_kept=0)
        content = self._pool(pool)
        try:
            mode = sweep.Mode(thorough=thorough, grace_seconds=grace_seconds)
            report = sweep.sweep(content, Manifests(content), live, dry_run=dry_run, mode=mode)
            if thorough and not dry_run:
                remove_dead_state(content.directory, frozenset(live()))
            return report
        finally:
            content.close()

    def pools(self) -> frozenset[str]:
        return self._remote.pools() if self._remote is not None else frozenset()

    @property
    def location(self) -> str:
        return self._remote.location if self._remote is not None else str(self._blobs)

    @property
    def is_remote(self) -> bool:
        return self._remote is not None

    def probe(self) -> None:
        if self._remote is not None:
            self._remote.probe()

    def size_bytes(self) -> int:
        if self._remote is not None:
            return sum(blob.size_bytes for _, blob in self._remote.listed())
        return sum(one.stat().st_size for one in self._blobs.rglob("*") if one.is_file())

    def check_location(self) -> None:
        if self._location_checked:
            return
        if self._remote is None:
            check_location(self._store)
        elif any(not pool.startswith(NO_POOL) for pool in self._store.list_pools()):
            self._remote.check_address()
        self._location_checked = True

    def _directory(self) -> Path:
        self.check_location()
        private_directories.make(self._blobs, marked=True)
        return self._blobs
