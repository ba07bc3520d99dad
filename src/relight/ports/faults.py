"""Named fault points: the places where a test may stop the world.

`point("commit.written")` costs a dictionary look-up and does nothing, unless a test has armed it: in the process with
`arm`, or for a child with RELIGHT_FAULT=NAME:NTH:ACTION, where ACTION is `kill` (SIGKILL to ourselves) or `raise`.
Several are separated by commas. Every name is registered in `POINTS`, so that a crash matrix can visit them all.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Final

POINTS: Final[dict[str, str]] = {
    "commit.enter": "a writer is about to hand its step to the store",
    "commit.begun": "inside the transaction, nothing written yet",
    "commit.written": "rows written, transaction still open",
    "commit.committed": "durable, nobody told yet",
    "commit.told": "the writer has its checkpoint",
    "session.created": "the session's rows exist, it has no step",
    "tool.asked": "a call is about to be started, no intent yet",
    "tool.intended": "the intent is committed, the tool has not begun",
    "tool.done": "the tool has returned, its result is not committed",
    "tool.recorded": "the result is committed",
    "resume.planned": "the attempt is decided, not committed",
    "snapshot.file_read": "a file's bytes are in memory",
    "snapshot.read": "every changed file is in the pool's buffer, the memory is unchanged",
    "snapshot.directories_put": "directories are in the buffer, the record is not",
    "snapshot.segment_rowed": "a new segment has its row and no file",
    "snapshot.segment_created": "a new segment exists and is empty",
    "snapshot.segment_written": "records are written and not synced",
    "snapshot.segment_synced": "the content is durable, nobody knows its name",
    "upload.begun": "a part of a segment is about to be put off the machine",
    "upload.done": "a part is off the machine, and nobody knows it",
    "upload.synced": "all parts of a snapshot are off the machine, nobody knows its name",
    "restore.begun": "the restore is noted, nothing is touched",
    "restore.obstacle_removed": "something that stood in the place of a directory or file is gone",
    "restore.written": "a temporary file is written and not synced",
    "restore.synced": "temporary files are durable, nothing is renamed",
    "restore.swapped": "new and former content have changed names, the former still exists",
    "restore.placed": "one path is as wanted",
    "restore.writes_done": "all is written, nothing deleted",
    "restore.set_aside": "a file to be deleted has a temporary name",
    "restore.deleted": "one path is deleted",
    "restore.acted": "all is done and not yet noted",
    "restore.noted": "the restore is noted as done",
    "sweep.unrowed": "segments have lost their rows, their files exist",
    "sweep.copied": "what is needed was copied on, the old files exist",
    "resume.claimed": "the new attempt owns the session",
    "worker.planned": "a worker is about to claim a session that stands in line",
    "worker.claimed": "a worker owns the session, nobody attends to it yet",
    "recover.planned": "a session is about to be put back in line",
    "recover.written": "a session stands in line again, nobody knows",
}

Action = Callable[[str], None]
_armed: dict[str, Action] = {}


class InjectedFault(Exception):
    """What an armed `raise` point raises."""


def point(name: str) -> None:
    """Pass through, or do what a test has armed here."""
    if _armed:
        action = _armed.get(name)
        if action is not None:
            action(name)


def arm(name: str, action: Action) -> None:
    """From now on `action` happens at this point."""
    _armed[name] = action


def disarm() -> None:
    """Forget everything armed."""
    _armed.clear()


def arm_from(setting: str) -> None:
    """Arm what RELIGHT_FAULT asks for; an empty setting asks for nothing."""
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
    os.kill(os.getpid(), signal.SIGKILL)


def _raise(name: str) -> None:
    raise InjectedFault(name)


_ACTIONS: Final[dict[str, Action]] = {"kill": _kill, "raise": _raise}
arm_from(os.environ.get("RELIGHT_FAULT", ""))
