"""Named fault points, at which a test can kill, stop or fail the process.

`point("commit.written")` does nothing unless a test has armed it: in the process with `arm`, or in a child with
RELIGHT_FAULT=NAME:NTH:ACTION, where ACTION is `kill` (SIGKILL to itself) or `raise`, several separated by commas.
Every name is registered in `POINTS`, so that the crash matrix can visit them all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

POINTS: Final[dict[str, str]] = {
    "commit.enter": "a writer is about to hand its step to the store",
    "commit.begun": "inside the transaction, nothing written yet",
    "commit.written": "rows written, transaction still open",
    "commit.committed": "durable, not acknowledged yet",
    "commit.told": "acknowledged: the writer has its checkpoint",
    "session.created": "the session's rows exist, it has no step",
    "session.handed_over": "claimed for another agent, whose name is not recorded yet",
    "spawn.intended": "the parent has recorded that it spawns a child, which does not exist yet",
    "tool.asked": "a call is about to be started, no intent yet",
    "tool.intended": "the intent is committed, the tool has not begun",
    "tool.done": "the tool has returned, its result is not committed",
    "tool.recorded": "the result is committed",
    "resume.planned": "the attempt is decided, not committed",
    "snapshot.file_read": "a file's bytes are in memory",
    "snapshot.read": "every changed file is in the pool's buffer, the index of known files is unchanged",
    "snapshot.directories_put": "directories are in the buffer, the record is not",
    "snapshot.segment_rowed": "a new segment has its row and no file",
    "snapshot.segment_created": "a new segment exists and is empty",
    "snapshot.segment_written": "records are written and not synced",
    "snapshot.segment_synced": "the content is durable, no step refers to it",
    "upload.begun": "a part of a segment is about to be uploaded",
    "upload.done": "a part is uploaded, its location is not recorded",
    "upload.synced": "all parts of a snapshot are uploaded, no step refers to it",
    "restore.begun": "the restore is in the undo log, no file is changed",
    "restore.obstacle_removed": "something in the way of a directory or file is removed",
    "restore.written": "a temporary file is written and not synced",
    "restore.synced": "temporary files are durable, nothing is renamed",
    "restore.swapped": "new and former content have exchanged names, the former still exists",
    "restore.placed": "one path is restored",
    "restore.writes_done": "all is written, nothing deleted",
    "restore.set_aside": "a file to be replaced or deleted has a temporary name",
    "restore.deleted": "one path is deleted",
    "restore.acted": "all files are restored, the undo log does not say so yet",
    "restore.noted": "the undo log says that the restore is done",
    "sweep.unrowed": "segments have lost their rows, their files exist",
    "sweep.copied": "content still needed was copied, the old files exist",
    "resume.claimed": "the new attempt owns the session",
    "worker.planned": "a worker is about to claim a queued session",
    "worker.claimed": "a worker owns the session, no attendant is started",
    "recover.planned": "a session is about to be requeued",
    "recover.written": "a session is requeued, no worker has been notified",
}

Action = Callable[[str], None]
_armed: dict[str, Action] = {}


class InjectedFault(Exception):
    """Raised at a point armed with `raise`; no RelightError, so no code of ours handles it."""


def point(name: str) -> None:
    """Do nothing, or the action that a test has armed at this point."""
    if _armed:
        action = _armed.get(name)
        if action is not None:
            action(name)


def arm(name: str, action: Action) -> None:
    """Run `action` at this point from now on, each time it is reached."""
    _armed[name] = action


def disarm() -> None:
    """Disarm all fault points of this process."""
    _armed.clear()


def arm_from(setting: str) -> None:
    """Arm the points that a value of RELIGHT_FAULT names; none if it is empty."""
    for part in filter(None, setting.split(",")):
        name, nth, action = part.split(":")
        arm(name, _after(int(nth), _ACTIONS[action]))


def _after(nth: int, action: Action) -> Action:
    seen = 0

    def counted(name: str) -> None:
        nonlocal seen
        seen += 1
        if seen == nth:
            action(name)

    return counted


def _kill(name: str) -> None:
    from signal import SIGKILL  # a command that only reads imports this module and not that one

    os.kill(os.getpid(), SIGKILL)


def _raise(name: str) -> None:
    raise InjectedFault(name)


_ACTIONS: Final[dict[str, Action]] = {"kill": _kill, "raise": _raise}
arm_from(os.environ.get("RELIGHT_FAULT", ""))
