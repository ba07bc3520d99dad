"""Stop: end the process that owns a session, found by the evidence in its lease; killed if it does not end.

A supervised program is stopped through its supervisor, which would restart it otherwise; the supervisor or the program
records how it ended. Recorded here is only that a person asked for it: a reboot ends sessions by the same signals, and
those are resumed again (`relight resume --all`), stopped ones are not.
"""

from __future__ import annotations

import signal
from functools import partial
from typing import Final

import msgspec

from relight.errors import Conflict, LeaseHeld, NotFound, Refused
from relight.fleet import queues
from relight.history.listing import below
from relight.history.loading import Found, resolve
from relight.journal.queues.takeover import BY_A_PERSON
from relight.journal.status import derived_status
from relight.operations.write_once import write_once
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
    """Which process was stopped, and how."""

    session: str
    pid: int
    """0: it was queued, or runs on another machine"""
    supervised: bool
    killed: bool
    below: list[str] = []
    """with `tree`: ids of its children, and theirs, that were stopped too"""


def stop_tree(context: Context, found: Found) -> Stopped:
    """Stop a session and then all its children, so that none is started again meanwhile. Those that nothing runs are
    left as they are; Refused, once all were tried, if one could not be stopped, and Conflict if nothing ran at all."""
    ended: list[Stopped] = []
    refused: list[Refused] = []
    sessions = [found.identity.id, *(one.identity.id for _, one in below(context.store, found.identity.id, "child"))]
    for session in sessions:
        try:
            ended.append(stop(context, resolve(context.store, session)))
        except Conflict:
            continue  # nothing runs it
        except Refused as error:
            refused.append(error)
    name = found.identity.name or found.identity.id
    if refused:
        why = [one.message for one in refused]
        hints = [hint for one in refused for hint in one.hints]
        raise Refused(f"{name}: {len(refused)} of its tree still run, {len(ended)} stopped", evidence=why, hints=hints)
    if not ended:
        raise Conflict(f"{name}: nothing runs it, nor a child of it", hints=[f"relight list --tree --search {name}"])
    if ended[0].session == found.identity.id:
        return msgspec.structs.replace(ended[0], below=[one.session for one in ended[1:]])
    below_it = [one.session for one in ended]
    return Stopped(session=found.identity.id, pid=0, supervised=False, killed=False, below=below_it)


def stop(context: Context, found: Found) -> Stopped:
    """End the process that owns a session. Refused if it is out of reach and has not reacted to a request."""
    name = found.identity.name or found.identity.id
    if found.identity.subagent is not None:
        hints = [f"stop its parent: relight stop {found.identity.spawned_by}"]
        raise Conflict(f"{name}: it is a sub-agent, which runs in its parent's process", hints=hints)
    head = found.whole_head()
    lease = head.lease
    if lease is None or context.host.is_gone(lease.owner):
        return _end_orphans(context, found)
    is_elsewhere = context.host.is_gone(lease.owner) is None
    is_supervised = found.identity.command is not None and head.status in LIVE | {"waiting"}
    if (is_elsewhere or head.queue_position is not None) and is_supervised:
        is_out_of_reach = is_elsewhere or _is_held_by_worker(context, lease)
        if _request_stop(context, found, head):
            record_end(context, found.identity.id, BY_A_PERSON)
            pid = 0 if is_out_of_reach else lease.owner.pid
            return Stopped(session=found.identity.id, pid=pid, supervised=True, killed=False)
        if is_out_of_reach:
            hints = ["it stops when its worker sees the request", f"or revoke its lease: relight clear {name}"]
            where = f"runs elsewhere ({lease.owner.label})" if is_elsewhere else f"its worker ({lease.owner.label})"
            raise Refused(f"{name}: {where}, was asked to stop and has not done so yet", hints=hints)
    if is_elsewhere:
        hints = [f"stop it there, or revoke its lease: relight clear {name}"]
        raise Refused(f"{name}: runs elsewhere ({lease.owner.label}); it cannot be stopped from here", hints=hints)
    supervisor = context.runtime().supervisor_of(lease.owner.pid, found.identity.id)
    asked = supervisor or lease.owner.pid
    context.runtime().signal(asked, signal.SIGTERM)
    if _gone_within(context, found, head, ASK_SECONDS):
        record_end(context, found.identity.id, BY_A_PERSON)
        return Stopped(session=found.identity.id, pid=asked, supervised=supervisor is not None, killed=False)
    for pid in (asked, lease.owner.pid):
        context.runtime().signal(pid, signal.SIGKILL)
    context.runtime().end(context.runtime().orphans(found.identity.id), seconds=KILL_SECONDS)
    if not _gone_within(context, found, head, KILL_SECONDS):
        raise Refused(f"{name}: pid {asked} does not end, even after SIGKILL")
    record_end(context, found.identity.id, BY_A_PERSON)
    return Stopped(session=found.identity.id, pid=asked, supervised=supervisor is not None, killed=True)


def _end_orphans(context: Context, found: Found) -> Stopped:
    """Stop a session whose owner is gone: end its orphans, or remove it from its queue."""
    name, session = found.identity.name or found.identity.id, found.identity.id
    left = context.runtime(found.identity).orphans(session)
    if not left and found.whole_head().status == "queued" and found.identity.command is not None:
        queues.leave_queue(context, found, BY_A_PERSON)
        return Stopped(session=session, pid=0, supervised=False, killed=False)
    if not left:
        raise Conflict(f"{name}: nothing runs it", hints=[f"see how it ended: relight show {name}"])
    context.runtime(found.identity).end(left, seconds=KILL_SECONDS)
    record_end(context, found.identity.id, BY_A_PERSON)
    return Stopped(session=session, pid=left[0], supervised=False, killed=False)


def _request_stop(context: Context, found: Found, head: Head) -> bool:
    """Write a stop request into the session, and wait for its end; whether it came in time. Supervisors poll for
    requests every second, and so does every sweep."""
    # No signal: while a session is being handed over its lease names the worker, which has other sessions too.
    session = found.identity.id
    for _ in range(_REQUEST_TRIES):
        record = context.store.find(session)
        if record is None:
            raise NotFound(session)
        # Written again if need be: the program may have been restarted since.
        attempt = record.head.attempt if record.head is not None else head.attempt
        if record.identity.stop_attempt != attempt:
            context.store.update(session, partial(msgspec.structs.replace, stop_attempt=attempt))
        if _gone_within(context, found, head, ASK_SECONDS / _REQUEST_TRIES):
            return True
    return False


def _is_held_by_worker(context: Context, lease: Lease) -> bool:
    """Whether the lease's owner is a worker process, which must not be signalled for one of its sessions."""
    known = [one.worker for one in queues.workers(context)]
    return any((worker.host, worker.pid) == (lease.owner.host, lease.owner.pid) for worker in known)


def record_end(context: Context, session: str, reason: str) -> None:
    """Record why it was ended, for example by a person, so that it is not resumed or claimed again; nothing if it ended
    otherwise."""
    for _ in range(_NOTE_TRIES):
        recorder = recorder_for(context, resolve(context.store, session))
        if derived_status(recorder.head, evidence_of(context, recorder.head))[0] not in ("terminated", "queued"):
            return
        change = StatusChange(status="terminated", reason=reason, failure=recorder.head.failure)
        try:
            write_once(context, recorder, "status", Changes(status=change))
        except (Conflict, LeaseHeld):  # its supervisor is writing the end at this moment
            context.clock.sleep(_POLL_SECONDS)
            continue
        return


def is_at_work(context: Context, head: Head) -> bool:
    """Whether it is live with an owner that may be alive, or waits for an answer with a living owner."""
    lease = head.lease
    if derived_status(head, evidence_of(context, head))[0] in LIVE:
        return True
    if head.status != "waiting" or lease is None:
        return False
    return not context.host.is_gone(lease.owner) and not lease.expired(context.store.instant())


def _gone_within(context: Context, found: Found, head: Head, seconds: float) -> bool:
    """Wait at most so long for the session to end; whether it did. A session being restarted counts as running."""
    for _ in range(round(seconds / _POLL_SECONDS)):
        record = context.store.find(found.identity.id)
        if record is None:
            raise NotFound(found.identity.id)
        if record.head is None or not is_at_work(context, record.head):
            return True
        context.clock.sleep(_POLL_SECONDS)
    return False
