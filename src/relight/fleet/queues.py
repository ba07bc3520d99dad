"""Queues: submit, enqueue and dequeue sessions, set what queues allow, list queues and workers.

The queue position is part of the session's own row, so the two cannot disagree. A wakeup engine only notifies workers;
what counts is the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec

from relight.errors import Conflict, NotResumable, UsageError
from relight.history.listing import every_session
from relight.history.loading import Found, resolve
from relight.journal.queues.order import checked_position, checked_queue, matching_queues
from relight.journal.queues.slots import checked_concurrency, parse_rate
from relight.journal.queues.small_records import pack_record, unpack_record
from relight.journal.redaction.recorded_fields import refuse_secret
from relight.operations.send import add_prompt
from relight.operations.write_once import write_once
from relight.ports.store import Query
from relight.sessions.context import Context
from relight.sessions.limits import policy_with
from relight.sessions.opening import recorder_for, refuse_archived
from relight.supervision.launch import headless, launch, refuse_one_text
from relight.values.options import RunOptions
from relight.values.policy import NO_ALLOWANCE, Allowance
from relight.values.queues import Queue, QueuePosition, Rate, Worker
from relight.values.session import Identity
from relight.values.status import LIVE, StatusChange
from relight.values.step import Changes

MAX_COUNTED: Final = 10_000
"""most sessions that a list of queues counts"""
MAX_RETRIES: Final = 1000
_SILENT_FACTOR: Final = 4.0
"""a worker without a heartbeat for so many of its sweep intervals counts as dead"""


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue's limits and present load."""

    name: str
    concurrency: int | None
    rate: Rate | None
    retries: int | None
    queued: int
    """queued sessions, due or not"""
    running: int
    oldest: datetime | None
    """since when the oldest of them is queued"""
    workers: int = 0
    """living workers that take sessions from it"""


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's record, and whether it is alive."""

    worker: Worker
    silent_seconds: float
    """since its last heartbeat"""
    alive: bool


def submit(
    context: Context,
    command: Sequence[str] | None,
    options: RunOptions,
    *,
    prompt: str | None,
    queue_position: QueuePosition,
    not_before_us: int | None,
) -> Identity:
    """Create a queued session. With a prompt, it is queued by the step that contains the prompt."""
    if command is None:
        command, prompt = headless(context, options.agent, prompt), None
    refuse_one_text(command)
    if not command:
        raise UsageError("the command is empty")
    if not options.agent:
        options = msgspec.structs.replace(options, agent=str(command[0]).rpartition("/")[2])
    wake_us, in_queue = (not_before_us, True) if prompt is None else (None, False)
    identity = launch(
        context, list(command), options, queue_position=queue_position, wake_us=wake_us, in_queue=in_queue
    )
    if prompt is not None:
        recorder = recorder_for(context, resolve(context.store, identity.id))
        add_prompt(context, recorder, prompt, queue_position=queue_position, wake_us=not_before_us)
    return identity


def position_for(context: Context, queue: str, *, priority: int, wants: Iterable[str]) -> QueuePosition:
    """A queue position from now on. UsageError if one of its names holds a secret."""
    position = checked_position(queue, priority=priority, wants=wants, since_us=context.queue_time_us())
    for name in (position.queue, *position.wants):
        refuse_secret(name, "the name of a queue or label", context.redactor)
    return position


def not_before_us(context: Context, moment: datetime | float | None) -> int | None:
    """The wake time for a moment or a number of seconds from now; None if it is past."""
    if moment is None:
        return None
    now_us = context.queue_time_us()
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        at_us = round(aware.timestamp() * 1e6)
    elif type(moment) in (int, float) and 0 <= moment < 1e9:
        at_us = now_us + round(moment * 1e6)
    else:
        raise UsageError(f"not_before must be a datetime or a number of seconds, not {moment!r}")
    return at_us if at_us > now_us else None


def enqueue(
    context: Context,
    found: Found,
    queue_position: QueuePosition,
    *,
    prompt: str | None,
    wake_us: int | None,
    limits: Allowance = NO_ALLOWANCE,
) -> None:
    """Queue a session that is not running; refused while it has a living owner."""
    refuse_archived(found)
    identity, head = found.identity, found.whole_head()
    title = identity.name or identity.id[:8]
    refuse_unstartable(identity)
    if head.status == "completed" and prompt is None:
        hints = [f"continue with a new prompt: relight resume {title} PROMPT --queue {queue_position.queue}"]
        raise NotResumable(title, "it is completed", hints=hints)
    if head.status == "waiting" and prompt is None:
        raise NotResumable(title, "it waits for an answer", hints=[f"relight send {title} TEXT"])
    recorder = recorder_for(context, resolve(context.store, identity.id))
    if prompt is not None:
        add_prompt(context, recorder, prompt, queue_position=queue_position, wake_us=wake_us)
    else:
        wake_us = wake_us or (head.wake_us if head.status == "queued" else None)
        # A live status cannot become queued directly. The mark takes the lease over from a dead owner, which ends the
        # attempt, or is refused because the owner is alive.
        if head.status in LIVE:
            write_once(context, recorder, "mark", Changes())
        change = StatusChange(status="queued", reason="put in line", wake_us=wake_us)
        write_once(context, recorder, "status", Changes(status=change), queue_position=queue_position)
    policy = policy_with(context, identity, limits)
    context.store.update(identity.id, partial(msgspec.structs.replace, queue_position=queue_position, policy=policy))


def refuse_unstartable(identity: Identity) -> None:
    """NotResumable if the session has no command that a worker could start."""
    if identity.command is None:
        hints = ["it continues when your program opens it again"]
        raise NotResumable(identity.name or identity.id[:8], "relight did not start it, so no worker can", hints=hints)


def leave_queue(context: Context, found: Found, why: str) -> None:
    """Terminate a queued session. Conflict if a worker has claimed it."""
    recorder = recorder_for(context, resolve(context.store, found.identity.id))
    if recorder.head.status != "queued":
        raise Conflict(f"{found.identity.name or found.identity.id}: it is not queued any more")
    write_once(context, recorder, "status", Changes(status=StatusChange(status="terminated", reason=why)))


# -- queues -------------------------------------------------------------------------------------------------------


def set_queue(context: Context, name: str, *, concurrency: int | None, rate: str | None, retries: int | None) -> Queue:
    """Set a queue's limits; None leaves one as it was."""
    refuse_secret(checked_queue(name), "the name of a queue", context.redactor)
    before = find_queue(context, name) or Queue(name=name)
    if retries is not None and (type(retries) is not int or not 0 <= retries <= MAX_RETRIES):
        raise UsageError(f"retries must be a number from 0 to {MAX_RETRIES}, not {retries!r}")
    changed: dict[str, Any] = {}
    if concurrency is not None:
        changed["concurrency"] = checked_concurrency(concurrency)
    if rate is not None:
        changed["rate"] = parse_rate(rate)
    if retries is not None:
        changed["retries"] = retries
    queue = msgspec.structs.replace(before, **changed)
    context.store.put_record("queue", name, pack_record(queue))
    return queue


def forget_queue(context: Context, name: str) -> None:
    """Remove a queue's limits. Its queued sessions stay queued."""
    for kind in ("queue", "slots"):
        context.store.put_record(kind, checked_queue(name), None)


def find_queue(context: Context, name: str) -> Queue | None:
    """A queue's limits; None if none were set."""
    record = context.store.list_records("queue").get(name)
    return unpack_record(record, Queue) if record is not None else None


def queues(context: Context) -> list[QueueInfo]:
    """All queues that have limits, or queued or running sessions."""
    store = context.store
    known = {
        name: unpack_record(record, Queue) or Queue(name=name) for name, record in store.list_records("queue").items()
    }
    queued: dict[str, list[int]] = {}
    running: dict[str, int] = {}
    seen = 0
    for record in every_session(store, Query(statuses=LIVE | {"queued"})):
        seen += 1
        queue_position = record.head.queue_position if record.head is not None else None
        if seen > MAX_COUNTED:
            break
        if record.head is None or queue_position is None:
            continue
        if record.head.status == "queued":
            queued.setdefault(queue_position.queue, []).append(queue_position.since_us)
        else:
            running[queue_position.queue] = running.get(queue_position.queue, 0) + 1
    # Beyond MAX_COUNTED sessions some queues may not have been seen above: their keys are read from the queue rows.
    names = sorted({*known, *queued, *running, *(key.queue for key in store.list_queue_keys())})
    takes = [one.worker.queues for one in workers(context) if one.alive and not one.worker.draining]
    infos = []
    for name in names:
        info = _info_of(known.get(name) or Queue(name=name), queued.get(name, []), running.get(name, 0))
        infos.append(msgspec.structs.replace(info, workers=sum(name in queues for queues in takes)))
    return infos


def unserved(context: Context) -> frozenset[str]:
    """Queues with sessions in line that no living worker takes: none is there, or none has the labels they want."""
    takes = [one.worker for one in workers(context) if one.alive and not one.worker.draining]
    keys = context.store.list_queue_keys()
    served = {key for one in takes for key in matching_queues(keys, one.queues, one.labels)}
    return frozenset(key.queue for key in keys if key not in served)


def _info_of(queue: Queue, queued: list[int], running: int) -> QueueInfo:
    return QueueInfo(
        name=queue.name,
        concurrency=queue.concurrency,
        rate=queue.rate,
        retries=queue.retries,
        queued=len(queued),
        running=running,
        oldest=datetime.fromtimestamp(min(queued) / 1e6, UTC) if queued else None,
    )


# -- workers ------------------------------------------------------------------------------------------------------


def workers(context: Context) -> list[WorkerInfo]:
    """All registered workers, by name, including dead ones until a sweep removes their records."""
    now = context.store.instant()
    found = []
    for record in context.store.list_records("worker").values():
        worker = unpack_record(record, Worker)
        if worker is None:
            continue
        same = worker.seen.timeline == now.timeline
        silent = (now.us - worker.seen.us) / 1e6 if same else float("inf")
        alive = silent <= max(worker.sweep_seconds * _SILENT_FACTOR, 1.0)
        found.append(WorkerInfo(worker=worker, silent_seconds=silent, alive=alive))
    return sorted(found, key=lambda one: one.worker.name)
