"""Into the line and out of it: submit a session, put one back, what queues allow, who works.

Being in line is part of the session's own row, so that there is no moment in which one of the two is there without the
other. A worker is woken by whatever engine there is; the row is what counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from relight.errors import Conflict, NotResumable, UsageError
from relight.history.listing import every_session
from relight.history.loading import Found, resolve
from relight.journal.queues.order import checked_position, checked_queue
from relight.journal.queues.slots import checked_concurrency, parse_rate
from relight.journal.queues.small_records import pack_record, unpack_record
from relight.operations.operator import add_prompt, write_once
from relight.ports.store import Query
from relight.sessions.context import Context
from relight.sessions.limits import policy_with
from relight.sessions.opening import recorder_for, refuse_archived
from relight.supervision.launch import launch
from relight.values.policy import NO_ALLOWANCE, Allowance, RunPolicy
from relight.values.queues import Queue, QueuePosition, Rate, Worker
from relight.values.session import Identity
from relight.values.status import LIVE, StatusChange
from relight.values.step import Changes

MAX_COUNTED: Final = 10_000
"""queued sessions that a list of queues counts"""
MAX_RETRIES: Final = 1000
_SILENT_FACTOR: Final = 4.0
"""a worker that was silent for so many of its own intervals is taken for dead"""
_HEADLESS: Final = {"claude": ("claude", "-p"), "claude-code": ("claude", "-p"), "codex": ("codex", "exec")}


class QueueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it is shown."""

    name: str
    concurrency: int | None
    rate: Rate | None
    retries: int | None
    queued: int
    """those who stand in line, due or not"""
    running: int
    oldest: datetime | None
    """since when the first of them stands there"""


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it is shown."""

    worker: Worker
    silent_seconds: float
    """since it last said that it lives"""
    alive: bool


def submit(
    context: Context,
    command: Sequence[str] | None,
    *,
    agent: str | None,
    prompt: str | None,
    directory: str,
    place: QueuePosition,
    not_before_us: int | None,
    name: str | None = None,
    runtime: str = "process",
    workspace: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    policy: RunPolicy | None = None,
    env: Mapping[str, str | None] | None = None,
    secrets: Sequence[str] | None = None,
) -> Identity:
    """A session that stands in line. With a prompt it is put there by the step that holds it."""
    if command is None:
        command, prompt = headless(agent, prompt), None
    if not command:
        raise UsageError("a command has at least one word")
    identity = launch(
        context,
        list(command),
        directory=directory,
        name=name,
        agent=agent or str(command[0]).rpartition("/")[2],
        runtime=runtime,
        workspace=workspace,
        policy=policy,
        labels=labels,
        env=env,
        secrets=secrets,
        place=place,
        wake_us=not_before_us if prompt is None else None,
        in_queue=prompt is None,
    )
    if prompt is not None:
        recorder = recorder_for(context, resolve(context.store, identity.id))
        add_prompt(context, recorder, prompt, place=place, wake_us=not_before_us)
    return identity


def headless(agent: str | None, prompt: str | None) -> list[str]:
    """The command of an agent that was only named: what one would type to run it without a screen."""
    if agent not in _HEADLESS or prompt is None or not prompt.strip() or prompt.startswith("-"):
        known = ", ".join(sorted(_HEADLESS))
        hints = ["give a command", f"or one of the agents {known}, with a prompt (that does not begin with a dash)"]
        raise UsageError("what should run?", hints=hints)
    return [*_HEADLESS[agent], prompt]


def place_for(context: Context, queue: str, *, priority: int, wants: Iterable[str]) -> QueuePosition:
    """A place that begins now."""
    return checked_position(queue, priority=priority, wants=wants, since_us=context.queue_time_us())


def not_before_us(context: Context, moment: datetime | float | None) -> int | None:
    """A moment, or so many seconds from now, as a time to wake; None where it is past."""
    if moment is None:
        return None
    now_us = context.queue_time_us()
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        at_us = round(aware.timestamp() * 1e6)
    elif type(moment) in (int, float) and 0 <= moment < 1e9:
        at_us = now_us + round(moment * 1e6)
    else:
        raise UsageError(f"not_before is a datetime or a number of seconds, not {moment!a}")
    return at_us if at_us > now_us else None


def enqueue(
    context: Context,
    found: Found,
    place: QueuePosition,
    *,
    prompt: str | None,
    wake_us: int | None,
    limits: Allowance = NO_ALLOWANCE,
) -> None:
    """Put a session in line that has stopped, or waits in none; refused while somebody owns it."""
    refuse_archived(found)
    identity, head = found.identity, found.whole_head()
    title = identity.name or identity.id[:8]
    refuse_unstartable(identity)
    if head.status == "completed" and prompt is None:
        hints = [f"go on with a new prompt: relight resume {title} PROMPT --queue {place.queue}"]
        raise NotResumable(title, "it is completed", hints=hints)
    if head.status == "waiting" and prompt is None:
        raise NotResumable(title, "it waits for an answer", hints=[f"relight send {title} TEXT"])
    recorder = recorder_for(context, resolve(context.store, identity.id))
    if prompt is not None:
        add_prompt(context, recorder, prompt, place=place, wake_us=wake_us)
    else:
        wake_us = wake_us or (head.wake_us if head.status == "queued" else None)
        if head.status in LIVE:  # its owner is gone, or this is refused: one transition at a time
            write_once(context, recorder, "mark", Changes())
        change = StatusChange(status="queued", reason="put in line", wake_us=wake_us)
        write_once(context, recorder, "status", Changes(status=change), place=place)
    policy = policy_with(context, identity, limits)
    context.store.update(msgspec.structs.replace(identity, place=place, policy=policy))


def refuse_unstartable(identity: Identity) -> None:
    """Before anything is touched, a fork included: a worker cannot start what relight did not."""
    if identity.command is None:
        hints = ["it goes on where it stopped when your program opens it again"]
        raise NotResumable(identity.name or identity.id[:8], "relight did not start it, so no worker can", hints=hints)


def leave_line(context: Context, found: Found, why: str) -> None:
    """A queued session is not started any more: terminated. Conflict where a worker was faster."""
    recorder = recorder_for(context, resolve(context.store, found.identity.id))
    if recorder.head.status != "queued":
        raise Conflict(f"{found.identity.name or found.identity.id}: it is not in line any more")
    write_once(context, recorder, "status", Changes(status=StatusChange(status="terminated", reason=why)))


# -- queues -------------------------------------------------------------------------------------------------------


def set_queue(context: Context, name: str, *, concurrency: int | None, rate: str | None, retries: int | None) -> Queue:
    """What a queue allows from now on; what is None stays as it was."""
    before = find_queue(context, checked_queue(name)) or Queue(name=name)
    if retries is not None and (type(retries) is not int or not 0 <= retries <= MAX_RETRIES):
        raise UsageError(f"retries is a number up to {MAX_RETRIES}, not {retries!a}")
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
    """It allows everything again. Who stands in it stays there."""
    for kind in ("queue", "slots"):
        context.store.put_record(kind, checked_queue(name), None)


def find_queue(context: Context, name: str) -> Queue | None:
    """What was set; None where nothing was."""
    record = context.store.list_records("queue").get(name)
    return unpack_record(record, Queue) if record is not None else None


def queues(context: Context) -> list[QueueInfo]:
    """Those that were set, and those somebody stands or works in."""
    store = context.store
    known = {
        name: unpack_record(record, Queue) or Queue(name=name) for name, record in store.list_records("queue").items()
    }
    queued: dict[str, list[int]] = {}
    running: dict[str, int] = {}
    seen = 0
    for record in every_session(store, Query(statuses=LIVE | {"queued"})):
        seen += 1
        place = record.head.place if record.head is not None else None
        if seen > MAX_COUNTED:
            break
        if record.head is None or place is None:
            continue
        if record.head.status == "queued":
            queued.setdefault(place.queue, []).append(place.since_us)
        else:
            running[place.queue] = running.get(place.queue, 0) + 1
    names = sorted({*known, *queued, *running, *(line.queue for line in store.list_queue_keys())})
    return [_shown(known.get(name) or Queue(name=name), queued.get(name, []), running.get(name, 0)) for name in names]


def _shown(queue: Queue, queued: list[int], running: int) -> QueueInfo:
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
    """All that have not said goodbye, by name; the dead ones among them too, until somebody clears them away."""
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
