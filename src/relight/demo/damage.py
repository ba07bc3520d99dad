"""Damage: flip one bit of the newest step in a copy of the store, then verify and load it."""

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
    """The flipped bit, and what relight reported."""

    byte: int
    """position in the file"""
    bit: int
    flipped_seq: int
    named: list[int | None]
    """the steps that `verify` reports"""
    what: str
    offered: str | None
    refused: bool
    """does loading the session fail with that step?"""
    offered_loads: bool
    """does the offered checkpoint load?"""


def damage_copy(store: Path, copy: Path, session: str) -> Damage:
    """Copy a store, flip one bit of the session's newest step, and verify the copy."""
    source = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        source.execute("VACUUM INTO ?", (str(copy),))
    finally:
        source.close()
    copy.chmod(0o600)
    shutil.copytree(f"{store}.blobs", f"{copy}.blobs")
    seq, offset = _newest_step(copy, session)
    _flip(copy, offset)
    with relight.open(copy) as rl:
        problems = rl.verify(session).problems
        offered = next((problem.offered for problem in problems if problem.offered), None)
        return Damage(
            byte=offset,
            bit=_BIT,
            flipped_seq=seq,
            named=[problem.seq for problem in problems],
            what=problems[0].what if problems else "",
            offered=offered,
            refused=_is_refused(rl, session, seq),
            offered_loads=offered is not None and _loads(rl, offered),
        )


def _newest_step(copy: Path, session: str) -> tuple[int, int]:
    """Seq of the newest step, and the offset of the middle of its stored bytes in the file."""
    with relight.open(copy) as rl:
        info = rl.get(session)
        (step,) = rl.store.steps(info.id, after=info.seq - 1)
    # The stored bytes must occur once in the file, else the flipped bit could be in a free page.
    content = copy.read_bytes()
    if content.count(step.body) != 1:
        raise AgentFailed(f"the newest step is stored {content.count(step.body)} times, not once")
    return step.seq, content.index(step.body) + len(step.body) // 2


def _flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
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
