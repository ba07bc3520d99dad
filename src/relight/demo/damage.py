"""Damage: one bit of a copy of the store is flipped, in the bytes of its newest step, and relight is asked about it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import apsw
import msgspec

import relight
from relight.errors import AgentFailed, Corrupt

_BIT: Final = 3


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to the copy, and what relight said."""

    byte: int
    """position in the file"""
    bit: int
    flipped_seq: int
    named: list[int | None]
    """the steps that `verify` calls broken"""
    what: str
    offered: str | None
    refused: bool
    """does loading the session refuse, naming that step?"""
    offered_loads: bool
    """does the offered checkpoint load?"""


def damage_copy(store: Path, copy: Path, session: str) -> Damage:
    """Copy a store, flip one bit of the session's newest step, and look."""
    source = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        source.execute("VACUUM INTO ?", (str(copy),))
    finally:
        source.close()
    copy.chmod(0o600)
    shutil.copytree(f"{store}.blobs", f"{copy}.blobs")
    seq, place = _newest_step(copy, session)
    _flip(copy, place)
    with relight.open(copy) as rl:
        problems = rl.verify(session).problems
        offered = next((problem.offered for problem in problems if problem.offered), None)
        return Damage(
            byte=place,
            bit=_BIT,
            flipped_seq=seq,
            named=[problem.seq for problem in problems],
            what=problems[0].what if problems else "",
            offered=offered,
            refused=_is_refused(rl, session, seq),
            offered_loads=offered is not None and _loads(rl, offered),
        )


def _newest_step(copy: Path, session: str) -> tuple[int, int]:
    """The newest step's seq, and where the middle of its stored content lies in the file."""
    with relight.open(copy) as rl:
        info = rl.get(session)
        (step,) = rl.store.steps(info.id, after=info.seq - 1)
    content = copy.read_bytes()
    if content.count(step.body) != 1:
        raise AgentFailed(f"the newest step stands {content.count(step.body)} times in the store, not once")
    return step.seq, content.index(step.body) + len(step.body) // 2


def _flip(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ (1 << _BIT)]))


def _is_refused(rl: relight.Relight, session: str, seq: int) -> bool:
    try:
        rl.load(session)
    except Corrupt as error:
        return error.seq == seq
    return False


def _loads(rl: relight.Relight, checkpoint: str) -> bool:
    try:
        rl.load(checkpoint)
    except Corrupt:
        return False
    return True
