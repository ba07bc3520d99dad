"""Timers of a program: `s.sleep`, a pause that survives a death.

    commit the wake-up time  ->  wait  ->  the next step commits that the pause is over

The wake-up time is filed like an answer (questions.py): a program that is started again and sleeps again finds it, and
waits for the rest only. The pause is used up by the first step after it; the next `sleep` is then another pause. Pauses
in a row, or side by side, are told apart by their number. A `key` makes all pauses under it one, for good.

Where a supervisor or worker can start the program again, a long pause gives the process back: the session is `queued`
with its wake-up time (in the queue it came from, if it has one) and `Waiting` is raised. Everywhere else the process
waits, and the heartbeat keeps the lease.

Clocks: within a process a pause of some seconds is measured by the monotonic clock. After a restart the rest is read
from the wall clock (the server's, if the store has one): a clock that was set forward shortens it, one that was set
back lengthens it, never beyond the seconds given. `until` is a wall-clock time and follows the wall clock.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from relight.errors import UsageError
from relight.journal.conversation.dialogue import SLEEP, SLEEPING
from relight.journal.jsonable import check_text
from relight.sessions.coroutines import Pause, Program
from relight.values.checkpoint import LATEST_US, at
from relight.values.status import StatusChange
from relight.values.step import Changes

if TYPE_CHECKING:
    from relight.sessions.session_writer import SessionWriter

LONG_SECONDS: Final = 60.0
"""longer pauses give the process back, where something can wake the session"""
_LOOK_SECONDS: Final = 60.0
"""so often a waiting process reads the clock, and whether the session is still its own"""
_MAX_SECONDS: Final = 1e9


def sleep(
    writer: SessionWriter, seconds: float | None, until: datetime | float | None, key: str | None
) -> Program[None]:
    """Wait until the recorded wake-up time; Waiting if the process is given back for it."""
    wanted_us = _wake_us(writer, seconds, until)
    if key is not None:
        check_text(key, "the key of sleep")
    writer.refuse_in_batch("sleep")
    begun = _begin(writer, wanted_us, key, seconds)
    if begun is None:
        return
    slot, wake_us, rest = begun
    start_us = writer.context.clock.instant().us
    try:
        while True:
            waited = (writer.context.clock.instant().us - start_us) / 1e6
            left = rest - waited if seconds is not None else _left_seconds(writer, wake_us)
            if left <= 0:
                break
            yield Pause(min(left, _LOOK_SECONDS))
            writer.check_open()
    finally:
        writer.sleeping.discard(slot)
    if key is None:
        writer.used_answers.append(slot)


def _wake_us(writer: SessionWriter, seconds: float | None, until: datetime | float | None) -> int:
    """The wake-up time that is asked for."""
    if (seconds is None) == (until is None):
        raise UsageError("sleep takes a number of seconds or until=", hints=["s.sleep(3600), s.sleep(until=MOMENT)"])
    if seconds is not None:
        if type(seconds) not in (int, float) or not 0 <= seconds < _MAX_SECONDS:
            raise UsageError(f"sleep takes a number of seconds from 0, not {seconds!r}")
        return _now_us(writer) + round(seconds * 1e6)
    # A datetime without a time zone is local time.
    moment = until.timestamp() if isinstance(until, datetime) else until
    if not isinstance(moment, int | float) or isinstance(moment, bool) or not 0 <= moment <= LATEST_US / 1e6:
        raise UsageError(f"until is a datetime or a timestamp, not {until!r}")
    return round(moment * 1e6)


def _begin(
    writer: SessionWriter, wanted_us: int, key: str | None, seconds: float | None
) -> tuple[str, int, float] | None:
    """Commit the wake-up time, unless an earlier attempt did: the slot of the pause, its wake-up time, and what is left
    of it. None if it is over before it began."""
    recorder = writer.recorder
    with recorder.lock:
        if recorder.has_unknown_commit:
            recorder.resolve_unknown("mark")
        writer.check_open()
        slot = f"timer:{key}" if key is not None else _free_slot(writer)
        filed = recorder.fold.answered.get(slot)
        wake_us = filed if isinstance(filed, int) else wanted_us
        left = _left_seconds(writer, wake_us)
        left = left if seconds is None else min(left, seconds)
        if filed is None and left <= 0:
            return None
        answer = [SLEEP, wake_us, slot] if filed is None else []
        text = f"{SLEEPING} {at(wake_us):%Y-%m-%d %H:%M:%S} UTC"
        if left > LONG_SECONDS and writer.is_supervised and not writer.running:
            change = StatusChange(status="queued", reason=text, wake_us=wake_us)
            raise writer.wait(change, answer=answer, until=at(wake_us), cure=f"relight resume {writer.name}")
        if answer:
            if key is not None:
                recorder.recording.check_key(key, "the key of sleep")
            change = StatusChange(status="working", reason=text, wake_us=wake_us)
            writer.record("status", Changes(answer=answer, status=change), uses_answers=False)
        writer.sleeping.add(slot)
    return slot, wake_us, left


def _free_slot(writer: SessionWriter) -> str:
    """The number of this pause among those under way, and those over whose end no step has committed yet."""
    taken = {*writer.sleeping, *writer.used_answers}
    return next(slot for number in range(len(taken) + 1) if (slot := f"sleep:{number}") not in taken)


def _left_seconds(writer: SessionWriter, wake_us: int) -> float:
    return (wake_us - _now_us(writer)) / 1e6


def _now_us(writer: SessionWriter) -> int:
    return writer.context.queue_time_us()
