"""Stores what a run found: files into the pool, then the state, then directories from the leaves up, then the record.

Only `apply` changes the cached state, and only after every changed file is in the pool.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from relight.ports.faults import point
from relight.values.snapshot import Entry, SnapshotRecord
from relight.workspaces.changes.capture import Captured, capture, skip
from relight.workspaces.changes.classify import Job, Run
from relight.workspaces.changes.state import TreeState
from relight.workspaces.changes.watch import Watcher
from relight.workspaces.git_heads import read_head
from relight.workspaces.pool.objects import digest, encode_snapshot
from relight.workspaces.pool.pool import Pool
from relight.workspaces.store_detection import Stores

WORKERS: Final = 2
INLINE_JOBS: Final = 48
"""up to this many files are read without threads"""
BATCH: Final = 32
MAX_REPOSITORIES: Final = 256


def read_files(run: Run, root_fd: int, pool: Pool, stores: Stores) -> None:
    """Put every file that may have changed into the pool, or record why not."""
    jobs = run.jobs
    jobs.sort(key=lambda job: job.former is not None and job.former.kind != "skip")  # new ones first
    if len(jobs) <= INLINE_JOBS:
        for job in jobs:
            run.record_capture(job, _capture(run, job, root_fd, pool, stores))
        return
    batches = [jobs[at : at + BATCH] for at in range(0, len(jobs), BATCH)]
    with ThreadPoolExecutor(WORKERS) as workers:
        done = workers.map(lambda batch: [_capture(run, job, root_fd, pool, stores) for job in batch], batches)
        for batch, found in zip(batches, done, strict=True):
            for job, one in zip(batch, found, strict=True):
                run.record_capture(job, one)


def _capture(run: Run, job: Job, root_fd: int, pool: Pool, stores: Stores) -> Captured:
    if run.is_over_budget():
        return Captured(skip(job.name, "budget"), True, 0)
    found = capture(root_fd, job.path, pool, job.former, run.policy.max_file_bytes, stores)
    run.read_bytes += found.read_bytes
    return found


def apply(run: Run, state: TreeState, pool: Pool, watcher: Watcher | None) -> None:
    """Apply what the run found to the cached state."""
    for path in run.dropped:
        for below in state.drop(path):
            if watcher is not None and below not in run.new_nodes:
                watcher.forget(below)
    for path in sorted(run.new_nodes):
        if path.rpartition(b"/")[0] in state.nodes:
            state.nodes[path] = run.new_nodes[path]
    for path, draft in run.drafts.items():
        node = state.nodes.get(path)
        if node is not draft.node:
            continue
        entries = node.load_entries(pool)
        for name, entry in draft.changes.items():
            if entry is None:
                entries.pop(name, None)
            else:
                entries[name] = entry
        node.set_stats(draft.stats, draft.block)
        node.recheck = frozenset(draft.recheck)
        (state.recheck.add if node.recheck else state.recheck.discard)(path)
    for path, mode in run.modes.items():
        if path in state.nodes:
            state.nodes[path].mode = mode
    state.repositories = {path for path in state.repositories | run.repositories if path in state.nodes}


def store(run: Run, state: TreeState, pool: Pool, root_fd: int) -> tuple[bytes, SnapshotRecord]:
    """Store the changed directories and the record; returns its hash and the record."""
    waiting = _changed_by_depth(run, state)
    root = None
    for depth in range(max(waiting, default=-1), -1, -1):
        for path in waiting.get(depth, ()):
            entry = state.nodes[path].store(pool)
            if not path:
                root = entry
                continue
            parent = state.nodes[path.rpartition(b"/")[0]]
            listed = parent.load_entries(pool)
            if listed.get(entry.name) != entry:
                listed[entry.name] = entry
                waiting.setdefault(depth - 1, set()).add(parent.path)
    point("snapshot.directories_put")
    return _seal(root, state, pool, root_fd)


def _changed_by_depth(run: Run, state: TreeState) -> dict[int, set[bytes]]:
    changed = {path for path, draft in run.drafts.items() if draft.changes} | run.new_nodes.keys() | run.modes.keys()
    if not state.last:
        changed.add(b"")
    waiting: dict[int, set[bytes]] = {}
    for path in changed:
        if path in state.nodes:  # not `changed & nodes.keys()`, which iterates over every directory
            waiting.setdefault(path.count(b"/") + 1 if path else 0, set()).add(path)
    return waiting


def _seal(root: Entry | None, state: TreeState, pool: Pool, root_fd: int) -> tuple[bytes, SnapshotRecord]:
    heads = [read_head(root_fd, path) for path in sorted(state.repositories)[:MAX_REPOSITORIES]]
    known = tuple(head for head in heads if head is not None)
    if root is None and state.record is not None and state.record.heads == known:
        return state.last, state.record
    if root is None:
        node = state.nodes[b""]
        root = node.entry(list(node.load_entries(pool).values()))
    record = SnapshotRecord(
        tree=root.ref,
        mode=root.mode,
        files=root.files,
        size_bytes=root.size_bytes,
        skipped=root.skipped,
        heads=known,
    )
    data = encode_snapshot(record)
    ref = digest(data)
    pool.put_hashes(ref, data)
    return ref, record
