"""Acknowledge why a session needs attention: it leaves *Needs you* until something new happens, or until a time.

Stored in the store as a small record, so every entry point agrees. The session itself is not changed.
"""

from __future__ import annotations

from relight.errors import Conflict, UsageError
from relight.history.listing import info_of
from relight.history.loading import Found
from relight.journal.queues.small_records import pack_record, unpack_record
from relight.ports.store import Record, Store
from relight.sessions.context import Context
from relight.values.acknowledged import MAX_ACKNOWLEDGED, Acknowledged
from relight.values.info import SessionInfo


def acknowledge(context: Context, found: Found, *, seconds: float | None = None) -> Acknowledged:
    """Acknowledge the present reason, for good or for so many seconds. Conflict if the session needs no attention."""
    info = _info(context, found)
    if seconds is not None and not 0 < seconds <= 366 * 86_400:
        raise UsageError("a session is acknowledged for more than 0 seconds and at most a year")
    if info.attention is None:
        raise Conflict(f"{info.title}: it needs no attention", hints=[f"see what it does: relight show {info.title}"])
    until = context.clock.now_us() + round(seconds * 1e6) if seconds is not None else None
    made = Acknowledged(seq=info.seq, kind=info.attention.kind, until_us=until)
    known = _without_outdated(context)
    if len(known.keys() - {info.id}) >= MAX_ACKNOWLEDGED:
        hints = ["archive or remove sessions that will not be continued"]
        raise Conflict(f"{MAX_ACKNOWLEDGED} sessions are acknowledged already", hints=hints)
    context.store.put_record("acknowledged", info.id, pack_record(made))
    return made


def remind(context: Context, found: Found) -> bool:
    """Withdraw an acknowledgement; whether there was one."""
    session = found.identity.id
    if session not in context.store.list_records("acknowledged"):
        return False
    context.store.put_record("acknowledged", session, None)
    return True


def _info(context: Context, found: Found) -> SessionInfo:
    return info_of(context, Record(identity=found.identity, head=found.head))


def _without_outdated(context: Context) -> dict[str, Acknowledged]:
    """The acknowledgements in force; those of removed sessions, of older steps and of the past are deleted."""
    store: Store = context.store
    kept: dict[str, Acknowledged] = {}
    for session, stored in store.list_records("acknowledged").items():
        one, record = unpack_record(stored, Acknowledged), store.find(session)
        over = one is None or (one.until_us is not None and one.until_us <= context.clock.now_us())
        if one is None or over or record is None or record.head is None or record.head.seq != one.seq:
            store.put_record("acknowledged", session, None)
        else:
            kept[session] = one
    return kept
