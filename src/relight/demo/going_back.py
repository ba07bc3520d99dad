"""Rewind and undo of the shop's files, timed, and compared byte for byte by reading the directory.

A file that the user wrote meanwhile, and that no snapshot holds, must survive both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

import relight
from relight.demo import shop
from relight.errors import AgentFailed, NotFound
from relight.ports.workspace import Workspace
from relight.workspaces.home import TreeWorkspaces

NOTES: Final = "notes.md"
_NOTES_TEXT: Final = b"to do: ask about taxes\n"


class GoneBack(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one rewind and its undo."""

    checkpoint: int
    """the step before the edit"""
    back_ms: float
    forth_ms: float
    differ_after_rewind: list[str]
    """files that differ from the original shop"""
    differ_after_undo: list[str]
    """files that differ from what the agent left"""
    tests_failed_there: int
    """of the shop's tests, after the rewind"""
    tests_passed_again: int
    notes_kept: bool
    """was the user's own file there, unchanged, both times?"""
    conversation_kept: bool
    """did the files alone move?"""


def go_back_and_forth(rl: relight.Relight, session: str, directory: Path, before: dict[str, bytes]) -> GoneBack:
    """Rewind the files to the checkpoint before the edit, undo that, and compare the files each time."""
    checkpoint = _before_the_edit(rl, session)
    messages = rl.load(session).messages
    (directory / NOTES).write_bytes(_NOTES_TEXT)
    after = shop.files(directory)
    back_ms = _timed(lambda: rl.rewind(f"{session}@{checkpoint}", conversation=False, files=True))
    there = shop.files(directory)
    passed, tests = shop.run_tests(directory)
    forth_ms = _timed(lambda: _undo(rl, session))
    again = shop.files(directory)
    passed_again, _ = shop.run_tests(directory)
    return GoneBack(
        checkpoint=checkpoint,
        back_ms=back_ms,
        forth_ms=forth_ms,
        differ_after_rewind=_differences(there, {**before, NOTES: _NOTES_TEXT}),
        differ_after_undo=_differences(again, after),
        tests_failed_there=tests - passed,
        tests_passed_again=passed_again,
        notes_kept=there.get(NOTES) == again.get(NOTES) == _NOTES_TEXT,
        conversation_kept=rl.load(session).messages == messages,
    )


def _before_the_edit(rl: relight.Relight, session: str) -> int:
    found = next((call.intent_seq for call in rl.load(session).calls if call.name == "edit_file"), None)
    if found is None:
        raise AgentFailed("the demo's agent edited nothing")
    return found - 1


def _undo(rl: relight.Relight, session: str) -> None:
    with suppress(NotFound):  # a rewind that did nothing leaves nothing to undo; the claims report it
        rl.undo(session)


def _timed(act: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    act()
    return round((time.perf_counter() - begun) * 1000, 3)


def _differences(one: dict[str, bytes], two: dict[str, bytes]) -> list[str]:
    return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """The snapshots that a session's checkpoints name, each read completely."""

    snapshots: int
    damaged: int
    """snapshots with missing or damaged content"""
    last_differs: list[str]
    """files on disk that differ from the last one"""


def read_snapshots(rl: relight.Relight, session: str, directory: Path) -> Held:
    """Read every snapshot of a session completely, and compare the last one with the disk."""
    named = dict.fromkeys(one.snapshot for one in rl.checkpoints(session) if one.snapshot is not None)
    if not named:
        return Held(snapshots=0, damaged=0, last_differs=[])
    record = rl.store.find(rl.get(session).id)
    assert record is not None
    ((name, pool),) = record.identity.pools.items()
    workspace = TreeWorkspaces(rl.store).open(str(directory), name=name, pool=pool)
    try:
        damaged = sum(bool(workspace.verify(one)) for one in named)
        return Held(snapshots=len(named), damaged=damaged, last_differs=_on_disk(workspace, list(named)[-1], directory))
    finally:
        workspace.close()


def _on_disk(workspace: Workspace, snapshot: str, directory: Path) -> list[str]:
    """Files whose bytes in a snapshot and on disk differ. Both are read in full; no cached state is used."""
    disk = shop.files(directory)
    held = {name: _content(workspace, snapshot, name) for name in {*disk, *_names(workspace, snapshot)}}
    return _differences(disk, {name: data for name, data in held.items() if data is not None})


def _names(workspace: Workspace, snapshot: str) -> Iterable[str]:
    changes = workspace.diff(snapshot, None)
    return [change.path.decode() for change in changes if change.before is not None and change.before.kind == "file"]


def _content(workspace: Workspace, snapshot: str, name: str) -> bytes | None:
    try:
        return workspace.read(snapshot, name.encode())
    except NotFound:
        return None
