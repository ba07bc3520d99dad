"""The undo log: the rewinds and restores of a session, and which one undo or redo would take next.

It is computed from notes of the journal's own steps. Each operation has a beginning (with the safety snapshots, if
files are involved) and an end; one without an end was interrupted. Running the same operation again completes and
replaces it; any other operation implies that it had changed nothing. Undo is an operation too, so the log only grows.

An operation that moves the head records the state of the session before it. Undo returns to that, and redo to the state
before the undo, whatever was done in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeVar

import msgspec

from relight.values.queues import QueuePosition
from relight.values.session import Head
from relight.values.status import Status, StatusChange

Verb = Literal["restore", "rewind", "undo", "redo"]


class HeadState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a move of the head may change and undo restores: head, status, native session, queue position, last line."""

    head: int
    told: StatusChange
    """the status, with the fields of the head that belong to it"""
    native: str | None = None
    """the native session that matches the visible conversation"""
    queue_position: QueuePosition | None = msgspec.field(default=None, name="place")
    said: str | None = None
    """the agent's last line, which a compaction since then may have taken out of the messages"""


_BESIDE: Final = set(StatusChange.__struct_fields__) & set(Head.__struct_fields__) - {"status", "reason"}
"""fields of a head that belong to its status: failure, question, wakeup time, ..."""


def head_state_of(head: Head, status: Status, reason: str | None) -> HeadState:
    """The state of a head; status and reason as shown, which differ from the stored ones if the owner is dead."""
    beside = {name: getattr(head, name) for name in sorted(_BESIDE)}
    if status != head.status:
        beside["wake_us"] = None  # its owner died in a pause: shown without a time, and started at any time
    told = StatusChange(status=status, reason=reason, **beside)
    return HeadState(head=head.head, told=told, native=head.native, queue_position=head.queue_position, said=head.said)


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One change of head or files that can be undone."""

    id: int
    """seq of its first step"""
    verb: Verb
    heads: tuple[int, int] | None = None
    """head before and after, if the head moved"""
    files: dict[str, tuple[str, str]] = {}
    """root name to (snapshot before, target snapshot)"""
    restores: dict[str, str] = {}
    """root name to the restore's id in that workspace's log"""
    of: int | None = None
    """for undo and redo: the operation they refer to"""
    done: bool = True
    """False if it was interrupted"""
    before: HeadState | None = None
    """state before, if the head moved; None: only files were changed, or written by 0.1.0"""
    latest: int = 0
    """seq of the undo or redo that changed it last; 0: none"""
    went_on: bool = False
    """it completed an interrupted one, and has that one's files before"""

    @property
    def reopened_it(self) -> bool:
        """Whether a rewind reopened a completed session, even one to its own head."""
        return self.before is not None and self.before.told.status == "completed"

    @property
    def is_void(self) -> bool:
        """It changed nothing, so there is nothing to undo."""
        moved = self.heads is not None and (self.heads[0] != self.heads[1] or self.reopened_it)
        return self.done and not moved and not self.went_on and not any(self.restores.values())


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation is about, apart from files: the same in the notes of its beginning and its end."""

    verb: Verb
    heads: tuple[int, int] | None = None
    of: int | None = None
    before: HeadState | None = None

    def as_note(self) -> dict[str, Any]:
        """The part of a note that describes the move."""
        note: dict[str, Any] = {"verb": self.verb, "heads": list(self.heads) if self.heads else None, "of": self.of}
        if self.heads is not None and self.before is not None:
            note["before"] = msgspec.to_builtins(self.before)
        return note


def begin_note(move: Move, *, files: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """The note of the step before the first change of a file."""
    return {"operation": {**move.as_note(), "files": {root: list(pair) for root, pair in files.items()}}}


def end_note(
    move: Move, *, begun: int | None, restores: Mapping[str, str], unchanged: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The note of the step that ends it; the only one if no file is involved. `unchanged`: the snapshots of roots in
    which an undo had nothing to change. Its redo returns to them, because the session may change files in between."""
    ended = {**move.as_note(), "begun": begun, "restores": dict(restores)}
    return {"operation_end": {**ended, "unchanged": dict(unchanged)} if unchanged else ended}


def is_operation(note: Mapping[str, Any] | None) -> bool:
    """Whether a step belongs to the undo log: its snapshots hold whatever was on disk, not the session's own work."""
    return note is not None and ("operation" in note or "operation_end" in note)


class _Begun(Move, frozen=True, kw_only=True):
    files: dict[str, tuple[str, str]]


class _Ended(Move, frozen=True, kw_only=True):
    begun: int | None = None
    restores: dict[str, str] = {}
    unchanged: dict[str, str] = {}


_Note = TypeVar("_Note", bound=Move)


def _read(note: Mapping[str, Any], name: str, kind: type[_Note]) -> _Note | None:
    """A note of the undo log; None if it is none. A note from an untrusted bundle may hold anything."""
    try:
        return msgspec.convert(note[name], kind) if note.get(name) is not None else None
    except (msgspec.ValidationError, UnicodeEncodeError):  # the latter: a lone surrogate in a text
        return None


def operations(notes: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Operation]:
    """The operations in order, from (seq, note) of all steps."""
    found: dict[int, Operation] = {}
    for seq, note in notes:
        if (begun := _read(note, "operation", _Begun)) is not None:
            fresh = Operation(
                id=seq,
                verb=begun.verb,
                files=begun.files,
                heads=begun.heads,
                of=begun.of,
                before=begun.before,
                done=False,
            )
            found[seq] = _in_place_of(_interrupted(found), fresh, found)
        if (ended := _read(note, "operation_end", _Ended)) is not None:
            before = found.get(ended.begun) if ended.begun is not None else None
            base = before or _alone(_interrupted(found), seq, ended)
            files = {**{root: (held, held) for root, held in ended.unchanged.items()}, **base.files}
            found[base.id] = msgspec.structs.replace(base, files=files, restores=ended.restores, done=True)
    return sorted(found.values(), key=lambda one: one.id)


def _interrupted(found: Mapping[int, Operation]) -> Operation | None:
    """The newest operation, if it has no end."""
    newest = found[max(found)] if found else None
    return newest if newest is not None and not newest.done else None


def _in_place_of(before: Operation | None, fresh: Operation, found: dict[int, Operation]) -> Operation:
    """A beginning right after one without an end: the same operation continues it."""
    if before is None:
        return fresh
    if fresh.verb == "undo":
        return _undone_again(before, fresh)
    aims = {root: pair[1] for root, pair in fresh.files.items()}
    if before.verb == "undo" or {root: pair[1] for root, pair in before.files.items()} != aims:
        # A restore of a root is refused while another one is unfinished there. That this one could begin proves that
        # the interrupted one had changed nothing, so there is nothing of it to undo.
        if before.verb in ("restore", "rewind") and not before.files.keys().isdisjoint(aims):
            del found[before.id]
        return fresh
    if before.verb in ("restore", "rewind"):
        del found[before.id]
    files = {root: (before.files[root][0], aim) for root, aim in aims.items()}
    return msgspec.structs.replace(fresh, files=files, before=before.before or fresh.before, went_on=True)


def _alone(before: Operation | None, seq: int, ended: _Ended) -> Operation:
    """An end without a beginning: no file was left to change. For an undo after an interrupted one, the interrupted
    one had changed them all."""
    fresh = Operation(id=seq, verb=ended.verb, heads=ended.heads, of=ended.of, before=ended.before)
    return fresh if before is None or fresh.verb != "undo" else _undone_again(before, fresh)


def _undone_again(before: Operation, fresh: Operation) -> Operation:
    """An undo after an interrupted one: redo returns to what the first of them found, including roots that the first
    had finished and the second need not touch."""
    if (before.verb, before.of) != ("undo", fresh.of):
        return fresh
    again = {root: (before.files.get(root, pair)[0], pair[1]) for root, pair in fresh.files.items()}
    return msgspec.structs.replace(fresh, files={**before.files, **again}, before=before.before or fresh.before)


def next_undo(log: Iterable[Operation]) -> Operation | None:
    """The newest operation in force: done or redone, even partly, and not undone since. If it was redone, its
    changes are those of the redo."""
    in_force: list[Operation] = []
    by_id = {one.id: one for one in log}
    for one in by_id.values():
        if one.verb in ("restore", "rewind"):
            if not one.is_void:
                in_force.append(one)
        # A redo counts even if it was interrupted: it may have changed files, and undo must be able to revert them. An
        # undo counts only when it is done.
        elif one.of in by_id and one.verb == "redo":
            again = _as_done_by(one, by_id[one.of])
            in_force = [other for other in in_force if other.id != one.of] + [again]
        elif one.of in by_id and one.done:
            in_force = [other for other in in_force if other.id != one.of]
    return in_force[-1] if in_force else None


def next_redo(log: Iterable[Operation]) -> Operation | None:
    """The operation undone last, if no other one was done since; its changes are those of the undo."""
    undone: list[Operation] = []
    by_id = {one.id: one for one in log}
    for one in by_id.values():
        if one.verb in ("restore", "rewind"):
            if not one.is_void:
                undone.clear()
        elif one.of in by_id and one.done:
            undone = [kept for kept in undone if kept.id != one.of]
            if one.verb == "undo":
                undone.append(_as_done_by(one, by_id[one.of]))
    return undone[-1] if undone else None


def _as_done_by(latest: Operation, operation: Operation) -> Operation:
    return msgspec.structs.replace(
        operation,
        heads=latest.heads,
        files=latest.files,
        restores=latest.restores,
        before=latest.before,
        latest=latest.id,
        went_on=latest.went_on,
    )
