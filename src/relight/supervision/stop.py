"""Stopping: ask whoever runs a session to end it, by the evidence in its lease; kill what does not listen.

A supervised program is stopped through its supervisor, which else would start it again; the supervisor, or the program
itself, records how it ended. What is written here is that a person wanted it: a reboot ends sessions by the same
signals, and those are to come back (`relight resume --all`).
"""

from __future__ import annotations

import signal
from typing import Final

import msgspec

from relight.errors import Conflict, LeaseHeld, NotFound, Refused
from relight.fleet import queues
from relight.history.loading import Found, resolve
from relight.journal.queues.takeover import BY_A_PERSON
from relight.journal.status import derived_status
from relight.operations.operator import write_once
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of, recorder_for
from relight.values.lease import Lease
from relight.values.session import Head
from relight.values.status import LIVE, StatusChange
from relight.values.step import Changes

ASK_SECONDS: Final = 12.0
KILL_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.05
_NOTE_TRIES: Final = 20
_REQUEST_TRIES: Final = 4


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """Who was asked, and whether that was enough."""

    session: str
    pid: int
    """0: nobody ran it yet, or somebody on another machine"""
    supervised: bool
    killed: bool


def stop(context: Context, found: Found) -> Stopped:
    """End the process that owns a session. Refused where it cannot be seen from here."""
    name = found.identity.name or found.identity.id
    head = found.whole_head()
    lease = head.lease
    if lease is None or context.host.is_gone(lease.owner):
        return _end_orphans(context, found)
    is_elsewhere = context.host.is_gone(lease.owner) is None
    is_supervised = found.identity.command is not None and head.status in LIVE | {"waiting"}
    if (is_elsewhere or head.place is not None) and is_supervised:
        is_out_of_reach = is_elsewhere or _is_held_by_worker(context, lease)
        if _request_stop(context, found, head):
            _record_stop_request(context, found)
            pid = 0 if is_out_of_reach else lease.owner.pid
            return Stopped(session=found.identity.id, pid=pid, supervised=True, killed=False)
        if is_out_of_reach:
            hints = ["it stops when its worker sees the request", f"or take its lease away: relight clear {name}"]
            where = f"runs elsewhere ({lease.owner.label})" if is_elsewhere else f"its worker ({lease.owner.label})"
            raise Refused(f"{name}: {where}, was asked to stop and has not done so yet", hints=hints)
    if is_elsewhere:
        hints = [f"stop it there, or take its lease away: relight clear {name}"]
        raise Refused(f"{name}: runs elsewhere ({lease.owner.label}); it cannot be stopped from here", hints=hints)
    supervisor = context.runtime().supervisor_of(lease.owner.pid, found.identity.id)
    asked = supervisor or lease.owner.pid
    context.runtime().signal(asked, signal.SIGTERM)
    if _gone_within(context, found, head, ASK_SECONDS):
        _record_stop_request(context, found)
        return Stopped(session=found.identity.id, pid=asked, supervised=supervisor is not None, killed=False)
    for pid in (asked, lease.owner.pid):
        context.runtime().signal(pid, signal.SIGKILL)
    context.runtime().end(context.runtime().orphans(found.identity.id), seconds=KILL_SECONDS)
    if not _gone_within(context, found, head, KILL_SECONDS):
        raise Refused(f"{name}: pid {asked} does not end, not even by SIGKILL")
    _record_stop_request(context, found)
    return Stopped(session=found.identity.id, pid=asked, supervised=supervisor is not None, killed=True)


def _end_orphans(context: Context, found: Found) -> Stopped:
    """Its owner is gone; what it had started may live on."""
    name, session = found.identity.name or found.identity.id, found.identity.id
    left = context.runtime(found.identity).orphans(session)
    if not left and found.whole_head().status == "queued" and found.identity.command is not None:
        queues.leave_line(context, found, BY_A_PERSON)
        return Stopped(session=session, pid=0, supervised=False, killed=False)
    if not left:
        raise Conflict(f"{name}: nothing runs it", hints=[f"see how it ended: relight show {name}"])
    context.runtime(found.identity).end(left, seconds=KILL_SECONDS)
    _record_stop_request(context, found)
    return Stopped(session=session, pid=left[0], supervised=False, killed=False)


def _request_stop(context: Context, found: Found, head: Head) -> bool:
    """Leave word in the session itself; whoever runs it for a worker looks there every second, and so does every sweep.

    No signal: while a session is being handed over, its owner is the worker, who has others at work too."""
    session = found.identity.id
    for _ in range(_REQUEST_TRIES):
        record = context.store.find(session)
        if record is None:
            raise NotFound(session)
        attempt = (
            record.head.attempt if record.head is not None else head.attempt
        )  # it may have died, and begun another
        if record.identity.stop_attempt != attempt:  # its owner may have written what it is at the same moment
            context.store.update(msgspec.structs.replace(record.identity, stop_attempt=attempt))
        if _gone_within(context, found, head, ASK_SECONDS / _REQUEST_TRIES):
            return True
    return False


def _is_held_by_worker(context: Context, lease: Lease) -> bool:
    """Does a worker hold it, which is not to be ended for one of its sessions?"""
    known = [one.worker for one in queues.workers(context)]
    return any((worker.host, worker.pid) == (lease.owner.host, lease.owner.pid) for worker in known)


def _record_stop_request(context: Context, found: Found) -> None:
    """A person wanted it to end, and it stands in no line any more. Nothing to note where it ended by itself meanwhile;
    its supervisor may be writing."""
    for _ in range(_NOTE_TRIES):
        recorder = recorder_for(context, resolve(context.store, found.identity.id))
        if derived_status(recorder.head, evidence_of(context, recorder.head))[0] not in ("terminated", "queued"):
            return
        change = StatusChange(status="terminated", reason=BY_A_PERSON, failure=recorder.head.failure)
        try:
            write_once(context, recorder, "status", Changes(status=change))
        except (Conflict, LeaseHeld):
            context.clock.sleep(_POLL_SECONDS)
            continue
        return


def _is_at_work(context: Context, head: Head) -> bool:
    """Says so, with an owner who may live; or has one while it waits for an answer."""
    lease = head.lease
    if derived_status(head, evidence_of(context, head))[0] in LIVE:
        return True
    if head.status != "waiting" or lease is None:
        return False
    return not context.host.is_gone(lease.owner) and not lease.expired(context.store.instant())


def _gone_within(context: Context, found: Found, head: Head, seconds: float) -> bool:
    """Is the session not running any more? A restart by a supervisor counts as running."""
    for _ in range(round(seconds / _POLL_SECONDS)):
        record = context.store.find(found.identity.id)
        if record is None:
            raise NotFound(found.identity.id)
        if record.head is None or not _is_at_work(context, record.head):
            return True
        context.clock.sleep(_POLL_SECONDS)
    return False
