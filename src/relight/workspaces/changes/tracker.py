"""Tracker: finds what changed since the last snapshot, stores it, and returns the new snapshot's record.

Order: hints (watcher) or a walk; scan; compare; read and store files; only then change the cached state; write
directories from the leaves up; the record; sync; the id.
Guarantee: an error before the state changes leaves it as it was, an error after that drops it; either way the pool
undoes what was not synced and the next run checks everything, so no snapshot is ever based on a failed one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from relight.errors import SnapshotIncomplete
from relight.ports.faults import point
from relight.values.snapshot import SnapshotRecord
from relight.workspaces.changes import state, storing
from relight.workspaces.changes.classify import Classifier, Run
from relight.workspaces.changes.finder import ChangeFinder, Tier
from relight.workspaces.changes.scan import Stat
from relight.workspaces.changes.watch import Watcher
from relight.workspaces.policy import TreePolicy
from relight.workspaces.pool.pool import Pool
from relight.workspaces.store_detection import Stores


class Tracker:
    """The cached state of one root, and how it is updated. Not thread-safe: its workspace serialises."""

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
        self._finder = ChangeFinder(root, root_fd, pool, policy, Classifier(root_fd, policy, stores))
        self._cache = cache
        self._changed_since_save = 0
        self._bound_to = f"{os.fstat(root_fd).st_ino}:{policy.fingerprint()}:{root.hex()}"
        self._load_state()

    @property
    def watcher(self) -> Watcher | None:
        return self._finder.watcher

    @property
    def last(self) -> bytes:
        """The hash of the last snapshot's record; empty if there is none."""
        return self._finder.state.last

    def seen(self, path: bytes) -> Stat | None:
        """The stat of a path in the last snapshot."""
        parent, _, name = path.rpartition(b"/")
        node = self._finder.state.nodes.get(parent)
        return node.stats.get(name) if node is not None else None

    def run(self) -> tuple[bytes, SnapshotRecord, Tier, Run]:
        """Update state and pool; returns (hash of the record, record, how changes were found, the run)."""
        run, finder, pool = Run(self._policy), self._finder, self._pool
        try:
            tier = finder.find(run)
            known = finder.state
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
        finder.must_walk, finder.classifier.recheck_all, known.exclude = False, False, run.exclude
        self._changed_since_save += len(run.drafts)
        assert known.record is not None
        return known.last, known.record, tier, run

    def reset(self) -> None:
        """Drop the cached state: the next run reads every file."""
        finder = self._finder
        if finder.watcher is not None:
            for path in finder.state.nodes:
                finder.watcher.forget(path)
        finder.state = state.TreeState()
        self._pool.clear_used()
        finder.must_walk = True

    def include_paths(self, paths: Iterable[bytes]) -> None:
        """Capture these exact paths from now on, ignored or not."""
        finder = self._finder
        wider = finder.include.with_paths(paths)
        if wider.paths != finder.include.paths:
            finder.include = wider
            for node in finder.state.nodes.values():
                node.rules = None
            finder.classifier.recheck_all = True

    def watch(self) -> None:
        """Start the watcher; until every directory is watched and scanned once more, runs walk."""
        if self._finder.watcher is None:
            self._finder.watcher = Watcher(self._root)
            self._finder.must_walk = True

    def fresh(self) -> Tracker:
        """A tracker without cached state that captures the same, for an audit."""
        made = Tracker(self._root, self._root_fd, self._pool, self._policy, stores=self._stores, cache=None)
        made._finder.include = self._finder.include
        return made

    # -- the state between processes --------------------------------------------------------------------------

    def save(self) -> None:
        """Save the state for the next process; nothing depends on it."""
        if self._cache is not None and self._changed_since_save and self.last:
            state.save(self._cache, self._finder.state, self._bound_to, self._pool.used)
            self._changed_since_save = 0

    def _load_state(self) -> None:
        found = state.load(self._cache, self._bound_to, self._pool.registered) if self._cache is not None else None
        if found is not None:
            self._finder.state, segments = found
            self._pool.used.update(segments)
