"""What is remembered of directories beside a pool, once nobody needs it: file names must not outlive their session.

The memory of a root lists every name in it, a note of a restore every path it touched. Both go as soon as the snapshot
they speak of does: the memory costs one more look at the files, the note could not be undone any more.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Set
from pathlib import Path

from relight.errors import Corrupt, Refused
from relight.workspaces.changes import memory
from relight.workspaces.pool.objects import snapshot_id
from relight.workspaces.remote.cache import PARTS
from relight.workspaces.restore.restore_log import RestoreLog


def forget_dead(pool: Path, live: Set[str]) -> None:
    """Remove what speaks only of snapshots that are not among the live ones."""
    for leftover in pool.glob("*.idx.*"):
        leftover.unlink(missing_ok=True)
    if not live:
        for name in ("roots", PARTS):
            shutil.rmtree(pool / name, ignore_errors=True)
        with contextlib.suppress(OSError):
            pool.rmdir()  # stays where something else lies in it
        return
    roots = pool / "roots"
    for root in sorted(roots.iterdir()) if roots.is_dir() else ():
        _forget_memory(root, live)
        _forget_notes(root / "restores", live)


def _forget_memory(root: Path, live: Set[str]) -> None:
    cached = memory.read(root / "memory")
    if cached is None or snapshot_id(cached.last) not in live:
        (root / "memory").unlink(missing_ok=True)
    for leftover in root.glob("memory.*"):
        leftover.unlink(missing_ok=True)


def _forget_notes(directory: Path, live: Set[str]) -> None:
    log = RestoreLog(directory)
    with contextlib.suppress(Refused), log.alone():  # where a restore is under way its session is alive
        try:
            kept = {record.id for record in log.records() if record.safety in live}
        except Corrupt:
            return  # `verify` names it; nobody knows whose it is
        for restore in log.ids() - kept:
            log.forget(restore)
