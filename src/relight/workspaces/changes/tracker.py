"""Find what changed since the last snapshot, store it, and name the result.

Order: hints (watcher) or a walk (all known directories) → scan → look at what differs → read and store files → only
now change what is remembered → write directories from the leaves up → the record → sync → the id.
Promise: an error before the memory changes leaves it as it was, an error after drops it; either way the pool forgets
what was not synced and the next snapshot looks at everything, so no snapshot is ever built on a failed one.
It does not know restore, sessions or rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from relight.errors import SnapshotIncomplete
from relight.ports.faults import point
from relight.values.snapshot import SnapshotRecord
from relight.workspaces.changes import memory, storing
from relight.workspaces.changes.classify import Look, Run
from relight.workspaces.changes.finder import Finder, Tier
from relight.workspaces.changes.scan import Stat
from relight.workspaces.changes.watch import Watcher
from relight.workspaces.policy import TreePolicy
from relight.workspaces.pool.pool import Pool
from relight.workspaces.store_detection import Stores


class Tracker:
    """The memory of one root, and how it is brought up to date. Not thread-safe: its workspace serialises."""

    def __init__(
        self,
        root: bytes,
        root_fd: int,
        pool: Pool,
        policy: TreePolicy,
        *,
        stores: Stores,
        cache: Path | None,
    ) -> None:
        self._root, self._root_fd, self._pool, self._policy = root, root_fd, pool, policy
        self._stores = stores
        self._finder = Finder(root, root_fd, pool, policy, Look(root_fd, policy, stores))
        self._cache = cache
        self._changed_since_save = 0
        self._bound_to = f"{os.fstat(root_fd).st_ino}:{policy.fingerprint()}:{root.hex()}"
        self._remember()

    @property
    def watcher(self) -> Watcher | None:
        return self._finder.watcher

    @property
    def last(self) -> bytes:
        """The record of the last snapshot; empty where there is none to go on from."""
        return self._finder.memory.last

    def seen(self, path: bytes) -> Stat | None:
        """The stat a path had in the last snapshot."""
        parent, _, name = path.rpartition(b"/")
        node = self._finder.memory.nodes.get(parent)
        return node.stats.get(name) if node is not None else None

    def run(self) -> tuple[bytes, SnapshotRecord, Tier, Run]:
        """Bring the memory up to date and the pool with it; (ref of the record, record, how, what was done)."""
        run, finder, pool = Run(self._policy), self._finder, self._pool
        try:
            tier = finder.find(run)
            known = finder.memory
            if known.record is not None and run.found_nothing and not known.repositories:
                return known.last, known.record, tier, run
            storing.read_files(run, self._root_fd, pool, self._stores)
            if run.unreadable and self._policy.unreadable == "error":
                raise SnapshotIncomplete(os.fsdecode(self._root), run.unreadable)
            pool.check_room()
        except BaseException:
            finder.must_walk = True
            pool.rollback()
            raise
        try:
            point("snapshot.read")
            storing.apply(run, known, pool, finder.watcher)
            known.last, known.record = storing.store(run, known, pool, self._root_fd)
            pool.sync()
        except BaseException:
            self.reset()
            pool.rollback()
            raise
        finder.must_walk, finder.look.force_all, known.exclude = False, False, run.exclude
        self._changed_since_save += len(run.drafts)
        assert known.record is not None
        return known.last, known.record, tier, run

    def reset(self) -> None:
        """Forget everything: the next run reads every file again."""
        finder = self._finder
        if finder.watcher is not None:
            for path in finder.memory.nodes:
                finder.watcher.forget(path)
        finder.memory = memory.Memory()
        self._pool.forget_used()
        finder.must_walk = True

    def include_paths(self, paths: Iterable[bytes]) -> None:
        """From now on these exact paths are captured, ignored or not."""
        finder = self._finder
        wider = finder.include.with_paths(paths)
        if wider.paths != finder.include.paths:
            finder.include = wider
            for node in finder.memory.nodes.values():
                node.rules = None
            finder.look.force_all = True

    def watch(self) -> None:
        """Begin to watch; until every directory is watched and scanned again, the walk answers."""
        if self._finder.watcher is None:
            self._finder.watcher = Watcher(self._root)
            self._finder.must_walk = True

    def fresh(self) -> Tracker:
        """One that knows nothing yet and captures the same: for the audit."""
        made = Tracker(self._root, self._root_fd, self._pool, self._policy, stores=self._stores, cache=None)
        made._finder.include = self._finder.include
        return made

    # -- the memory between processes -------------------------------------------------------------------------

    def save(self) -> None:
        """For the next process; nothing depends on it."""
        if self._cache is not None and self._changed_since_save and self.last:
            memory.save(self._cache, self._finder.memory, self._bound_to, self._pool.used)
            self._changed_since_save = 0

    def _remember(self) -> None:
        found = memory.load(self._cache, self._bound_to, self._pool.rowed) if self._cache is not None else None
        if found is not None:
            self._finder.memory, segments = found
            self._pool.used.update(segments)
