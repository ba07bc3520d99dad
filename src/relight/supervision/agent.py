"""Supervision of a coding agent: start, observe, classify its end, and restart if the retry policy says so.

The supervisor owns the session all the time; the agent's hooks and transcript are recorded under its lease. If a start
by native resume ends without a reply and without a known cause, the next start uses a lower rung (start.py). Whether a
resume worked is recorded. Longer waits are rows in the store (waiting.py).
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from relight.errors import LeaseLost, StoreUnavailable
from relight.history.loading import resolve
from relight.journal.conversation.dialogue import NEXT_PROMPT
from relight.journal.conversation.loop_detector import repeated
from relight.journal.limits import Reached, overtime
from relight.journal.quiet_hours import quiet_until
from relight.journal.retry import History, Move, decide
from relight.operations.write_once import write_once
from relight.ports.agent import Rung, Surroundings
from relight.ports.runtime import Exit
from relight.sessions.context import Context
from relight.sessions.opening import recorder_for
from relight.sessions.pending_store import with_change
from relight.supervision.approvals import deadline_of
from relight.supervision.failover import Failover
from relight.supervision.first_start import FirstStart
from relight.supervision.hand_over import Handed
from relight.supervision.program import Ended, Supervision
from relight.supervision.start import LiveAttempt, Start, limit_of
from relight.supervision.waiting import account_of, limited_until, wait
from relight.supervision.watcher import Handover
from relight.values.checkpoint import at
from relight.values.ending import LEAST_WAIT_SECONDS, Ending, Scope, Verdict
from relight.values.execution import Execution, ResumeVerdict, Started, execution_of
from relight.values.options import AS_IT_IS, ResumeOptions
from relight.values.policy import RunPolicy
from relight.values.session import Head
from relight.values.status import Failure, StatusChange
from relight.values.step import Changes

_POLL_SECONDS: Final = 0.05
_STOP_SECONDS: Final = 1.5
"""between SIGTERM and SIGKILL when an agent is halted"""
_TAIL_LINES: Final = 200
QUIET: Final = "quiet hours"
"""the reason of a session that waits for their end"""
_SIT_SECONDS: Final = 20.0
"""a worker's attendant sleeps through shorter waits; for longer ones it ends, which frees its slot"""


class AgentSupervision(Supervision):
    """Supervises one coding agent's session."""

    def __init__(
        self,
        context: Context,
        session: str,
        options: ResumeOptions = AS_IT_IS,
        *,
        handover: Handover | None = None,
        first_start: FirstStart | None = None,
    ) -> None:
        super().__init__(context, session, options, handover=handover, first_start=first_start)
        self._lowest: Rung | None = None
        """the rung to start with, after a higher one failed"""
        self._question: str | None = None
        """the approval question of a deferred call"""
        self._outage_reported = False
        self._failover = Failover(self._context, session)
        self.started: Started | None = None

    def run(self) -> Ended:
        """Run until the session has a final status, waits for a person, or a stop was requested."""
        history, prompt = History(), self._options.prompt
        self.first_start.prepare()
        if not self._outwaited_limit():
            return self._ended(Exit(code=0))
        while True:
            handed = self._failover.next() if self._restarts or self._handover is not None else None
            live, exit = self._live_once(prompt, handed)
            move = self._decide(live, exit, history)
            self._end_with(move)
            if move.again:
                delay = max(0.0, (move.wake_us - self._wall_us()) / 1e6) if move.wake_us is not None else 0.0
                self.watcher.died(exit, delay)
                self._restarts += 1
            if not self._continues(move):
                return self._ended(exit)
            history, prompt = move.history, move.prompt

    def _continues(self, move: Move) -> bool:
        if move.again and move.wake_us is None:
            return not self._stop_signals
        if self._handover is not None and (move.wake_us is None or self._is_long(move.wake_us)):
            return False  # it is queued, or will be when a person has decided: a worker claims it then
        return (move.again or move.change.status == "waiting") and self._wait(move.wake_us)

    def _is_long(self, wake_us: int) -> bool:
        return wake_us - self._wall_us() > _SIT_SECONDS * 1e6

    def _wait(self, wake_us: int | None) -> bool:
        """Poll the session's row until its time has come. False: a stop was requested, or it was claimed elsewhere."""
        begun_us = self._now_us()
        woken = wait(self._context, self._session, wake_us, stop=lambda: bool(self._stop_signals))
        self._lost_us += self._now_us() - begun_us
        return woken == "now"

    def _outwaited_limit(self) -> bool:
        """Wait for the end of a usage limit that a session of the same account has met, instead of meeting it too, and
        for the end of its quiet hours. False: it is queued instead, or a stop was requested."""
        found = resolve(self._context.store, self._session)
        provider = self._context.agent(found.identity).provider
        # With a fallback it is not waited for: the agent is refused once, and the next one continues.
        has_fallback = bool(found.identity.policy.fallback)
        limit_us = None if has_fallback else limited_until(self._context, found, provider, self._account())
        wake_us = max(limit_us or 0, self._quiet_until(found.identity.policy) or 0)
        if not wake_us or self._options.now:
            return True
        why = f"usage limit of {provider}" if limit_us == wake_us else QUIET
        if found.whole_head().wake_us != wake_us or self._handover is not None or self.first_start.has_prompt:
            self._queue_until(why, provider if limit_us == wake_us else None, wake_us)
        if self._handover is not None:
            return False  # queued until then
        self._report_begun(None, (), command=None, prompt_sent=False)
        self._context.notify(f"{why}: waiting for its end; Ctrl-C leaves the session queued")
        return self._wait(wake_us)

    def _quiet_until(self, policy: RunPolicy) -> int | None:
        """The end of its quiet hours, if it is within them."""
        if policy.quiet_hours is None:
            return None
        over = quiet_until(policy.quiet_hours, at(self._wall_us()).astimezone())
        return round(over.timestamp() * 1e6) if over is not None else None

    def _queue_until(self, why: str, provider: str | None, wake_us: int) -> None:
        """Queue the session until then, with its prompt, in one commit that begins no attempt. `provider`: whose usage
        limit it is, if it is one."""
        fields: dict[str, Any] = {"provider": provider, "account": self._account(), "shared": True}
        failure = Failure(kind="usage_limit", fields=fields) if provider is not None else None
        change = StatusChange(status="queued", reason=why, failure=failure, wake_us=wake_us)
        if self._handover is not None:
            self._claim()
            self._write(change)
            return
        try:
            recorder = recorder_for(self._context, resolve(self._context.store, self._session))
            changes = msgspec.structs.replace(self.first_start.changes(recorder), status=change)
            write_once(self._context, recorder, "status", changes)
        except BaseException:
            self.first_start.roll_back(None)
            raise
        self.first_start.begun()

    def _live_once(self, prompt: str | None, handed: Handed | None) -> tuple[LiveAttempt, Exit]:
        """Claim the session, for another agent if it is handed over, start the agent and observe it to its end."""
        before = self._head()
        if handed is not None:
            self._context = with_change(self._context, self._session, handed.over)
        self._begin()
        self._question = None  # of the previous attempt: the agent asks its hook again
        recorder = self._owned()
        waiting = recorder.fold.answers.get(NEXT_PROMPT)
        command = self._context.command_of(recorder.identity)
        execution = execution_of(recorder.identity, before, command=command, prompt=prompt or waiting)
        start = Start(self._context, recorder, execution, self._marks(recorder), self._set_question)
        try:
            live = start.begin(self._lowest)
        except BaseException as error:
            start.abandon()
            if not self.first_start.roll_back(recorder):
                self._roll_back(before, start, error)
                self.first_start.hand_back()
                if handed is not None:
                    self._context.store.update(self._session, handed.back)
            raise
        self.started, self._child = start.started, live.child
        orphans = start.started.orphans if start.started is not None else ()
        try:
            self._report_begun(
                live.child,
                orphans,
                command=live.launch.command,
                prompt_sent=live.prompt is not None or bool(start.started and start.started.prompt_sent),
                rung=live.rung,
                lives=start.is_reattached,
            )
            self.watcher.started(live.child.pid, orphans)
            exit = self._observe(live, execution, start.surroundings)
        except BaseException:
            live.end()  # an agent whose steps are not recorded must not continue
            raise
        finally:
            live.over.set()
            self._child = None
            live.child.close()
            start.close()
        return live, exit

    def _set_question(self, question: str) -> None:
        self._question = question

    def _roll_back(self, before: Head, start: Start, error: BaseException) -> None:
        """Restore the conversation and the status before a failed start, with a note which part of it failed."""
        if isinstance(error, LeaseLost) or self._recorder is None or not self._recorder.owns:
            return
        part = start.part
        start.restore_conversation()
        if before.queue_position is not None and isinstance(error, StoreUnavailable):
            change = StatusChange(status="queued", reason=f"not started: {part}: {error}")
        elif before.status in ("queued", "failed", "terminated") and before.attempt:
            change = StatusChange(
                status=before.status, reason=before.reason, failure=before.failure, wake_us=before.wake_us
            )
        else:
            reason = f"not started: {part}: {error}"
            change = StatusChange(status="failed", reason=reason, failure=Failure(kind="start", text=str(error)))
        self._write(change, note={"not_started": {"part": part, "why": str(error)}})

    # -- while it runs ----------------------------------------------------------------------------------------

    def _observe(self, live: LiveAttempt, execution: Execution, surroundings: Surroundings) -> Exit:
        child = live.child
        self._forward_signal(child)
        while (exit := child.poll()) is None:
            self._check_lease()
            self._try_sync(live, surroundings)
            self.watcher.tick(child)
            self._enforce(live, execution)
            if self._deadline_us is not None and self._now_us() > self._deadline_us:
                child.signal(signal.SIGKILL)
            self._context.clock.sleep(_POLL_SECONDS)
        live.over.set()
        self._sync(live, surroundings)
        if live.observer.subagents is not None:
            live.observer.subagents.interrupt()
        if live.own_cost is not None:
            live.observer.apply_reported_cost(live.own_cost)
        self._poll_journal(force=True)
        return exit

    def _check_lease(self) -> None:
        lost = self._owned().lost
        if lost is not None:
            raise lost

    def _try_sync(self, live: LiveAttempt, surroundings: Surroundings) -> None:
        # An outage of the store loses nothing: the transcript is still there when the store is back.
        try:
            self._sync(live, surroundings)
            self._poll_journal()
        except StoreUnavailable as error:
            if not self._outage_reported:
                self._context.notify(f"the store is unavailable, the agent continues: {error}")
            self._outage_reported = True
        else:
            self._outage_reported = False

    def _sync(self, live: LiveAttempt, surroundings: Surroundings) -> None:
        """Record new output and new transcript lines, and what follows from them."""
        observer, child = live.observer, live.child
        for text in child.output():
            self._take_output(live, text)
        if live.hook_native is not None and live.hook_native != live.native and live.imposed is None:
            self._learn_native(live, live.hook_native)
        if not observer.follows:
            self._find_transcript(live, surroundings)
        before = observer.progress
        observer.sync()
        if observer.has_lost_history and live.imposed is None:
            self._leave_rung(live, "it continued without the conversation that was handed over to it")
        if observer.progress != before:
            live.progress_us = self._now_us()
            self._learn_model(live)
            self._halt_loops(live)
        self._record_prompt_delivery(live)
        if live.rung != "fresh" and not live.verdict_recorded and live.has_replied:
            self._record_verdict(live, "progressed")

    def _record_prompt_delivery(self, live: LiveAttempt) -> None:
        """Mark the pending prompt as delivered once the model has replied. Usually the observer has done so before,
        with the transcript line; until then the next attempt sends the prompt again."""
        waiting = self._owned().fold.answers.get(NEXT_PROMPT)
        if waiting is None or waiting != live.prompt:
            return
        if live.has_replied:
            self._owned().commit("mark", Changes(answer=[NEXT_PROMPT, None], note={"prompt": "told"}))

    def _halt_loops(self, live: LiveAttempt) -> None:
        """Halt an agent that repeats the same calls with the same results."""
        recorder, repeats = live.observer.recorder, self._owned().identity.policy.repeats
        why = repeated(recorder.fold, since=recorder.head.resumed_from or 0, repeats=repeats)
        if why is not None and live.halted is None:
            live.halted = why
            self._record_verdict(live, "looped")

    def _take_output(self, live: LiveAttempt, text: str) -> None:
        live.progress_us = self._now_us()
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict):
            live.text = [*live.text[-_TAIL_LINES:], text]
            return
        live.output = [*live.output[-_TAIL_LINES:], line]
        live.own_cost = live.observer.adapter.own_cost(line) or live.own_cost
        native = live.observer.adapter.id_in_output(line)
        if native is not None and native != live.native:
            self._learn_native(live, native)

    def _learn_native(self, live: LiveAttempt, native: str) -> None:
        """Record the native id that the agent reports; kill the agent if it is not the one that was resumed."""
        # An agent that silently begins another session has lost the conversation: continue from our journal instead.
        if live.expected is not None and live.rung == "native" and native != live.expected:
            self._leave_rung(live, f"native session id mismatch: asked for {live.expected}, the agent began {native}")
            return
        live.native = native
        live.observer.mark({"native": "known"}, native=native)

    def _leave_rung(self, live: LiveAttempt, why: str) -> None:
        """Kill an agent that does not have the conversation; the next one is given a brief."""
        scope = Scope(provider=live.observer.adapter.provider or "")
        live.imposed = Verdict(kind="crashed", source="result", scope=scope, text=why, cure="resume")
        self._lowest = "bootstrap"
        live.child.signal(signal.SIGKILL)

    def _learn_model(self, live: LiveAttempt) -> None:
        transcript, recorder = live.observer.transcript, live.observer.recorder
        model = transcript.model if transcript is not None else None
        if model is not None and model != recorder.identity.model:
            after = recorder.head.seq
            recorder.identity = self._context.store.update(
                self._session, lambda now: now.with_model(model, after=after)
            )

    def _find_transcript(self, live: LiveAttempt, surroundings: Surroundings) -> None:
        adapter = live.observer.adapter
        if live.native is None and adapter.capabilities.transcript:
            since_us = self._wall_us() - (self._now_us() - live.began_us)
            found = self._begun_by(live, adapter.sessions(surroundings, since_us=since_us), surroundings)
            if found is not None:
                self._learn_native(live, found)
        if live.native is not None and live.imposed is None:
            path = adapter.locate(live.native, surroundings)
            if path is not None:
                live.observer.follow(path)

    def _begun_by(self, live: LiveAttempt, candidates: list[str], surroundings: Surroundings) -> str | None:
        """Which of the native sessions begun here since the start is this agent's; None if that is not known."""
        # Two agents started in one directory at about the same time: until ours has written its first line, the only
        # new transcript is the other one's. An agent that keeps its transcript open is known by that; what another
        # process keeps open is never ours.
        identity, held = live.observer.recorder.identity, dict[str, bool | None]()
        for native in candidates:
            path = live.observer.adapter.locate(native, surroundings)
            held[native] = None if path is None else self._context.runtime(identity).holds_open(path, identity.id)
        ours = [native for native, by_us in held.items() if by_us]
        free = [native for native, by_us in held.items() if by_us is None]
        chosen = ours or free
        return chosen[0] if len(chosen) == 1 else None

    def _enforce(self, live: LiveAttempt, execution: Execution) -> None:
        """Halt an agent that has reached a limit; kill one that shows no progress for too long."""
        if live.is_stopped or live.imposed is not None:
            return
        policy, child, now_us = execution.policy, live.child, self._now_us()
        if live.is_asking:
            # Its hook has no reply, so the call does not begin; those beside it end first, and their results are kept.
            with live.beginning:
                is_late = now_us - live.progress_us > policy.quiet_seconds * 1e6
                if is_late or live.observer.adapter.capabilities.begins_together or not live.running():
                    live.is_stopped = True
                    child.signal(signal.SIGKILL)
            return
        live.halted = live.halted or self._limit_of(live)
        live.is_quiet = live.halted is None and self._quiet_until(policy) is not None
        if live.halted is not None or live.is_quiet:
            live.is_stopped = True
            child.signal(signal.SIGTERM)
            self._deadline_us = now_us + round(_STOP_SECONDS * 1e6)
        elif now_us - live.progress_us > policy.quiet_seconds * 1e6:
            text = f"no sign of progress for {policy.quiet_seconds:.0f} s"
            scope = Scope(provider=live.observer.adapter.provider or "")
            live.imposed = Verdict(kind="crashed", source="own_signal", scope=scope, text=text, cure="resume")
            child.signal(signal.SIGKILL)

    def _limit_of(self, live: LiveAttempt) -> Reached | None:
        recorder = self._owned()
        # Usage counts only within a turn: after a turn's last reply no model call follows, so the agent may finish.
        limit = limit_of(self._context, live.observer) if live.observer.is_mid_turn else None
        return limit or overtime(recorder.identity.policy, recorder.head, now_us=self._wall_us())

    def _record_verdict(self, live: LiveAttempt, verdict: ResumeVerdict) -> None:
        live.verdict_recorded = True
        live.observer.mark({"resume": {"rung": live.rung, "verdict": verdict}})

    # -- the end ----------------------------------------------------------------------------------------------

    def _decide(self, live: LiveAttempt, exit: Exit, history: History) -> Move:
        """Classify the agent's end, and decide what follows."""
        if isinstance(live.halted, Reached):
            self._end_leftovers()
            return Move(change=live.halted.change)
        if live.halted is not None:
            return Move(change=StatusChange(status="halted", reason=live.halted))
        if live.is_quiet and not self._stop_signals:
            self._end_leftovers()
            wake_us = self._quiet_until(self._owned().identity.policy) or self._wall_us()
            change = StatusChange(status="queued", reason=QUIET, wake_us=wake_us)
            return Move(change=change, again=True, wake_us=wake_us)
        observer = live.observer
        progressed = live.has_replied
        verdict = live.imposed or self._verdict(live, exit)
        if self._question is not None and (live.is_asking or verdict.kind in ("paused", "ok")):
            question, self._question = self._question, None
            if live.is_asking and observer.adapter.capabilities.begins_together:
                observer.take_back(live.running(), live.held, now_us=self._wall_us())
            until_us = deadline_of(self._owned().fold, question)
            change = StatusChange(status="waiting", reason="asks", question=question, wake_us=until_us)
            return Move(change=change, wake_us=until_us)
        if live.rung == "native" and not progressed and verdict.kind in ("unknown", "crashed") and exit.signal is None:
            self._lowest = "bootstrap"
        elif progressed:
            self._lowest = None
        if live.rung != "fresh" and not live.verdict_recorded and observer.recorder.owns:
            self._record_verdict(live, "progressed" if progressed else "stranded")
        identity = self._owned().identity
        if not self._stop_signals and (fallen := self._failover.decide(verdict)) is not None:
            return fallen
        policy = identity.policy
        if self._options.retries is not None:
            policy = msgspec.structs.replace(policy, retries=self._options.retries)
        move = decide(
            verdict,
            history,
            progressed=progressed,
            policy=policy,
            now_us=self._wall_us(),
            jitter=self._context.entropy.jitter(),
            name=identity.name or identity.id[:8],
        )
        return Move(change=self._stopped(exit)) if self._stop_signals else move

    def _verdict(self, live: LiveAttempt, exit: Exit) -> Verdict:
        from relight.journal.failures.classify import classify  # compiles many patterns: not at start-up

        verdict = classify(self._ending(live, exit))
        if exit.signal == signal.SIGHUP and not self._stop_signals:  # the terminal was closed, the work did not fail
            return msgspec.structs.replace(verdict, kind="killed", cure="resume", text="its terminal is gone")
        return verdict

    def _ending(self, live: LiveAttempt, exit: Exit) -> Ending:
        code = exit.code if exit.signal is None else -exit.signal
        return Ending(
            agent=live.observer.adapter.name,
            exit_code=code,
            signal=exit.signal,
            own_signal=self._stop_signals[0] if self._stop_signals else None,
            lines=tuple(live.output),
            transcript=tuple(live.written(_TAIL_LINES)),
            stdout="\n".join(live.text),
            stderr="\n".join(live.child.last_lines()),
            now_us=self._wall_us(),
            timezone=self._context.environment.get("TZ") or "UTC",
            provider=live.observer.adapter.provider,
            account=self._account(),
            least_wait_seconds=least_wait(self._context.environment),
        )

    def _end_with(self, move: Move) -> None:
        change = move.change
        if change.status == "completed":
            said = self._owned().head.said
            change = msgspec.structs.replace(change, result=said)
        self._write(change)

    def _account(self) -> str | None:
        return account_of(self._context, resolve(self._context.store, self._session).identity)

    def _wall_us(self) -> int:
        return self._context.clock.now_us()


def least_wait(environment: Mapping[str, str]) -> float:
    """The shortest wait after a usage limit; tests shorten it by RELIGHT_LEAST_WAIT."""
    asked = environment.get("RELIGHT_LEAST_WAIT", "")
    return float(asked) if asked.isdecimal() else LEAST_WAIT_SECONDS
