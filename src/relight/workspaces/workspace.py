"""`TreeWorkspace`: one directory, its pool, its cached state, its undo log. Implements `ports.workspace.Workspace`.

This module connects the parts and holds the lock: `changes.tracker` finds what changed, `journal.files.restore_plan`
decides what a restore does, and `restore.restorer` does it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from relight.errors import (
    Corrupt,
    NotFound,
    OverQuota,
    SnapshotIncomplete,
    StoreError,
    StoreUnavailable,
    WorkspaceUnusable,
)
from relight.journal.files import restore_plan as journal
from relight.ports.workspace import SegmentIndex
from relight.system import private_directories
from relight.values.snapshot import (
    Change,
    Choice,
    RestoreOutcome,
    RestorePlan,
    RestoreRecord,
    Skipped,
    Snapshot,
    SnapshotRecord,
    SweepReport,
)
from relight.workspaces import identity
from relight.workspaces.changes.classify import Run
from relight.workspaces.changes.finder import Tier
from relight.workspaces.changes.tracker import Tracker
from relight.workspaces.manifest import Manifests
from relight.workspaces.policy import TreePolicy
from relight.workspaces.pool import sweep
from relight.workspaces.pool.objects import snapshot_id, snapshot_ref
from relight.workspaces.pool.pool import Pool
from relight.workspaces.remote.prefix import RemotePrefix
from relight.workspaces.restore.name_folding import is_one_name
from relight.workspaces.restore.planner import Planner
from relight.workspaces.restore.restore_log import RestoreLog
from relight.workspaces.restore.restorer import Restorer
from relight.workspaces.store_detection import Stores, is_marked

DEFAULT_POLICY = TreePolicy()


def workspace_key(path: Path) -> str:
    """The pool key of a directory. A fork in another directory uses its parent's pool, and so shares its content."""
    return "w" + hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:24]


class TreeWorkspace:
    """A directory that is captured into snapshots and restored from them. Thread-safe."""

    pool_kind: ClassVar[type[Pool]] = Pool
    saves_state: ClassVar[bool] = True
    """whether the cached state is saved for the next process"""

    def __init__(
        self,
        path: Path | str,
        *,
        blobs: Path,
        rows: SegmentIndex,
        key: str | None = None,
        name: str = "",
        policy: TreePolicy = DEFAULT_POLICY,
        store: Iterable[Path] = (),
        adopt: bool = False,
        remote: RemotePrefix | None = None,
        plain_modes: bool = False,
    ) -> None:
        """`blobs` is the store's directory for content, `rows` its segment rows, `store` its other files, `remote` the
        blob store if content is remote.

        `adopt` accepts the directory although another one was recorded under this path: for a workspace that was lost
        and recreated. `plain_modes`: no snapshot restores setuid, setgid, sticky or world-writable modes.
        """
        self.path, self._name = Path(path).absolute(), name
        self._path_text = str(self.path)
        self._where = f'workspace "{name}" ({self.path})'
        own = (blobs, *(remote.paths if remote is not None else ()), *store)
        identity.check_suitable(name, self.path, own)
        self._lock = threading.RLock()
        self._root_fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if is_marked(self._root_fd):
                raise WorkspaceUnusable(name, str(self.path), "it is a directory of a relight store")
            self.pool = self.pool_kind(blobs, key or workspace_key(self.path), rows, remote)
            self._open(policy, own, adopt, plain_modes)
        except BaseException:
            os.close(self._root_fd)
            raise

    def _open(self, policy: TreePolicy, own: Iterable[Path], adopt: bool, plain_modes: bool) -> None:
        self.pool.writer.quota_bytes, self.pool.writer.floor_bytes = policy.quota_bytes, policy.floor_bytes
        self._manifests = Manifests(self.pool, plain_modes=plain_modes)
        real = self.path.resolve()
        home = self._home(real)
        private_directories.make(home)
        self._marks = [home / "identity.json"]
        linked = self._home(self.path) / "identity.json"
        if linked not in self._marks and linked.exists():
            self._marks.append(linked)  # a directory was recorded at this path, where a symbolic link is now
        found = identity.identity(self._root_fd, real)
        for mark in self._marks:
            if adopt or identity.read_mark(mark) is None:
                identity.write_mark(mark, found)
        self._check_identity(found)
        self._log = RestoreLog(home / "restores")
        self._tracker = Tracker(
            os.fsencode(real),
            self._root_fd,
            self.pool,
            policy,
            stores=Stores(self._root_fd, real, own),
            cache=home / "memory",
        )
        written = Manifests(self.pool) if plain_modes else None
        self._planner = Planner(
            self._where,
            self._manifests,
            self._log,
            self.snapshot,
            self._tracker.include_paths,
            written,
            is_one_name=self.is_one_name,
        )
        self._restorer = Restorer(
            self._name,
            self._where,
            self._root_fd,
            self._manifests,
            self._log,
            seen=self._tracker.seen,
            changed_since=self._changed_since,
        )
        if policy.watch:
            self._tracker.watch()

    def _home(self, path: Path) -> Path:
        """Where the state of a root at this path is stored."""
        return self.pool.directory / "roots" / hashlib.sha256(os.fsencode(path)).hexdigest()[:16]

    @property
    def name(self) -> str:
        return self._name

    @property
    def watcher(self) -> str:
        """The state of the watcher, for `relight doctor`."""
        watcher = self._tracker.watcher
        return "off" if watcher is None else "on" if watcher.is_trusted else f"off: {watcher.why}"

    def check_usable(self) -> None:
        with self._lock:
            identity.check_suitable(self._name, self.path, (self.pool.directory.parent,))
            fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self._check_identity(identity.identity(fd, self.path))
            finally:
                os.close(fd)

    def _check_identity(self, found: identity.Identity) -> None:
        if any(not known.is_same(found) for known in map(identity.read_mark, self._marks) if known is not None):
            why = "it is not the directory that was recorded"
            hints = ["if it is meant to replace that one: relight resume REF --restore"]
            raise WorkspaceUnusable(self._name, str(self.path), why, hints=hints)

    # -- snapshots --------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        with self._lock:
            self._check_in_place()
            before, stored = self._tracker.last, self.pool.stored_bytes
            ref, record, tier, run = self._run()
            return Snapshot(
                id=snapshot_id(ref),
                root=self._name,
                pool=self.pool.key,
                segments=tuple(sorted(self.pool.used)),
                files=record.files,
                size_bytes=record.size_bytes,
                skipped=record.skipped,
                heads=record.heads,
                is_new=ref != before,
                tier=tier,
                hashed=len(run.jobs),
                stored_bytes=self.pool.stored_bytes - stored,
            )

    def _run(self) -> tuple[bytes, SnapshotRecord, Tier, Run]:
        """Run the tracker; errors name the root and the path."""
        try:
            return self._run_with_retry()
        except SnapshotIncomplete as error:
            raise SnapshotIncomplete(self._where, error.unreadable) from None
        except OverQuota as error:
            raise OverQuota(self._where, error.what, error.would_bytes, error.bound_bytes) from None
        except OSError as error:
            raise StoreUnavailable(f"{self._where}: {error}") from error

    def _run_with_retry(self) -> tuple[bytes, SnapshotRecord, Tier, Run]:
        """Run the tracker; if stored content that it depended on is damaged, again from scratch: the files are still
        here."""
        try:
            return self._tracker.run()
        except Corrupt:
            self._tracker.reset()
            return self._tracker.run()

    def _check_in_place(self) -> None:
        """Check that the path still leads to the directory we have open; cheap, for every snapshot."""
        try:
            now, held = os.stat(self._path_text), os.fstat(self._root_fd)
        except OSError as error:
            raise WorkspaceUnusable(self._name, str(self.path), f"workspace missing: {error.strerror}") from error
        if (now.st_ino, now.st_dev) != (held.st_ino, held.st_dev):
            raise WorkspaceUnusable(self._name, str(self.path), "the directory was replaced by another one")

    def recover(self) -> None:
        with self._lock:
            self.pool.refresh()
            if not self._tracker.last or not self._relies_on_rows(snapshot_id(self._tracker.last)):
                self._tracker.reset()

    def _relies_on_rows(self, snapshot: str) -> bool:
        """Whether all of a snapshot is in registered segments; then exactly those are marked as used."""
        self.pool.clear_used()
        try:
            return all(self.pool.has(ref) for ref in self._manifests.reachable(snapshot, set()))
        except StoreError:
            return False

    def audit(self) -> tuple[Change, ...]:
        """Read every file again and compare with the cached state; empty if that is right."""
        with self._lock:
            cached = self.snapshot()
            ref, _, _, _ = self._tracker.fresh().run()
            return self.diff(cached.id, snapshot_id(ref))

    # -- reading ----------------------------------------------------------------------------------------------

    def diff(self, before: str, after: str | None = None) -> tuple[Change, ...]:
        with self._lock:
            old = self._manifests.record(before)
            new = self._manifests.record(after if after is not None else self.snapshot().id)
            return journal.diff(*self._manifests.differing(old.tree, new.tree))

    def read(self, snapshot: str, path: bytes) -> bytes:
        with self._lock:
            entry = self._manifests.find(self._manifests.record(snapshot).tree, path)
            if entry is None or entry.kind not in ("file", "big", "link"):
                raise NotFound(os.fsdecode(path), what="file in this snapshot")
            return entry.ref if entry.kind == "link" else b"".join(self._manifests.content(entry))

    def skipped(self, snapshot: str) -> tuple[Skipped, ...]:
        with self._lock:
            found = self._manifests.skipped(self._manifests.record(snapshot).tree)
            return tuple(sorted(found, key=lambda one: one.path))

    def verify(self, snapshot: str) -> tuple[str, ...]:
        with self._lock:
            self.pool.refresh()
            problems: list[str] = []
            try:
                for ref in self._manifests.reachable(snapshot, set()):
                    self.pool.read(ref)
            except StoreError as error:
                if isinstance(error, StoreUnavailable) and self.pool.is_remote:
                    raise  # unreachable storage is no damage
                problems.append(str(error))
            return tuple(problems)

    # -- restore ----------------------------------------------------------------------------------------------

    def plan_restore(
        self,
        target: str,
        *,
        last: str | None = None,
        history: Sequence[str] = (),
        choice: Choice = "stop",
        exact: bool = False,
        paths: Sequence[bytes] = (),
        take: Sequence[bytes] = (),
    ) -> RestorePlan:
        with self._lock:
            return self._planner.restore(
                target,
                last=last,
                history=history,
                choice=choice,
                exact=exact,
                paths=tuple(paths),
                take=frozenset(take),
            )

    def plan_undo(self, restore: str | None = None, *, choice: Choice = "stop") -> RestorePlan:
        with self._lock:
            return self._planner.undo(restore, choice=choice)

    def restore(self, plan: RestorePlan) -> RestoreOutcome:
        with self._lock, self._log.exclusive():
            self._check_in_place()
            return self._restorer.run(plan, is_as_planned=self._tracker.last == snapshot_ref(plan.safety.id))

    def is_one_name(self, directory: bytes, one: bytes, other: bytes) -> bool:
        """Whether the file system takes two names in a directory for one; it is asked by a temporary file."""
        return is_one_name(self._root_fd, directory, one, other)

    def _changed_since(self, snapshot: str) -> set[bytes]:
        now = self.snapshot().id
        return {change.path for change in self.diff(snapshot, now)} if now != snapshot else set()

    def restores(self) -> tuple[RestoreRecord, ...]:
        return self._log.records()

    # -- housekeeping -----------------------------------------------------------------------------------------

    def sweep(self, live: Callable[[], Iterable[str]], *, dry_run: bool = False, thorough: bool = False) -> SweepReport:
        with self._lock:

            def pinned() -> Iterable[str]:
                roots = self.pool.directory / "roots"
                notes = [one for root in sorted(roots.iterdir()) for one in RestoreLog(root / "restores").records()]
                return {*live(), *(one.safety for one in notes), *(one.target for one in notes)}

            mode = sweep.Mode(thorough=thorough)
            report = sweep.sweep(self.pool, self._manifests, pinned, dry_run=dry_run, mode=mode)
            if not dry_run:
                self.recover()
            return report

    def close(self) -> None:
        with self._lock:
            if self._root_fd < 0:
                return
            if self.saves_state:
                self._tracker.save()
            if self._tracker.watcher is not None:
                self._tracker.watcher.close()
            self.pool.close()
            os.close(self._root_fd)
            self._root_fd = -1

    def __enter__(self) -> TreeWorkspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
