"""The result of a start: one value for every entry point."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from relight.values.call import Call
from relight.values.info import SessionInfo
from relight.values.status import Status

Done = Literal["told_unknown", "told_interrupted", "still_runs", "left_to_the_program"]
_TEXTS: dict[Done, str] = {
    "told_unknown": "the model is told that its outcome is unknown",
    "told_interrupted": "the model is told that it was interrupted and can be asked for again",
    "still_runs": "the agent lives and continues with it",
    "left_to_the_program": "the program is told that its outcome is unknown when it comes to it; it is not run again",
}


class Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """A call whose outcome is unknown, and what the start did about it."""

    id: str
    name: str
    effect: str
    done: Done
    text: str


class StartOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A start that happened: its program runs, or its session is queued until a usage limit ends."""

    session: str
    name: str | None
    status: Status
    reason: str | None
    attempt: int
    resumed_from: int | None
    """seq of the requested checkpoint; None for a first run"""
    checkpoint: str | None
    """the same with its session, which for a fork is the parent"""
    rung: str | None
    """how a coding agent continues: native, bootstrap, fresh; None for a program, or while it is queued"""
    command: list[str] | None
    """as launched; None while it is queued"""
    directory: str | None
    workspace: dict[str, str]
    put_back: int | None
    """the step whose snapshot the files were restored to; None: they were left as they are"""
    prompt_sent: bool
    """whether the prompt of this start, or the first one, was passed to the program"""
    in_doubt: list[Doubt]
    pid: int | None
    """of the program"""
    handle: str | None
    orphans: list[int] = []
    """processes of a dead attempt that were ended first"""
    wake_at: datetime | None = None
    """queued until then"""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How and with which exit code a program ended."""

    session: SessionInfo
    """as it is then"""
    exit_code: int
    """of the program, as a shell would report it"""


class Resumed(StartOutcome, frozen=True, kw_only=True):
    """The result of a start whose program has ended, with its end."""

    ended: Ending


def resumed(outcome: StartOutcome, session: SessionInfo, exit_code: int) -> Resumed:
    """The outcome of a start, with its end."""
    return Resumed(**msgspec.structs.asdict(outcome), ended=Ending(session=session, exit_code=exit_code))


def doubts_of(calls: Sequence[Call], *, rung: str | None, lives: bool = False) -> list[Doubt]:
    """What a start does about calls in doubt. `rung`: of a coding agent; `lives`: it was reattached as it is."""

    def done(call: Call) -> Done:
        if lives:
            return "still_runs"
        if rung is None:
            return "left_to_the_program"
        return "told_interrupted" if call.effect == "pure" else "told_unknown"

    return [
        Doubt(id=one.id, name=one.name, effect=one.effect or "once", done=done(one), text=_TEXTS[done(one)])
        for one in calls
        if one.in_doubt
    ]
