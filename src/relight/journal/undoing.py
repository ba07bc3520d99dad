"""The undo log: which rewinds and restores a session has seen, and which of them undo or redo would take next.

It is read from the notes of the journal's own steps. Each operation has a beginning (where files are involved, with the
safety snapshots) and an end; one without an end was interrupted. The same operation again goes on with it and takes its
place; any other one shows that it had changed nothing. Undo is an operation too, so the log only grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

Verb = Literal["restore", "rewind", "undo", "redo"]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One change of head or files that can be taken back."""

    id: int
    """the seq of its first step"""
    verb: Verb
    heads: tuple[int, int] | None = None
    """head before and after, where the conversation moved"""
    files: dict[str, tuple[str, str]] = {}
    """root name to (snapshot before, snapshot aimed at)"""
    restores: dict[str, str] = {}
    """root name to the restore's id in that workspace's log"""
    of: int | None = None
    """undo and redo: the operation it is about"""
    done: bool = True
    """False: it was interrupted"""
    went_on: bool = False
    """it ended one that was interrupted; its files before are that one's"""

    @property
    def is_void(self) -> bool:
        """It found nothing to do, so there is nothing to take back."""
        moved = self.heads is not None and self.heads[0] != self.heads[1]
        return self.done and not moved and not self.went_on and not any(self.restores.values())


def begin_note(
    verb: Verb, *, files: Mapping[str, tuple[str, str]], heads: tuple[int, int] | None, of: int | None
) -> dict[str, Any]:
    """The note of the step that goes before the first change of a file."""
    return {
        "operation": {"verb": verb, "files": {k: list(v) for k, v in files.items()}, "heads": _pair(heads), "of": of}
    }


def end_note(
    verb: Verb, *, begun: int | None, restores: Mapping[str, str], heads: tuple[int, int] | None, of: int | None
) -> dict[str, Any]:
    """The note of the step that ends it; alone where no file is involved."""
    return {
        "operation_end": {"verb": verb, "begun": begun, "restores": dict(restores), "heads": _pair(heads), "of": of}
    }


def is_operation(note: Mapping[str, Any] | None) -> bool:
    """Whether a step belongs to the undo log: its snapshots hold whatever was on disk, not the session's own work."""
    return note is not None and ("operation" in note or "operation_end" in note)


def _pair(heads: tuple[int, int] | None) -> list[int] | None:
    return list(heads) if heads is not None else None


def operations(notes: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Operation]:
    """The operations in order, from (seq, note) of all steps."""
    found: dict[int, Operation] = {}
    for seq, note in notes:
        if (begun := note.get("operation")) is not None:
            files = {root: (pair[0], pair[1]) for root, pair in begun["files"].items()}
            fresh = Operation(
                id=seq, verb=begun["verb"], files=files, heads=_read(begun["heads"]), of=begun["of"], done=False
            )
            found[seq] = _in_place_of(_interrupted(found), fresh, found)
        if (ended := note.get("operation_end")) is not None:
            first = ended["begun"]
            before = found.get(first) if first is not None else None
            base = before or Operation(id=seq, verb=ended["verb"], heads=_read(ended["heads"]), of=ended["of"])
            found[base.id] = msgspec.structs.replace(base, restores=ended["restores"], done=True)
    return sorted(found.values(), key=lambda one: one.id)


def _interrupted(found: Mapping[int, Operation]) -> Operation | None:
    """The newest operation, if it has no end."""
    newest = found[max(found)] if found else None
    return newest if newest is not None and not newest.done else None


def _in_place_of(before: Operation | None, fresh: Operation, found: dict[int, Operation]) -> Operation:
    """A beginning right after one that has no end: the same again goes on with it."""
    if before is None or fresh.verb == "undo":
        return fresh
    aims = {root: pair[1] for root, pair in fresh.files.items()}
    if before.verb == "undo" or {root: pair[1] for root, pair in before.files.items()} != aims:
        if before.verb in ("restore", "rewind") and not before.files.keys().isdisjoint(aims):
            del found[before.id]
        return fresh
    if before.verb in ("restore", "rewind"):
        del found[before.id]
    files = {root: (before.files[root][0], aim) for root, aim in aims.items()}
    return msgspec.structs.replace(fresh, files=files, went_on=True)


def _read(heads: list[int] | None) -> tuple[int, int] | None:
    return (heads[0], heads[1]) if heads is not None else None


def next_undo(log: Iterable[Operation]) -> Operation | None:
    """The newest operation that stands: done or redone, also by halves, and not undone since."""
    standing: list[Operation] = []
    by_id = {one.id: one for one in log}
    for one in by_id.values():
        if one.verb in ("restore", "rewind"):
            if not one.is_void:
                standing.append(one)
        elif one.of in by_id and one.verb == "redo":
            again = msgspec.structs.replace(by_id[one.of], files=one.files, restores=one.restores, went_on=one.went_on)
            standing = [kept for kept in standing if kept.id != one.of] + [again]
        elif one.of in by_id and one.done:
            standing = [kept for kept in standing if kept.id != one.of]
    return standing[-1] if standing else None


def next_redo(log: Iterable[Operation]) -> Operation | None:
    """The operation undone last, as long as nothing new was done since."""
    undone: list[Operation] = []
    by_id = {one.id: one for one in log}
    for one in by_id.values():
        if one.verb in ("restore", "rewind"):
            if not one.is_void:
                undone.clear()
        elif one.of in by_id and one.done:
            undone = [kept for kept in undone if kept.id != one.of]
            if one.verb == "undo":
                undone.append(by_id[one.of])
    return undone[-1] if undone else None
