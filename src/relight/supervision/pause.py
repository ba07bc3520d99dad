"""Pause: everything that relight runs is stopped, and nothing is started, until a person ends the pause.

A pause is one record in the store, so it holds for every process and machine that uses the store, and after a reboot.
Each supervisor sees it while it polls, and ends its program; what was in a queue is queued again, everything else is
`terminated: paused`. Workers claim nothing, waits for a limit do not end, and a start is refused. A program that uses
the library without `relight run` and without a worker is not relight's to end: it keeps running, and is named.
"""

from __future__ import annotations

import signal
from typing import Final

import msgspec

from relight.errors import Refused
from relight.history.listing import every_session
from relight.journal.queues.small_records import pack_record, unpack_record
from relight.ports.store import Query
from relight.sessions.context import Context
from relight.supervision.stop import is_at_work, record_end
from relight.values.checkpoint import at
from relight.values.info import Reason
from relight.values.queues import Pause
from relight.values.status import LIVE

_NAME: Final = "all"
_ASK_SECONDS: Final = 1.4
"""how long supervisors have to end their programs by themselves; then they are killed"""
_KILL_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.05


class Paused(msgspec.Struct, frozen=True, kw_only=True):
    """A pause, and what became of the sessions that ran when it began."""

    pause: Pause
    ended: list[str] = []
    """ids of sessions whose programs have ended"""
    running: list[str] = []
    """ids of sessions that still run: elsewhere, or without a supervisor"""


def paused(context: Context) -> Pause | None:
    """The pause of this store; None if there is none."""
    record = context.store.list_records("pause").get(_NAME)
    return unpack_record(record, Pause) if record is not None else None


def unpause(context: Context) -> Pause | None:
    """End the pause: workers claim sessions again, everything else can be resumed. The pause that ended, if there was
    one."""
    before = paused(context)
    if before is not None:
        context.store.put_record("pause", _NAME, None)
    return before


def pause(context: Context, *, by: str, reason: str | None = None) -> Paused:
    """Begin a pause, or keep the present one, and wait a few seconds at most until what ran has ended."""
    begun_us = context.clock.instant().us
    made, before = paused(context), _at_work(context)
    if made is None:
        why = context.redactor().text(reason) if reason is not None else None
        made = Pause(at_us=context.clock.now_us(), by=by, reason=why)
        context.store.put_record("pause", _NAME, pack_record(made))
    before |= _at_work(context)  # what began until now; what has ended since is in it too
    ours = [session for session, is_supervised in before.items() if is_supervised]
    if _run_longer(context, ours, begun_us + round(_ASK_SECONDS * 1e6), recorded=True):
        for session in ours:
            _kill(context, session)
        _run_longer(context, ours, context.clock.instant().us + round(_KILL_SECONDS * 1e6), recorded=False)
        for session in ours:
            _record_killed(context, session)
    running = [session for session in before if _is_running(context, session, recorded=False)]
    return Paused(pause=made, ended=[session for session in before if session not in running], running=running)


def _at_work(context: Context) -> dict[str, bool]:
    """Ids of sessions that run, and whether relight started them."""
    return {
        record.identity.id: record.identity.command is not None
        for record in every_session(context.store, Query(statuses=LIVE))
        if record.head is not None and is_at_work(context, record.head)
    }


def _run_longer(context: Context, sessions: list[str], until_us: int, *, recorded: bool) -> bool:
    """Whether one of these sessions still runs at this instant; returns as soon as none does."""
    while any(_is_running(context, session, recorded=recorded) for session in sessions):
        # An instant and not a number of polls: on a busy machine a poll takes longer than its sleep.
        if context.clock.instant().us >= until_us:
            return True
        context.clock.sleep(_POLL_SECONDS)
    return False


def _is_running(context: Context, session: str, *, recorded: bool) -> bool:
    """Whether a process works on it; with `recorded`, until its supervisor has also recorded how it ended."""
    record = context.store.find(session)
    if record is None or record.head is None:
        return False
    return record.head.status in LIVE if recorded else is_at_work(context, record.head)


def _kill(context: Context, session: str) -> None:
    """Kill what runs a session on this machine: its supervisor first, which would restart the program."""
    record = context.store.find(session)
    lease = record.head.lease if record is not None and record.head is not None else None
    if lease is None or context.host.is_gone(lease.owner) is None:
        return  # it has ended, or runs on another machine
    runtime = context.runtime()
    # Named by what it has started, not by the lease: its owner may be a worker, which has other sessions too.
    marked = [lease.owner.pid, *runtime.orphans(session)]
    for supervisor in {pid for one in marked if (pid := runtime.supervisor_of(one, session)) is not None}:
        runtime.signal(supervisor, signal.SIGKILL)
    runtime.end(runtime.orphans(session), seconds=0.0)  # they were asked to end when the pause began


def _record_killed(context: Context, session: str) -> None:
    """Record the pause for a session whose supervisor was killed before it could. One with a queue position is queued
    again by the next sweep instead."""
    record = context.store.find(session)
    head = record.head if record is not None else None
    if head is not None and head.status in LIVE and head.queue_position is None and not is_at_work(context, head):
        record_end(context, session, "paused")


def refuse_paused(context: Context) -> None:
    """Refused while the store is paused."""
    found = reason_of(context)
    if found is not None:
        raise Refused(f"nothing was started: {found.text}", hints=[found.cure or ""])


def reason_of(context: Context) -> Reason | None:
    """The plan's reason why nothing starts during a pause."""
    found = paused(context)
    if found is None:
        return None
    why = f" ({found.reason})" if found.reason else ""
    text = f"everything is paused since {at(found.at_us).astimezone():%Y-%m-%d %H:%M} by {found.by}{why}"
    return Reason(code="paused", text=text, cure="relight unpause", blocks=True)
