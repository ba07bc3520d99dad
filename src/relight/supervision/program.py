"""Supervision: run a program, restarting it if necessary, until its session has a final status.

    claim (spawning)  ->  end orphans of a dead attempt  ->  spawn  ->  watch  ->  final status, or again

The supervisor owns the session while it starts the program. A program that uses the library takes the lease over with
its first `rl.session` and writes its own final status. For a plain program, which does not, the supervisor stays the
owner and derives the status from the exit. A program that used the library and died without a final status is
restarted; too many deaths in a row without a new step are a failure. A plain program is not restarted unless asked
for: what it would do twice is unknown.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from relight.errors import (
    AgentFailed,
    Conflict,
    LeaseHeld,
    LeaseLost,
    NotFound,
    QueueFull,
    RelightError,
    RestoreUnfinished,
    StoreUnavailable,
    WorkspaceUnusable,
)
from relight.files.status import files_status
from relight.history import events
from relight.history.listing import info_of
from relight.history.loading import Found, resolve
from relight.journal.limits import Reached, overtime, uncounted
from relight.journal.queues.takeover import BY_A_PERSON, NO_PROGRESS
from relight.journal.status import derived_status
from relight.operations.retention import SweepCheck
from relight.operations.write_once import write_once
from relight.ports.runtime import (
    AGENT_VARIABLE,
    OWNER_VARIABLE,
    PARENT_VARIABLE,
    SESSION_VARIABLE,
    STORE_VARIABLE,
    SUPERVISOR_VARIABLE,
    Child,
    Exit,
)
from relight.sessions.context import Context
from relight.sessions.limits import budgets_of, policy_with
from relight.sessions.opening import (
    begin_attempt,
    evidence_of,
    lease_seconds_of,
    recorder_for,
    refuse_archived,
    set_policy,
)
from relight.sessions.recorder import Recorder
from relight.supervision import waiting
from relight.supervision.exits import exit_failure, failed_change
from relight.supervision.first_start import FirstStart
from relight.supervision.pause import paused
from relight.supervision.program_files import RunFiles
from relight.supervision.watcher import Handover, NullWatcher, Watcher
from relight.values.info import FilesState, SessionInfo
from relight.values.options import AS_IT_IS, ResumeOptions
from relight.values.outcome import StartOutcome
from relight.values.policy import Retry
from relight.values.session import Head, Identity
from relight.values.status import LIVE, Failure, StatusChange
from relight.values.step import Changes

RETRIES: Final = 5
BACKOFF: Final = Retry(first_seconds=0.5, max_seconds=60.0)
_POLL_SECONDS: Final = 0.05
_READ_SECONDS: Final = 1.0
_SHOW_WORKING_SECONDS: Final = 1.0
_STOP_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.8
"""between SIGTERM and SIGKILL in a pause, which is to hold within two seconds"""
_ORPHAN_SECONDS: Final = 3.0
_WRITE_TRIES: Final = 5
_GRACE_SECONDS: Final = 1.0
"""added to the delay before a restart, before a worker may claim the session instead"""
_LIMIT_SECONDS: Final = 1.5
"""between the request to end at a limit and the kill"""
_OWN_HALT_SECONDS: Final = 10.0
"""time for a program that has used up its budget to halt by itself"""
_OPENS_SECONDS: Final = 120.0
"""time for a program with a budget to open its session, from which on its usage is known"""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a supervised run."""

    session: SessionInfo
    exit: Exit
    restarts: int
    lost_seconds: float
    """total time between a death and the next start"""
    files: FilesState | None = None
    """changes since the first capture; None without a workspace"""


class Supervision:
    """Supervises one session's program. `interrupt` and `drain` may be called from a signal handler."""

    def __init__(
        self,
        context: Context,
        session: str,
        options: ResumeOptions = AS_IT_IS,
        *,
        handover: Handover | None = None,
        first_start: FirstStart | None = None,
    ) -> None:
        """`handover`: for a worker, which holds the lease until it is taken over here. The options' limits
        replace the session's from the claim on. `first_start` is rolled back if the start fails."""
        self._options = options
        self.first_start = first_start or FirstStart(context, session)
        self._context = self.first_start.context
        self._session = session
        self._handover = handover
        self._handed = handover.owner if handover is not None else None
        self._requeue_reason: str | None = None
        """why the session is requeued once its program has ended (drain)"""
        self._stop_requested = False
        """whether a person asked for a stop through the store (`relight stop`)"""
        self._is_paused = False
        """whether the program was ended by a pause of the whole store (`relight pause`)"""
        self._number = 0  # of our attempt
        self._was_away = False
        """whether the store was unavailable while the program ran"""
        self.watcher: Watcher = NullWatcher()
        self.outcome: StartOutcome | None = None
        """the outcome of the start, once the program runs or the session is queued"""
        self.on_begun: Callable[[StartOutcome], None] = lambda outcome: None
        self._recorder: Recorder | None = None
        self._child: Child | None = None
        self._stop_signals: list[int] = []
        """signals received that ask us to stop, in order"""
        self._forwarded = False
        self._deadline_us: int | None = None
        self._limit: Reached | None = None  # at which its program was ended
        self._spent_at: tuple[int, int] | None = None
        """turns and instant at which the budget was first seen to be used up"""
        self._seen = self._head().seq
        self._last_head: Head | None = None  # as last read by `_poll_journal`
        self._spent: Reached | None = None  # the budget that covers it, where it was used up then
        self._polled_us, self._restarts, self._lost_us, self._token = 0, 0, 0, object()
        self._sweeps, self._files = SweepCheck(context), RunFiles(self._context, session)

    @property
    def session(self) -> str:
        """The id of the supervised session."""
        return self._session

    def info(self) -> SessionInfo:
        """The session's present state, including one that its first claim will create."""
        return info_of(self._context, resolve(self._context.store, self._session), tree=True)

    def joining(self) -> list[str] | None:
        """The command that will attach to its terminal; None if its runtime has none."""
        found = resolve(self._context.store, self._session)
        handle = found.whole_head().handle or found.identity.id[:8]
        return self._context.runtime(found.identity).attach_command(handle)

    def interrupt(self, number: int) -> None:
        """Pass a stop signal on to the program; the second one kills it."""
        self._stop_signals.append(number)
        child = self._child
        if child is None:
            return
        self._forwarded = True
        if len(self._stop_signals) > 1:
            child.signal(signal.SIGKILL)
            return
        child.signal(number)
        # No deadline after Ctrl-C: the person is there to press it again. After a SIGTERM there is none.
        if number != signal.SIGINT:
            self._deadline_us = self._now_us() + round(_STOP_SECONDS * 1e6)

    def refuse(self, error: RelightError, limit: Reached | None = None) -> None:
        """Record that the session cannot be started here: failed with this error, or halted at a limit."""
        self._claim()
        if limit is not None:
            self._show_working()
            return self._write(limit.change)
        failure = Failure(kind="start", text=error.message)
        self._write(StatusChange(status="failed", reason=f"not started: {error.message}", failure=failure))

    def drain(self, why: str) -> None:
        """Ask the program to stop, then requeue the session; called again, the program is killed."""
        self._requeue_reason = why
        self.interrupt(signal.SIGTERM)

    def run(self) -> Ended:
        """Run until the session has a final status, died too often without progress, or a stop was requested."""
        failures, before = 0, self._begin()
        while True:
            exit, plain, stderr = self._run_once()
            if self._has_verdict(exit, plain, stderr):
                if not waiting.is_time(self._context, self._head(), stop=lambda: bool(self._stop_signals)):
                    return self._ended(exit)
                failures, before = 0, self._claim()
                continue
            failures = 1 if self._progressed(before) else failures + 1
            if failures > self._allowed(plain):
                self._write(failed_change(exit, stderr, deaths=failures if self._allowed(plain) else 0))
                self.watcher.died(exit, None)
                return self._ended(exit)
            delay = BACKOFF.delay_seconds(failures, self._context.entropy.jitter())
            self._note_death(exit, delay)
            self.watcher.died(exit, delay)
            try:
                # Claimed before the pause, not after it: meanwhile the session has an owner that `stop` can reach.
                before = self._claim()
            except (LeaseHeld, QueueFull):
                if self._head().queue_position is None:
                    raise
                return self._ended(exit)  # it is queued, or a worker was faster
            if not self._pause(delay):
                self._write(self._stopped(exit))
                return self._ended(exit)
            self._restarts += 1

    # -- one run of the program -------------------------------------------------------------------------------

    def _begin(self) -> int:
        """The first claim, with its files and prompt; rolled back if it fails."""
        self.first_start.prepare()
        try:
            return self._claim()
        except BaseException:
            self.first_start.roll_back(self._recorder)
            self._recorder = None  # a claim that stays has no holder here: the next start takes it over
            self.first_start.hand_back()
            raise

    def _claim(self) -> int:
        """Claim the session as `spawning`; the seq after which steps are the program's."""
        context = self._context
        found = resolve(context.store, self._session)
        refuse_archived(found)
        recorder = recorder_for(context, found)
        handle = recorder.head.handle or recorder.identity.id[:8]
        is_persistent = context.runtime(recorder.identity).persistent
        handed, self._handed = self._handed, None
        begin_attempt(
            context,
            recorder,
            seconds=lease_seconds_of(context.environment),
            status="spawning",
            handed_over_by=handed,
            handle=handle if is_persistent else None,
            beside=self.first_start.changes,
        )
        self._recorder, self._number = recorder, recorder.head.attempt  # what fails below is rolled back with it
        self.first_start.begun()
        set_policy(context, recorder, policy_with(context, recorder.identity, self._options.limits))
        context.declare_secrets(recorder.identity.secrets)
        context.heartbeat.add(recorder)
        return recorder.head.seq

    def _run_once(self) -> tuple[Exit, bool, list[str]]:
        """Spawn the program and watch it to its end: its exit, whether it is plain, its last lines of stderr."""
        recorder = self._owned()
        identity = recorder.identity
        runtime = self._context.runtime(identity)
        orphans = runtime.orphans(self._session)
        runtime.end(orphans, seconds=_ORPHAN_SECONDS)
        try:
            self._files.before_start(recorder)
            child = self._child = self._spawn(recorder)
        except (AgentFailed, RestoreUnfinished, WorkspaceUnusable) as error:
            self._files.has_ended(plain=False)
            if not self.first_start.roll_back(recorder):
                self._write(StatusChange(status="failed", reason=error.message, failure=Failure(kind="start")))
            raise
        try:
            self._report_begun(child, orphans, command=identity.command or [], prompt_sent=self.first_start.had_prompt)
            self.watcher.started(child.pid, orphans)
            exit = self._watch(child)
        finally:
            self._child = None
            child.close()
        self._poll_journal(force=True)
        plain = self._head().epoch == recorder.head.epoch
        self._files.has_ended(plain=plain)
        if not plain:
            self._context.heartbeat.remove(recorder)
            self._end_group(child)
        return exit, plain, child.last_lines()

    def _report_begun(self, child: Child | None, orphans: Sequence[int], **how: Any) -> None:
        """Report the start's outcome, once: the program runs or the session is queued, so nothing is rolled back."""
        if self.outcome is None:
            self.outcome = self.first_start.succeeded(child, orphans, **how)
            self.on_begun(self.outcome)

    def _spawn(self, recorder: Recorder) -> Child:
        identity = recorder.identity
        environment = {**identity.env, **self._marks(recorder), AGENT_VARIABLE: ""}
        return self._context.runtime(identity).spawn(
            self._context.command_of(identity),
            directory=identity.directory or ".",
            environment=environment,
            handle=recorder.head.handle or "",
        )

    def _marks(self, recorder: Recorder) -> dict[str, str]:
        """The variables by which the process finds its session, and we find the process."""
        return {
            SESSION_VARIABLE: recorder.identity.id,
            STORE_VARIABLE: self._context.store.url,
            OWNER_VARIABLE: recorder.owner,
            SUPERVISOR_VARIABLE: self._context.runtime().supervisor(),
            PARENT_VARIABLE: recorder.identity.spawned_by or "",
        }

    def _forward_signal(self, child: Child) -> None:
        """Send the child a stop signal that arrived before it was started; later ones were sent by `interrupt`."""
        if self._stop_signals and not self._forwarded:
            self._forwarded = True
            child.signal(self._stop_signals[0])

    def _watch(self, child: Child) -> Exit:
        self._forward_signal(child)
        began_us = self._now_us()
        while (exit := child.poll()) is None:
            try:
                self._poll_journal()
                if self._now_us() - began_us > _SHOW_WORKING_SECONDS * 1e6:
                    self._show_working()
            except StoreUnavailable:
                # An outage alone is no reason to end the program: it may not need the store now, and retries itself.
                self._was_away = True
            self.watcher.tick(child)
            self._enforce_limits(child, began_us)
            if self._deadline_us is not None and self._now_us() > self._deadline_us:
                child.signal(signal.SIGKILL)
            self._context.clock.sleep(_POLL_SECONDS)
        return exit

    def _enforce_limits(self, child: Child, began_us: int) -> None:
        """End the program at a limit. One that uses the library is given time to halt before its next model call."""
        if self._limit is not None:
            return
        self._limit = self._reached(began_us)
        if self._limit is not None:
            self._show_working()
            child.signal(signal.SIGTERM)
            self._deadline_us = self._now_us() + round(_LIMIT_SECONDS * 1e6)

    def _reached(self, began_us: int) -> Reached | None:
        policy, head, now_us = self._owned().identity.policy, self._last_head, self._now_us()
        if head is None or head.status not in LIVE or head.attempt != self._number:
            return None
        if policy.counts_usage and head.epoch == self._owned().head.epoch and self._owned().owns:
            if now_us - began_us > _OPENS_SECONDS * 1e6:
                return uncounted(policy, f"it did not open its session within {_OPENS_SECONDS:.0f} s")
        elif (limit := self._spent) is not None:
            turns, since_us = self._spent_at = self._spent_at or (head.turns, now_us)
            if head.turns > turns or (now_us - since_us > _OWN_HALT_SECONDS * 1e6 and not limit.by_others):
                return limit
        return overtime(policy, head, now_us=self._context.clock.now_us())

    def _show_working(self) -> None:
        """Set the status to working if the program has not taken the lease over yet; it may still do so later."""
        recorder = self._owned()
        if not recorder.owns or recorder.head.status != "spawning":
            return
        try:
            recorder.commit("status", Changes(status=StatusChange(status="working")))
        except LeaseLost as lost:
            recorder.lost = lost

    def _end_group(self, child: Child) -> None:
        """End a process of the program's group that outlives it and still holds the lease."""
        head = self._head()
        if head.lease is None or self._context.host.is_gone(head.lease.owner):
            return
        pids = [pid for pid in self._context.runtime().orphans(self._session) if pid == head.lease.owner.pid]
        self._context.runtime().end(pids, seconds=_ORPHAN_SECONDS)

    def _poll_journal(self, *, force: bool = False) -> None:
        """Report new steps to the watcher, and check for stop requests and takeovers."""
        self._sweeps.check()
        token, now_us = self._context.store.changed(), self._now_us()
        if not force and token == self._token and now_us - self._polled_us < _READ_SECONDS * 1e6:
            return
        self._token, self._polled_us = token, now_us
        record = self._context.store.find(self._session)
        if record is not None and record.head is not None:
            self._last_head = record.head
            self._spent = budgets_of(self._context, record.identity).spent(record.identity.policy, record.head)
            self._check_stop_or_takeover(record.identity, record.head)
            self._check_pause()
        if record is None or record.head is None or record.head.seq == self._seen:
            return
        found = Found(identity=record.identity, head=record.head, seq=None)
        for event in events.history(self._context, found, after=self._seen):
            self._seen = event.seq
            self.watcher.step(event)

    def _check_stop_or_takeover(self, identity: Identity, head: Head) -> None:
        if not self._number:
            return
        if head.attempt > self._number:
            # Another owner began a newer attempt. Steps of this one are refused from now on, so its side effects
            # must end too: kill, do not ask.
            if self._child is not None:
                self._child.signal(signal.SIGKILL)
        # The request names the attempt, so that one meant for a run that died meanwhile does not stop the next.
        elif identity.stop_attempt == self._number and not self._stop_requested:
            self._stop_requested = True
            self.interrupt(signal.SIGTERM)

    def _check_pause(self) -> None:
        """End the program if the store was paused since it began."""
        if not self._number or self._is_paused or paused(self._context) is None:
            return
        self._is_paused = True
        self.interrupt(signal.SIGTERM)
        self._deadline_us = self._now_us() + round(_PAUSE_SECONDS * 1e6)

    # -- the final status -------------------------------------------------------------------------------------

    def _has_verdict(self, exit: Exit, plain: bool, stderr: list[str]) -> bool:
        """Whether the session has a final status; writes it if the program did not."""
        if self._limit is not None:
            self._halt(self._limit)
            return True
        if plain:
            return self._settle_plain(exit, stderr)
        head = self._head()
        status, _ = derived_status(head, evidence_of(self._context, head))
        requeued = self._requeue_reason is not None or self._is_paused
        if requeued and head.status == "terminated" and head.lease is None:
            self._write(self._stopped(exit))  # it ended because of a stop request, not because its work is done
            return True
        if head.status not in LIVE or status in LIVE or head.lease is None:
            return True  # the program wrote its own status, or another owner has the session, or its lease was revoked
        if self._stop_signals or exit.signal == signal.SIGINT:
            self._write(self._stopped(exit))
            return True
        if exit.code == 0:
            self._write(StatusChange(status="terminated", reason="ended without a verdict (exit code 0)"))
            return True
        return False

    def _halt(self, limit: Reached) -> None:
        """Record that the program was ended at a limit, unless it completed or halted by itself."""
        self._end_leftovers()
        head = self._head()
        if head.attempt > self._number or head.status in ("completed", "halted"):
            return
        if head.status not in LIVE:
            self._claim()
        self._show_working()
        self._write(limit.change)

    def _end_leftovers(self, seconds: float = _LIMIT_SECONDS) -> None:
        """End processes that the program started: they must not work on beyond a limit or in a pause either."""
        runtime = self._context.runtime()
        runtime.end(runtime.orphans(self._session), seconds=seconds)

    def _settle_plain(self, exit: Exit, stderr: list[str]) -> bool:
        self._show_working()
        if self._stop_signals or exit.signal == signal.SIGINT:
            if self._options.retries == 0:  # not requeued: what a plain program would do twice is unknown
                self._requeue_reason = None
            self._write(self._stopped(exit))
        elif exit.code == 0:
            unknown = self._owned().identity.policy.counts_usage
            reason = "usage unknown: it never opened its session" if unknown else None
            self._write(StatusChange(status="completed", reason=reason))
        elif self._options.retries:
            return False
        elif self._head().queue_position is not None and self._failed_to_open_store(stderr):
            self._write(StatusChange(status="queued", reason="its store was unavailable when it started"))
        else:
            self._write(failed_change(exit, stderr, deaths=0))
        return True

    def _failed_to_open_store(self, stderr: list[str]) -> bool:
        """Whether it probably ended because it could not open the store, which is not its own failure."""
        return self._was_away or any(StoreUnavailable.__name__ in line for line in stderr)

    def _stopped(self, exit: Exit) -> StatusChange:
        """The status after a stop: queued if its worker stops (drain), terminated if a person asked."""
        if self._requeue_reason is not None and not self._is_stop_requested():
            return StatusChange(status="queued", reason=self._requeue_reason)
        if self._is_paused and not self._is_stop_requested():
            self._end_leftovers(_PAUSE_SECONDS / 4)
            return StatusChange(status="queued" if self._head().queue_position else "terminated", reason="paused")
        return StatusChange(status="terminated", reason=self._why_stopped(exit))

    def _is_stop_requested(self) -> bool:
        # Read again: a person's request that arrives after the worker's drain still wins over requeueing.
        if not self._stop_requested:
            record = self._context.store.find(self._session)
            self._stop_requested = record is not None and record.identity.stop_attempt == self._number
        return self._stop_requested

    def _why_stopped(self, exit: Exit) -> str:
        if self._stop_requested:
            return BY_A_PERSON
        asked = self._stop_signals[0] if self._stop_signals else exit.signal or 0
        return f"stopped ({signal.Signals(asked).name})" if asked in set(signal.Signals) else f"stopped ({exit})"

    def _note_death(self, exit: Exit, delay_seconds: float) -> None:
        """Record a death before a restart. A session with a queue position is queued with a wake time meanwhile: if
        this supervisor dies too, a worker claims it then."""
        failure = exit_failure(exit, str(exit))
        if self._head().queue_position is None:
            self._write(StatusChange(status="terminated", reason=f"died ({exit})", failure=failure))
            return
        wake_us = self._context.queue_time_us() + round((delay_seconds + _GRACE_SECONDS) * 1e6)
        change = StatusChange(status="queued", reason=f"died ({exit})", failure=failure, wake_us=wake_us)
        self._write(change)

    def _write(self, change: StatusChange, *, note: Mapping[str, Any] | None = None) -> None:
        """Write a status as the owner; if the program was, with a claim of our own after its death."""
        changes = Changes(status=change, note=dict(note) if note is not None else None)
        recorder = self._owned()
        self._context.heartbeat.remove(recorder)
        try:
            if recorder.owns:
                self._files.commit(recorder, changes, release=True)
                self._poll_journal(force=True)
                return
        except LeaseLost as lost:
            recorder.lost = lost
        self._write_as_new_owner(changes)
        self._poll_journal(force=True)

    def _write_as_new_owner(self, changes: Changes) -> None:
        # `relight stop` may write the end at the same moment, or a new owner may claim: both take precedence.
        for tries_left in reversed(range(_WRITE_TRIES)):
            fresh = recorder_for(self._context, resolve(self._context.store, self._session))
            if (fresh.head.status, fresh.head.reason) == ("terminated", BY_A_PERSON):
                return
            try:
                write_once(self._context, fresh, "status", changes)
                return
            except (Conflict, LeaseHeld):
                head = self._head()
                status, _ = derived_status(head, evidence_of(self._context, head))
                if head.status not in LIVE or status in LIVE:
                    return
                if not tries_left:
                    raise

    def _progressed(self, before: int) -> bool:
        """Whether the program committed a step of its own after `before`."""
        rows = self._context.store.checkpoints(self._session, after=before)
        return any(row.kind not in NO_PROGRESS for row in rows)

    def _allowed(self, plain: bool) -> int:
        return self._options.retries if self._options.retries is not None else 0 if plain else RETRIES

    def _pause(self, seconds: float) -> bool:
        """Wait before a restart; False if a stop signal came meanwhile."""
        begun_us = self._now_us()
        while self._now_us() - begun_us < seconds * 1e6:
            self._check_pause()
            if self._stop_signals:
                return False
            self._context.clock.sleep(min(_POLL_SECONDS, seconds))
        self._lost_us += self._now_us() - begun_us
        return True

    def _ended(self, exit: Exit) -> Ended:
        self._files.close()
        found = resolve(self._context.store, self._session)
        return Ended(
            session=info_of(self._context, found, tree=True),
            # A program that waits has done its part, however it ended: exit code 0 at every entry point.
            exit=Exit(code=0) if found.whole_head().status == "waiting" else exit,
            restarts=self._restarts,
            lost_seconds=self._lost_us / 1e6,
            files=files_status(self._context, found, start=True),
        )

    def _head(self) -> Head:
        if (record := self._context.store.find(self._session)) is None:
            raise NotFound(self._session)
        return Found(identity=record.identity, head=record.head, seq=None).whole_head()

    def _owned(self) -> Recorder:
        if self._recorder is None:
            raise AssertionError("claimed before anything runs")
        return self._recorder

    def _now_us(self) -> int:
        return self._context.clock.instant().us
