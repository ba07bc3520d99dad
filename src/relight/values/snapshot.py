"""Snapshots of a workspace, and what a restore would do. Values only.

A snapshot is named by the hash of its record, so equal content has an equal name, and its content cannot be replaced. A
path is bytes, relative to the workspace's root, parts joined by `/`: file systems have no encoding. What was left out
is an entry too (kind "skip", with its reason): a snapshot's own record shows what it lacks.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

EntryKind = Literal["file", "big", "link", "dir", "skip"]
"""`big` is a file stored in chunks; `skip` is something that exists and was left out"""

SkipReason = Literal[
    "ignored",
    "secret",
    "fifo",
    "socket",
    "device",
    "too large",
    "budget",
    "changing",
    "unreadable",
    "store",
    "depth",
    "git",
]

Choice = Literal["stop", "theirs", "ours", "force"]
"""for conflicts: stop; keep the others' change; the checkpoint's wins; it wins even if that deletes"""

ROOT: Final = b""


class Entry(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """One name in a directory."""

    name: bytes
    kind: EntryKind
    mode: int = 0
    """permission bits, 0o7777"""
    ref: bytes = b""
    """sha256 of the content, the chunk list or the directory; a link's target; a skip's reason"""
    size_bytes: int = 0
    """of a file; of all files below a directory"""
    mtime_ns: int = 0
    """of a file; restored with it, and no part of `same`"""
    files: int = 0
    """below a directory"""
    skipped: int = 0
    """below a directory"""

    def same(self, other: Entry | None) -> bool:
        """Whether a restore would have nothing to do here. Directories compare by their own attributes, not by
        content."""
        if other is None or other.kind != self.kind:
            return False
        # Left out on both sides: a restore never touches it, so there is nothing to do whatever the reason
        # was.
        if self.kind == "skip":
            return True
        if self.kind == "link":
            return self.ref == other.ref
        return self.mode == other.mode and (self.kind == "dir" or self.ref == other.ref)


class GitHead(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The HEAD of a repository inside the workspace; recorded, never restored."""

    path: bytes
    """of the directory that holds `.git`"""
    ref: str = ""
    """such as refs/heads/main; empty when detached"""
    commit: str = ""


class SnapshotRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What is stored and hashed: the snapshot's id is `sha256:` and the hash of these bytes."""

    version: int = 1
    tree: bytes
    mode: int
    files: int
    size_bytes: int
    skipped: int
    heads: tuple[GitHead, ...] = ()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A captured workspace; durable by the time a caller gets it."""

    id: str
    root: str = ""
    """the root's name within its session"""
    pool: str = ""
    """the pool that stores its content; the key of the rows in `segments`"""
    segments: tuple[str, ...] = ()
    """segments that may hold its content; the step that names it checks their rows in its own transaction"""
    files: int = 0
    size_bytes: int = 0
    skipped: int = 0
    heads: tuple[GitHead, ...] = ()
    is_new: bool = True
    """False: nothing changed since the previous snapshot, and nothing was written"""
    tier: Literal["watch", "walk", "full"] = "walk"
    """how the changes were found"""
    hashed: int = 0
    """files read for it"""
    stored_bytes: int = 0
    """written for it, compressed"""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A path left out of a snapshot, and not touched by a restore."""

    path: bytes
    reason: str
    size_bytes: int = 0


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One path that differs between two snapshots."""

    path: bytes
    what: Literal["added", "changed", "deleted"]
    before: Entry | None = None
    after: Entry | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One action of a restore: write `entry` at `path`, or delete what is there."""

    path: bytes
    entry: Entry | None = None
    """what the target holds; None deletes"""
    found: Entry | None = None
    """what the safety snapshot holds there; None: nothing"""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A path that differs from the target and stays as it is, or a conflict to decide."""

    path: bytes
    reason: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the restore planner (journal/files/restore_plan.py)."""

    writes: tuple[Action, ...] = ()
    """parents before children"""
    deletes: tuple[Action, ...] = ()
    """children before parents"""
    kept: tuple[Kept, ...] = ()
    conflicts: tuple[Kept, ...] = ()
    may_run_later: tuple[bytes, ...] = ()
    """written files that some tool executes on its own"""


class RestorePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly what a restore would do, bound to what was on disk when it was planned."""

    target: str
    safety: Snapshot
    """the disk as it was; must be named by a committed step before the restore"""
    choice: Choice = "stop"
    exact: bool = False
    paths: tuple[bytes, ...] = ()
    """restored by name; empty: all"""
    decision: Decision = Decision()
    left_out: tuple[Skipped, ...] = ()
    """what the target never held, and is therefore not touched"""
    undoes: str = ""
    """the restore that this one reverts"""

    @property
    def is_empty(self) -> bool:
        return not (self.decision.writes or self.decision.deletes)


class RestoreRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The durable record of one restore: written before the first change, closed after the last."""

    id: str
    state: Literal["begun", "done", "undone"]
    target: str
    safety: str
    """what `undo` returns to"""
    root: str = ""
    choice: Choice = "stop"
    exact: bool = False
    paths: tuple[bytes, ...] = ()
    actions: tuple[bytes, ...] = ()
    """the path of every action, in order; temporary files are named by their index"""
    undoes: str = ""
    created_us: int = 0


class RestoreOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore did, by path."""

    id: str
    """empty: there was nothing to do, so there is nothing to undo"""
    target: str
    safety: str
    written: int
    deleted: int
    kept: tuple[Kept, ...] = ()
    changed_meanwhile: tuple[bytes, ...] = ()
    """paths changed by others while it ran; left as they are"""
    saved_aside: tuple[bytes, ...] = ()
    """unknown content that was in the way of an interrupted restore, saved under these names"""
    other_modes: int = 0
    """paths that have another mode than the target's, because the file system did not take it"""


class SweepReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep of one pool removed, or would remove."""

    segments_removed: int = 0
    bytes_removed: int = 0
    """size of removed segment files, minus what was copied to new ones"""
    objects_kept: int = 0
    bytes_kept: int = 0
