"""Children: sessions that a session spawned. A restarted parent finds each as it is, and awaits it by its record.

    commit the spawn in the parent  ->  create the child  ->  claim it, and begin its attempt

The child's id is derived from its parent's id and its own name, so there is one child of a name in a parent's life,
whatever was rewound. Killed before the first commit: nothing happened. Killed between the two: the next spawn creates
the child. Killed later: the next spawn finds it, finished or to be continued. Its outcome is recorded in the child
alone; a child that was removed is not begun again.

A fork has children of its own. One that its original had spawned before the fork is read if it is completed, else the
fork continues a fork of it, so that the original's child is left as it is and no effect of it runs twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec

from relight.errors import ChildFailed, Conflict, NotFound, NotResumable, UsageError, Waiting
from relight.history.listing import every_session, info_of
from relight.history.loading import Found, load, resolve
from relight.journal.effects.approvals import as_asked, cure_of
from relight.journal.redaction.recorded_fields import refuse_secret
from relight.ports import faults
from relight.ports.store import Query, Record
from relight.sessions import opening
from relight.sessions.context import Context
from relight.sessions.coroutines import Pause, Program
from relight.sessions.pending_store import with_pending
from relight.system.uncaught import report_uncaught_waits
from relight.values.checkpoint import at
from relight.values.info import ChildInfo, SessionInfo
from relight.values.ref import check_session_name, composed
from relight.values.session import Identity
from relight.values.status import ENDED, LIVE, headline
from relight.values.step import Changes

if TYPE_CHECKING:
    from relight.sessions.session_writer import SessionWriter

SEPARATOR: Final = "."
"""between the name of a parent and that of its child"""
_DOMAIN: Final = "relight child 1"
_FIRST_PAUSE_SECONDS: Final = 0.02
_MAX_PAUSE_SECONDS: Final = 1.0
_SETTLE_SECONDS: Final = 2.0
"""a child without an owner is reported as dead after this time: until then a supervisor may be about to claim it"""


class HasId(Protocol):
    """An open session, or a description of one."""

    @property
    def id(self) -> str: ...


Named: TypeAlias = HasId | ChildInfo | str
"""how a child is named to `join`: the session itself, what `children` returned, its own name, or its id"""


class ChildOf(msgspec.Struct, frozen=True, kw_only=True):
    """The child of this name of that session."""

    parent: Identity
    name: str
    """its own name, without the parent's"""
    writer: SessionWriter | None = None
    """of the parent, if it is open in this process: it commits the spawn"""

    @property
    def id(self) -> str:
        """The id it is created with."""
        return sha256(f"{_DOMAIN}\n{self.parent.id}\n{self.name}".encode()).hexdigest()[:32]

    @property
    def full_name(self) -> str:
        """The name it is created with."""
        return f"{_title(self.parent)}{SEPARATOR}{self.name}"

    def identity(self, identity: Identity) -> Identity:
        """The identity of the new child. What a parent asked to redact would stand in clear in its child otherwise."""
        redact = identity.redact or self.parent.redact
        return msgspec.structs.replace(identity, id=self.id, spawned_by=self.parent.id, redact=redact)


def of_open(writer: SessionWriter, name: str) -> ChildOf:
    """A child of a session that is open in this process."""
    writer.refuse_in_batch("spawn")
    return ChildOf(parent=writer.recorder.identity, name=check_session_name(name), writer=writer)


def of_session(context: Context, parent: HasId | str, name: str) -> ChildOf:
    """A child of any session, by the whole name that it gets."""
    ref = parent if isinstance(parent, str) else getattr(parent, "id", None)
    if not isinstance(ref, str):
        raise UsageError(f"parent is a session, or its name or id, not {type(parent).__name__}")
    identity = resolve(context.store, ref).identity
    return ChildOf(parent=identity, name=composed(name).removeprefix(_title(identity) + SEPARATOR))


def _title(identity: Identity) -> str:
    return identity.name or identity.id[:8]


# -- spawning -----------------------------------------------------------------------------------------------------


def find(context: Context, child: ChildOf, name: str) -> tuple[Found | None, Context]:
    """The child as it is; None if there is none yet. NotResumable if there was one, and it was removed."""
    record = _record_of(context, child, name)
    if record is None:
        refuse_removed(context, child)
        return None, context
    found = Found(identity=record.identity, head=record.head, seq=None)
    if record.identity.spawned_by == child.parent.id or (record.head and record.head.status == "completed"):
        return found, context
    return _forked(context, child, found)


def _record_of(context: Context, child: ChildOf, name: str) -> Record | None:
    """By the id of this parent's child, else the one that its original spawned, else by its name."""
    own = context.store.find(child.id)
    if own is not None:
        return own
    spawned = child.writer.recorder.fold.children.get(child.name) if child.writer is not None else None
    if spawned is not None and (inherited := context.store.find(spawned)) is not None:
        return inherited
    named = context.store.find_named(composed(name))
    return named if named is not None and named.identity.spawned_by == child.parent.id else None


def refuse_removed(context: Context, child: ChildOf) -> None:
    """NotResumable if there was such a child, and it was removed."""
    from relight.operations.retention import tombstone_of  # imported late: most children exist, or never did

    removed = tombstone_of(context, child.id)
    if removed is not None:
        why = f"it was removed at {at(removed.at_us):%Y-%m-%d %H:%M:%S} UTC; what it did is not done again"
        raise NotResumable(child.full_name, why, hints=["spawn another child, under another name"])


def _forked(context: Context, child: ChildOf, found: Found) -> tuple[Found, Context]:
    """A fork of the child of the session that this parent was forked from."""
    from relight.history.fork import plan_fork  # imported late: few parents are forks

    planned = plan_fork(context, found, name=child.full_name)
    identity = child.identity(planned.identity)
    head = msgspec.structs.replace(planned.head, session=identity.id)
    pending = msgspec.structs.replace(planned, identity=identity, head=head)
    announce(context, child, identity)
    return Found(identity=identity, head=head, seq=None), with_pending(context, pending)


def announce(context: Context, child: ChildOf, identity: Identity) -> None:
    """Before the child is created: its name is made free, and the parent commits that it spawns it."""
    _free_name(context, child, identity)
    writer = child.writer
    if writer is not None and writer.recorder.fold.children.get(child.name) != child.id:
        refuse_secret(child.name, "the name", context.redactor)
        writer.record("mark", Changes(children={child.name: child.id}, note={"spawned": identity.name}))
    faults.point("spawn.intended")


def _free_name(context: Context, child: ChildOf, identity: Identity) -> None:
    """A child whose parent gave its own name away (`resume=False`) releases the one it has by it."""
    holder = context.store.find_named(identity.name) if identity.name is not None else None
    if holder is None or (holder.head is not None and holder.head.status == "archived"):
        return
    of = context.store.find(holder.identity.spawned_by) if holder.identity.spawned_by is not None else None
    if of is None or of.identity.name is not None:
        hints = [f"spawn it under another name, or look at that session: relight show {identity.name}"]
        raise Conflict(f"{identity.name}: another session has the name, which is no child of this one", hints=hints)
    opening.release_name(context, Found(identity=holder.identity, head=holder.head, seq=None))


def refuse_other_parent(found: Found, child: ChildOf) -> None:
    """Conflict if a session that exists is not a child of this parent."""
    if found.identity.spawned_by != child.parent.id:
        name = _title(found.identity)
        raise Conflict(f"{name}: it is not a child of {_title(child.parent)}", hints=["give it another name"])


# -- looking ------------------------------------------------------------------------------------------------------


def children(writer: SessionWriter) -> list[ChildInfo]:
    """The children of a session as they were spawned, with those that a fork has from its original; then those that
    programs of their own began."""
    context, spawned = writer.context, list(writer.recorder.fold.children.values())
    own = {one.identity.id: one for one in every_session(context.store, Query(spawned_by=writer.recorder.identity.id))}
    inherited = {one: record for one in spawned if one not in own and (record := context.store.find(one)) is not None}
    found = {**inherited, **dict(reversed(own.items()))}
    order = [*(one for one in spawned if one in found), *(one for one in found if one not in spawned)]
    return [
        ChildInfo(
            name=_own_name(writer, found[one].identity),
            session=info_of(context, found[one]),
            result=_result_of(context, found[one]),
        )
        for one in order
    ]


def _own_name(writer: SessionWriter, child: Identity | SessionInfo) -> str:
    """The name that `spawn` gave it; one that a program of its own began has only a whole name."""
    spawned = {session: name for name, session in writer.recorder.fold.children.items()}
    title = child.name or child.id[:8]
    return spawned.get(child.id) or title.removeprefix(_title(writer.recorder.identity) + SEPARATOR)


def _result_of(context: Context, record: Record) -> Any:
    if record.head is None or record.head.status != "completed":
        return None
    return load(context.store, Found(identity=record.identity, head=record.head, seq=None)).result


# -- joining ------------------------------------------------------------------------------------------------------


def join(writer: SessionWriter, named: Iterable[Named], timeout: float | None) -> Program[list[Any]]:
    """Wait until these children have ended, or all of them; their results in this order. ChildFailed if one has none:
    it failed, was halted, or no process runs it. Waiting if nothing is left but children that wait for a person, and
    that only this program continues. TimeoutError after `timeout` seconds; the children continue."""
    context, clock = writer.context, writer.context.clock
    wanted = [_named(writer, one) for one in named] or [one.session.id for one in children(writer)]
    watched = {session: _Watched(context, session) for session in wanted}
    began_us, pause = clock.instant().us, _FIRST_PAUSE_SECONDS
    while running := [one for one in watched.values() if not one.has_ended(clock.instant().us)]:
        if all(one.waits_for_parent for one in running):
            raise _waiting(writer, running[0].info)
        left = None if timeout is None else timeout - (clock.instant().us - began_us) / 1e6
        if left is not None and left <= 0:
            names = ", ".join(one.info.title for one in running)
            raise TimeoutError(f"not ended within {timeout:g} s: {names}; nothing was stopped")
        yield Pause(pause if left is None else min(pause, left))
        pause = min(pause * 1.5, _MAX_PAUSE_SECONDS)
    infos = [one.info for one in watched.values()]
    if failed := [one for one in infos if one.status != "completed"]:
        without = [(_own_name(writer, one), one.status, headline(one.reason or "")) for one in failed]
        raise ChildFailed(writer.name, without)
    results = {session: _result_of(context, one.record) for session, one in watched.items()}
    return [results[session] for session in wanted]


def _waiting(writer: SessionWriter, child: SessionInfo) -> Waiting:
    report_uncaught_waits()
    error = Waiting(
        child.title, as_asked(child.question), cure=cure_of(child.question, child.asking, child.name or child.id)
    )
    error.is_supervised = writer.is_supervised
    return error


def _named(writer: SessionWriter, child: Named) -> str:
    """The id of a child. NotFound if there is none, UsageError for a session that is no child of this one."""
    context, parent = writer.context, writer.recorder.identity
    if isinstance(child, ChildInfo):
        child = child.session
    if not isinstance(child, str):
        record = context.store.find(child.id)
    elif (record := context.store.find(child)) is None:
        one = ChildOf(parent=parent, name=composed(child), writer=writer)
        record = _record_of(context, one, one.full_name) or context.store.find_named(one.name)
    if record is None:
        hints = [f"begin it: s.spawn({child!r})", "or first wait for the process that begins it"]
        raise NotFound(str(child), what=f"child of {_title(parent)}", hints=hints)
    spawned = record.identity.id in writer.recorder.fold.children.values()
    if record.identity.spawned_by != parent.id and not spawned:
        raise UsageError(f"{_title(record.identity)} is not a child of {_title(parent)}")
    return record.identity.id


class _Watched:
    """One child that is waited for: its record, and since when it has had no owner."""

    def __init__(self, context: Context, session: str) -> None:
        self._context, self._session = context, session
        self._free: tuple[int, int] | None = None
        """epoch and time since which it has no owner"""
        self.record = self._read()

    def _read(self) -> Record:
        record = self._context.store.find(self._session)
        if record is None:
            raise NotFound(self._session, what="child", evidence=["it was removed while it was waited for"])
        return record

    @property
    def info(self) -> SessionInfo:
        """The child as it was read last."""
        return info_of(self._context, self.record)

    @property
    def waits_for_parent(self) -> bool:
        """Whether it waits for a person, and no worker or supervisor continues it after the answer."""
        head, identity = self.record.head, self.record.identity
        return head is not None and head.status == "waiting" and not head.queue_position and not identity.command

    def has_ended(self, now_us: int) -> bool:
        """Whether it has a verdict, or no process runs it or is about to. Only completion is final: another one
        may be resumed while others are waited for."""
        if self.record.head is not None and self.record.head.status == "completed":
            return True
        self.record = self._read()
        info, head = self.info, self.record.head
        if head is None or head.status in ENDED:
            return True
        if info.status in LIVE or info.status == "waiting" or info.queue is not None:
            self._free = None  # it has an owner, or a person or a worker is to start it
            return False
        if self._free is None or self._free[0] != head.epoch:
            self._free = head.epoch, now_us
        return now_us - self._free[1] >= _SETTLE_SECONDS * 1e6
