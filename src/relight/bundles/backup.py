"""A backup: the whole store as it is at one moment, in one SQLite file, its captured files in a directory beside it.

A SQLite store copies its own pages, so that the backup is the store, byte for byte of content; any other store is
copied session by session (`copying`). Then the captured files that the backup names are copied, each checked by its
hash, and everything is read back and verified. Only then does the file get its name, last of all: a backup that was
killed leaves nothing that looks whole, only files with `.partial-` in their names.

The result is a store: open it, or put the file and the directory where the lost ones were.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec

from relight.bundles.copying import copy_sessions
from relight.errors import Corrupt, NotFound, Refused, StoreUnavailable
from relight.history.verify import Report, verify
from relight.ports.store import SelfCopyingStore
from relight.sessions.context import Context
from relight.system.durable import sync_directory

Progress = Callable[[str, int, int], object]
"""called with the activity, the amount done, and the whole amount"""


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """A finished backup."""

    path: str
    sessions: int
    steps: int
    """how many were verified by their digests"""
    size_bytes: int
    files: str | None
    """where the captured files are: a directory beside the file, or the remote location that has them anyway; None if
    there are none"""


def backup(context: Context, path: Path, *, progress: Progress | None = None) -> BackedUp:
    """Write a backup to a new file. Refused if the file or its directory exists; Corrupt if a digest does not hold."""
    path = path.absolute()
    _refuse_existing(path)  # before its name is used: the root directory has none
    blobs = _blobs_of(path)
    _refuse_existing(blobs)
    partial = path.with_name(f"{path.name}.partial-{context.entropy.session_id()[:8]}")
    tell = progress or (lambda what, done, total: None)
    try:
        _copy_journal(context, partial, tell)
        report, files = _complete(context, partial, tell)
        size = partial.stat().st_size
        if _blobs_of(partial).exists():
            os.rename(_blobs_of(partial), blobs)
            files = str(blobs)
        os.link(partial, path)  # the commit point: unlike a rename it never replaces an existing file
        sync_directory(path.parent)
    except FileExistsError:
        raise Refused(f"{path}: it exists already", hints=["choose another file"]) from None
    except OSError as error:
        raise StoreUnavailable(f"{path}: the backup could not be written: {error.strerror or error}") from error
    finally:
        _remove_leftovers(partial)
    return BackedUp(path=str(path), sessions=report.sessions, steps=report.steps, size_bytes=size, files=files)


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise Refused(f"{path}: it exists already", hints=["choose another file"])


def _blobs_of(path: Path) -> Path:
    return path.with_name(path.name + ".blobs")


def _copy_journal(context: Context, partial: Path, tell: Progress) -> None:
    if context.store.info.copies_itself:
        pages = cast(SelfCopyingStore, context.store)
        pages.copy_to(partial, lambda done, total: tell("copying pages", done, total))
        return
    other = context.open_other(str(partial))
    try:
        copied = copy_sessions(context, other, progress=tell)
    finally:
        other.store.close()
    if copied.refused:
        one = copied.refused[0]
        raise Corrupt(one.why, session=one.session)


def _complete(context: Context, partial: Path, tell: Progress) -> tuple[Report, str | None]:
    """Copy the captured files that the backup names, and verify all of it."""
    other = context.open_other(str(partial))
    try:
        pools = sorted(other.store.list_pools())
        files = other.workspaces().location if pools else None
        if pools and not other.workspaces().is_remote and context.store.info.copies_itself:
            for number, pool in enumerate(pools):
                tell("copying files", number, len(pools))
                _copy_pool(context, other, pool)
        tell("verifying", 0, 1)
        report = verify(other, None)
    finally:
        other.store.close()
    if report.problems:
        first = report.problems[0]
        what = f"{first.what}; the store was not backed up, but relight copy copies every session that is whole"
        raise Corrupt(what, session=first.session, seq=first.seq)
    return report, files


def _copy_pool(context: Context, other: Context, pool: str) -> None:
    """The rows of segments were copied with the journal, their files not: the content comes in segments of its own."""
    snapshots = sorted(other.store.list_snapshots(pool))
    other.store.remove_segments(pool, other.store.list_segments(pool))
    if not snapshots:
        return
    try:
        other.workspaces().take_in(pool, context.workspaces().objects(pool, snapshots), snapshots)
    except NotFound as error:
        # Removed by a sweep since the journal was copied, or damaged; the next backup, or `verify`, tells which.
        raise Corrupt(f"captured files are missing: {error.message}; back up again") from None


def _remove_leftovers(partial: Path) -> None:
    """What belongs to the unfinished file: log, watermark, reserve, directory; and its first name."""
    for left in partial.parent.glob(f"{partial.name}*"):
        for directory, _, names in os.walk(left, topdown=False):
            for name in names:
                os.unlink(os.path.join(directory, name))
            os.rmdir(directory)
        left.unlink(missing_ok=True)
