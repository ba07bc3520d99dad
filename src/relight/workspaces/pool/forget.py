"""Removes cached state and restore records whose snapshots are gone: file names must not outlive their session.

The cached state of a root lists every name in it, a restore record every path it touched. Both are removed with the
snapshot they refer to: without the state the next snapshot reads all files, and the restore cannot be undone anyway.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Set
from pathlib import Path

from relight.errors import Corrupt, Refused
from relight.workspaces.changes import state
from relight.workspaces.pool.objects import snapshot_id
from relight.workspaces.remote.cache import PARTS
from relight.workspaces.restore.restore_log import RestoreLog


def remove_dead_state(pool: Path, live: Set[str]) -> None:
    """Remove state and restore records that refer only to snapshots not in `live`."""
    for leftover in pool.glob("*.idx.*"):
        leftover.unlink(missing_ok=True)
    if not live:
        for name in ("roots", PARTS):
            shutil.rmtree(pool / name, ignore_errors=True)
        with contextlib.suppress(OSError):
            pool.rmdir()  # fails if anything else is in it
        return
    roots = pool / "roots"
    for root in sorted(roots.iterdir()) if roots.is_dir() else ():
        _remove_state(root, live)
        _remove_restore_records(root / "restores", live)


def _remove_state(root: Path, live: Set[str]) -> None:
    cached = state.read(root / "memory")
    if cached is None or snapshot_id(cached.last) not in live:
        (root / "memory").unlink(missing_ok=True)
    for leftover in root.glob("memory.*"):
        leftover.unlink(missing_ok=True)


def _remove_restore_records(directory: Path, live: Set[str]) -> None:
    log = RestoreLog(directory)
    with contextlib.suppress(Refused), log.exclusive():  # Refused: a restore is under way, so its session is alive
        try:
            kept = {record.id for record in log.records() if record.safety in live}
        except Corrupt:
            return  # `verify` reports it; whose it is cannot be known
        for restore in log.ids() - kept:
            log.forget(restore)
