"""Finding, creating and replacing the session of a thread.

The key of the session is the thread id, which may be any text. Its name is the thread id too if that is a valid and
free name, else one derived from it; names are unique, so of two programs that create a thread concurrently one wins. A
thread that was deleted and created again is another session with another id, which a writer of the old one cannot
reach.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Final

from relight.errors import Conflict, InvalidName
from relight.frameworks.langgraph.conversation import AGENT
from relight.ports.store import Record
from relight.sessions import record_log
from relight.sessions.context import Context
from relight.sessions.opening import here
from relight.sessions.record_log import RecordLog
from relight.values.ref import check_name
from relight.values.session import Identity
from relight.values.status import StatusChange
from relight.values.step import StepKind

_REPLACES: Final = "replaces"
_SESSION: Final = re.compile(r"[0-9a-f]{32}\Z")


def names_for(thread_id: str) -> list[str]:
    """The session names that a thread may have, the readable one first."""
    derived = f"thread-{sha256(thread_id.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"
    try:
        return [check_name(thread_id, "thread id"), derived]
    except InvalidName:
        return [derived]


def locate(context: Context, thread_id: str) -> Record | None:
    """The session of a thread. A fork made by `relight fork` is a thread under its session id."""
    for name in names_for(thread_id):
        found = context.store.find_named(name)
        if found is not None and found.identity.agent == AGENT and found.identity.key == thread_id:
            return found
    held = [one for one in record_log.list_logs(context, agent=AGENT, key=thread_id) if one.identity.parent is None]
    held.sort(key=lambda one: _REPLACES not in one.identity.metadata)
    if held:
        return held[0]
    if _SESSION.match(thread_id):
        found = context.store.find(thread_id)
        if found is not None and found.identity.agent == AGENT:
            return found
    return None


def begin(context: Context, thread_id: str, fields: dict[str, Any] | None = None) -> RecordLog:
    """Create a thread, or find the one that another process has just created."""
    for name in names_for(thread_id):
        try:
            return record_log.create_log(context, name, {"agent": AGENT, "key": thread_id, **(fields or {})})
        except Conflict:
            found = locate(context, thread_id)
            if found is not None:
                return record_log.open_log(context, found)
    raise Conflict(f"thread {thread_id!r}: both names it could have are taken by other sessions")


def thread_of(identity: Identity) -> str:
    """The thread id of a session."""
    return identity.key if identity.key is not None and identity.parent is None else identity.id


def write_new(
    context: Context, thread_id: str, records: list[tuple[bytes, StepKind]], status: StatusChange
) -> Identity:
    """Create the session of a thread with all its records, under the first free name."""
    name = next((one for one in names_for(thread_id) if context.store.find_named(one) is None), None)
    made = Identity(
        id=context.entropy.session_id(),
        name=name,
        key=thread_id,
        agent=AGENT,
        created_us=context.clock.now_us(),
        directory=here().get("directory"),
    )
    record_log.write_whole(context, made, records, status)
    return made


def replace(context: Context, old: Identity, records: list[tuple[bytes, StepKind]], status: StatusChange) -> Identity:
    """Replace a thread's session by a new one with these records, and remove the old one.

    After a crash before the old session gives up its name, it is still the thread, and the next write removes the new
    one. After a later crash the new one is found by its key, and the next write completes the replacement.
    """
    new = Identity(
        id=context.entropy.session_id(),
        key=old.key,
        agent=AGENT,
        labels=old.labels,
        metadata={_REPLACES: old.id},
        directory=old.directory,
        created_us=old.created_us,
    )
    record_log.write_whole(context, new, records, status)
    return _exchange(context, old, new)


def _exchange(context: Context, old: Identity, new: Identity) -> Identity:
    name = old.name
    record_log.rename(context, old, name=None, key=None)
    return _finish(context, old, new, name)


def _finish(context: Context, old: Identity | None, new: Identity, name: str | None) -> Identity:
    if old is not None:
        record_log.remove(context, [old])
    if name is None:
        name = next((one for one in names_for(new.key or "") if context.store.find_named(one) is None), None)
    return record_log.rename(context, new, name=name, metadata={})


def settle(context: Context, found: RecordLog) -> Identity:
    """Before a thread is written to: complete a replacement that was interrupted by a crash."""
    identity = found.identity
    former = identity.metadata.get(_REPLACES)
    if former is not None:
        record = context.store.find(str(former))
        return _finish(context, record.identity if record is not None else None, identity, None)
    if identity.key is not None and identity.parent is None:
        for other in record_log.list_logs(context, agent=AGENT, key=identity.key):
            if other.identity.metadata.get(_REPLACES) == identity.id:
                record_log.remove(context, [other.identity])
    return identity
