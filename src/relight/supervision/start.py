"""Start of a coding agent: the same path for a first run, a resume, a restart and a fork.

    end orphans, destroy the stale terminal -> files -> hooks -> transcript, which decides the rung -> spawn

Everything a start needs is one frozen `Execution`. There are three rungs: the agent's own resume (native), a brief
written from our journal (bootstrap), and a fresh start. An agent that outlived its supervisor is reattached.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from relight.errors import RelightError, UsageError
from relight.files import diff, restore
from relight.files.capture import Files
from relight.history.loading import Found, resolve
from relight.history.rewind import rewind_view
from relight.journal.conversation import first_reply as estimating
from relight.journal.conversation.brief import brief
from relight.journal.conversation.dialogue import NEXT_PROMPT
from relight.journal.fold import Fold
from relight.journal.limits import Reached, uncounted
from relight.ports.agent import (
    AgentAdapter,
    Ask,
    Heard,
    Hooks,
    Launch,
    Line,
    NativeCall,
    OwnCost,
    Rung,
    Surroundings,
)
from relight.ports.hooks import EPOCH_VARIABLE, Held, HookListener
from relight.ports.runtime import AGENT_VARIABLE, Child
from relight.sessions.context import Context
from relight.sessions.limits import budgets_of, no_price
from relight.sessions.recorder import Recorder
from relight.supervision import hand_over
from relight.supervision.approvals import WAITS, decision_of
from relight.supervision.native_repair import Ready, make_ready
from relight.supervision.observe import Observer
from relight.supervision.subagents import SubAgentSessions
from relight.system.durable import Written
from relight.values.ending import Verdict
from relight.values.execution import Execution, Part, Started
from relight.values.info import AgentState, FirstReply, HandOver
from relight.values.session import Head, Identity
from relight.values.status import StatusChange
from relight.values.step import Changes

NATIVE_FILE: Final = "native.jsonl"
HOLD_SECONDS: Final = 15.0
"""longest time that a hook is left without a reply while its agent is ended; less than the client's timeout"""
_LINE_SECONDS: Final = 0.05
_LINE_TRIES: Final = 20
"""how often a call that has ended is looked for in the transcript, where a budget has to be counted"""
_ORPHAN_SECONDS: Final = 1.0
_LEADING: Final = frozenset({"model_begins", "tool_begins", "other"})
"""hook events that a model call may follow; none follows the end of a turn"""


class LiveAttempt:
    """State of one attempt while its agent runs."""

    def __init__(self, observer: Observer, rung: Rung, launch: Launch) -> None:
        self.observer = observer
        self.rung = rung
        self.launch = launch
        self.native: str | None = None
        self.expected: str | None = None
        """the native id it must report, if it was resumed"""
        self.output: list[Line] = []
        self.text: list[str] = []
        self.began_us = 0
        self.began_seq = 0
        self.progress_us = 0
        """the last sign of progress"""
        self.imposed: Verdict | None = None
        """the verdict we decided on when we killed it"""
        self.halted: Reached | str | None = None
        """why it is halted: a limit, or the tool call that it repeats"""
        self.is_quiet = False
        """whether it is stopped because its quiet hours have begun"""
        self.is_stopped = False
        """whether it was asked to end because it is halted"""
        self.is_asking = False
        """whether a call of it is held because a person has to allow it; it is ended for that"""
        self.held: list[NativeCall] = []
        """that call and those held beside it"""
        self.beginning = threading.Lock()
        """held while it is decided and recorded whether a call may begin, and while the agent is ended for a question:
        else a call could begin in between, and be cut off"""
        self.own_cost: OwnCost | None = None
        """the cost that the agent itself reported"""
        self.over = threading.Event()
        """set when its process has ended"""
        self.verdict_recorded = False
        """whether the verdict on the resume is recorded"""
        self.prompt: str | None = None
        """the prompt it was started with, redacted"""
        self.replied_before = observer.replies
        """replies of earlier attempts that were recorded during this start"""
        self.hook_native: str | None = None
        """the native id that a hook event reported"""
        self._before = observer.transcript
        """the transcript when this attempt began"""
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        """The agent's process; only after `begin`."""
        if self._child is None:
            raise AssertionError("it has not been started")
        return self._child

    def begin(self, child: Child, now_us: int) -> None:
        """The agent's process was started, or reattached, at this instant."""
        self._child = child
        self.began_us = self.progress_us = now_us
        self.began_seq = self.observer.recorder.head.seq

    def written(self, limit: int) -> list[Line]:
        """The last transcript lines of this attempt; those of earlier attempts say nothing about how this one ended."""
        now, before = self.observer.transcript, self._before
        if now is None:
            return []
        known = len(before.entries) if before is not None and before.path == now.path else 0
        return [entry.line for entry in now.entries[known:][-limit:]]

    def running(self) -> list[str]:
        """Calls of this attempt that were reported to begin, and not to end."""
        return [one.id for one in self.observer.recorder.head.open if one.intent_seq > self.began_seq]

    def end(self) -> None:
        """Kill the agent if it runs."""
        if self._child is not None:
            self._child.signal(signal.SIGKILL)

    @property
    def has_replied(self) -> bool:
        """Whether the model replied in this attempt."""
        return self.observer.replies > self.replied_before


class Start:
    """One start. `part` names the phase in progress, for the error message if it fails."""

    def __init__(
        self,
        context: Context,
        recorder: Recorder,
        execution: Execution,
        marks: Mapping[str, str],
        on_question: Callable[[str], None],
    ) -> None:
        """`marks`: variables that identify the process; `on_question`: called when a tool call waits for approval."""
        self._context = context
        self._recorder = recorder
        self._execution = execution
        self._marks = marks
        self._on_question = on_question
        self._runtime = context.runtime(recorder.identity)
        self._files: Files | None = None
        self._subagents: SubAgentSessions | None = None
        self._listening: HookListener | None = None
        self._life: LiveAttempt | None = None
        self._before: Head | None = None
        """before the conversation was replaced by a converted one"""
        self._written: Written | None = None
        """the native session that was written for that"""
        self.adapter = context.agent(recorder.identity)
        self.surroundings = surroundings_of(context, recorder.identity)
        self.part: Part = "runtime"
        self.started: Started | None = None
        waiting = recorder.fold.answers.get(NEXT_PROMPT)
        self._says_waiting = execution.prompt is not None and recorder.recording.about(execution.prompt) == waiting
        """whether the prompt to send is the one that waits in the journal"""
        self.is_reattached = False
        """whether the agent was running already"""

    def begin(self, rung: Rung | None) -> LiveAttempt:
        """Do all phases. `rung`: start there, because a higher one failed; None: the highest possible one."""
        source = self._foreign_conversation()
        living = self._living_child() if source is None else None
        orphans = self._clear_terminal() if living is None else ()
        self.part = "files"
        self._files = self._opened_files()
        if source is not None:
            source = self._complete(source)
        observer = self._observer(self.adapter)
        # Until the agent runs, everything in the transcript was written by earlier attempts: a prompt recorded with
        # this attempt's claim must not count as delivered by it.
        observer.attempt -= 1
        observer.baseline()
        self.part = "hooks"
        hooks = self._open_hooks(observer)
        self.part = "transcript"
        if living is not None or rung is None:
            self._catch_up(observer, lives=living is not None)
        if living is not None:
            self._life = self._reattached(living, observer)
        else:
            self._life = self._prepare_launch(observer, hooks, rung, source)
            self.part = "start"
            self._spawn(self._life, orphans)
        return self._life

    def abandon(self) -> None:
        """Undo a failed start: kill the agent if it runs, and close everything."""
        if self._life is not None:
            self._life.end()
        self.close()

    def restore_conversation(self) -> None:
        """After a failed start: the conversation as it was before it was converted for this agent. The native session
        that was written for it is removed, unless it is another by now."""
        if self._before is not None:
            found = resolve(self._context.store, f"{self._execution.session}@{self._before.seq}")
            view, _ = rewind_view(self._context, found)
            note = {"handed_back": f"{self.adapter.name} could not be started"}
            self._recorder.commit("rewind", Changes(note=note, native=self._before.native), view=view)
            if self._written is not None:
                self._written.remove()

    def close(self) -> None:
        """Close the hook channel and the workspaces."""
        if self._listening is not None:
            self._listening.close()
        if self._files is not None:
            self._files.close()
        if self._subagents is not None:
            self._subagents.close()

    def _observer(self, adapter: AgentAdapter) -> Observer:
        """Of this agent's conversation and of its sub-agents."""
        observer = Observer(self._recorder, adapter, self._files, self._context.price)
        self._subagents = observer.subagents = SubAgentSessions(self._context, self._recorder, adapter)
        return observer

    # -- the terminal -----------------------------------------------------------------------------------------

    def _living_child(self) -> Child | None:
        """An agent that outlived its supervisor, in a terminal that outlives both."""
        known = self._runtime.persistent and self._execution.had_handle
        return self._runtime.reattach(self._execution.handle) if known else None

    def _clear_terminal(self) -> tuple[int, ...]:
        """End orphans of a dead attempt, and remove its terminal; a failure to remove is only reported."""
        orphans = tuple(self._runtime.orphans(self._execution.session))
        self._runtime.end(orphans, seconds=_ORPHAN_SECONDS)
        if self._execution.had_handle:
            try:
                self._runtime.destroy(self._execution.handle)
            except RelightError as error:
                self._context.notify(f"the old terminal {self._execution.handle} could not be removed: {error}")
        return orphans

    # -- files ------------------------------------------------------------------------------------------------

    def _changed_files(self) -> list[str] | None:
        """Files that changed since before the first unfinished tool call began: evidence about interrupted calls. None
        if nothing was captured before it."""
        found = resolve(self._context.store, self._execution.session)
        head = found.whole_head()
        if not found.identity.workspace:
            return None
        opened = [effect.intent_seq for effect in head.open]
        before = msgspec.structs.replace(found, seq=min(opened) - 1 if opened else head.head)
        try:
            return [one.path for one in diff.diff(self._context, before, None)]
        except RelightError:
            return None

    def _opened_files(self) -> Files | None:
        found = resolve(self._context.store, self._execution.session)
        if not found.identity.workspace:
            return None
        rows = restore.rows_of(self._context, found)
        return Files(self._context, found.identity, restore.snapshots_at(rows, found.whole_head().head))

    # -- hooks ------------------------------------------------------------------------------------------------

    def _open_hooks(self, observer: Observer) -> Hooks | None:
        """Open the hook channel if the agent supports it."""
        covered = budgets_of(self._context, observer.recorder.identity).covering(self._execution.policy)
        approve, able = self._execution.policy.approve, self.adapter.capabilities
        gate = covered.counts_usage and able.gate
        if not able.hooks and not gate and not (approve and able.approvals):
            return None
        directory, channel = self._context.run_directory(self._execution.session), self._context.hooks
        self._listening = channel.listen(directory, lambda payload: self._answer(observer, payload))
        file = directory / "settings.json"
        deny = denial(self.adapter) if approve else ""
        return Hooks(command=channel.command, file=file, approve=approve, deny=deny, gate=gate)

    def _answer(self, observer: Observer, payload: Mapping[str, Any]) -> Mapping[str, Any] | Held | None:
        heard = self.adapter.hears(payload, self.surroundings)
        if heard is None:
            return None
        if self._life is not None:
            self._life.progress_us = self._context.clock.instant().us
            self._life.hook_native = heard.native_id or self._life.hook_native
            if heard.kind in _LEADING and _stop_at_limit(self._context, observer, self._life, heard):
                return None
            with self._life.beginning:
                reply = self._decided(observer, heard, self._life)
            if heard.kind == "tool_ended" and not heard.subagent and self.adapter.capabilities.gate:
                # The reply that asked for the call may not have been in the transcript when the call began. It is
                # recorded now, before the model is asked for the next one.
                _stop_at_limit(self._context, observer, self._life, heard)
            return reply
        return self._decided(observer, heard, None)

    def _decided(self, observer: Observer, heard: Heard, live: LiveAttempt | None) -> Mapping[str, Any] | Held | None:
        """Record an event and reply to it. A call that a person has to allow waits; then no other begins."""
        if heard.kind == "tool_begins" and live is not None and live.is_asking:
            return self._held(live, heard, "a call beside it waits for a person; ask for it again")
        observer.catch_up(heard)
        able, now_us = self.adapter.capabilities, self._context.clock.now_us()
        decision = decision_of(observer.recorder, heard, now_us=now_us, nests=able.nests)
        if decision is not None and decision[0] == "wait":
            self._on_question(decision[1])
            if not able.defers and live is not None:
                live.is_asking = True
                return self._held(live, heard, WAITS)
        if decision is None or decision[0] == "allow":
            observer.record_hook(heard)
        return self.adapter.decides(heard, *decision) if decision is not None else None

    def _held(self, live: LiveAttempt, heard: Heard, why: str) -> Held:
        """No reply before the agent has ended: the supervisor ends it as soon as the calls beside this one are over."""
        live.held.append(NativeCall(id=heard.call, name=heard.tool, arguments=heard.arguments))
        return Held(live.over, self.adapter.decides(heard, "wait", why))

    # -- the prompt -------------------------------------------------------------------------------------------

    def _catch_up(self, observer: Observer, *, lives: bool) -> None:
        """Record what earlier attempts wrote into the transcript, then decide whether the prompt must still be sent.

        A living agent that was started with the prompt has it, even if its transcript does not show that yet.
        """
        native = self._recorder.head.native
        path = self.adapter.locate(native, self.surroundings) if native is not None else None
        if path is not None:
            observer.follow(path)
            observer.sync()
        fold = self._recorder.fold
        is_delivered = fold.answers.get(NEXT_PROMPT) is None or (lives and fold.prompt_given > 0)
        if self._says_waiting and is_delivered:
            self._execution = msgspec.structs.replace(self._execution, prompt=None)

    # -- the rung ---------------------------------------------------------------------------------------------

    def _foreign_conversation(self) -> hand_over.Source | None:
        """The conversation, if another agent or a program had it."""
        found = resolve(self._context.store, self._execution.session)
        return hand_over.source_of(self._context, found, self._recorder.fold, self.adapter)

    def _complete(self, source: hand_over.Source) -> hand_over.Source:
        """The conversation with what its agent wrote into its transcript before it died, unrecorded."""
        native = self._recorder.head.native
        path = source.adapter.locate(native, self.surroundings) if source.adapter is not None and native else None
        if source.adapter is None or path is None:
            return source
        former = self._observer(source.adapter)
        former.attempt -= 1
        former.follow(path)
        former.sync()
        return self._foreign_conversation() or source

    def _prepare_launch(
        self, observer: Observer, hooks: Hooks | None, lowest: Rung | None, source: hand_over.Source | None
    ) -> LiveAttempt:
        """Choose the rung and build the launch."""
        execution, fold = self._execution, observer.recorder.fold
        ready: Ready | None = None
        if lowest is None and source is not None:
            self._before = self._recorder.head
            ready = hand_over.take_over(
                observer,
                source,
                self.surroundings,
                changed=self._changed_files,
                task=execution.task,
                now_us=self._context.clock.now_us(),
                subagents=SubAgentSessions(self._context, self._recorder, source.adapter) if source.adapter else None,
            )
            self._before = self._before if ready is not None else None
            self._written = Written.at(ready.path) if ready is not None else None
        elif lowest is None:
            aside = self._context.run_directory(execution.session) / "native"
            ready = make_ready(
                observer,
                self.surroundings,
                aside=aside,
                changed=self._changed_files,
                task=execution.task,
                now_us=self._context.clock.now_us(),
            )
        rung: Rung
        prompt = execution.prompt
        native = self.adapter.new_id() if ready is None else ready.native
        if ready is not None:
            rung = "native"
        elif (fold.messages or fold.hooked) and lowest != "fresh":
            rung, prompt = "bootstrap", self._brief(observer)
        else:
            rung, native = "fresh", self.adapter.native_id_of(execution.command) or native
            if self.adapter.task_of(execution.command) is None:
                prompt = prompt or execution.task  # handed over before anything was said
        ask = Ask(
            command=execution.command,
            surroundings=self.surroundings,
            rung=rung,
            native_id=native if rung == "native" or self.adapter.capabilities.chosen_id else None,
            prompt=prompt,
            unfinished=ready is not None and observer.is_mid_turn,
            deferred=ready is not None and ready.deferred,
            hooks=hooks,
        )
        live = LiveAttempt(observer, rung, self.adapter.launch(ask))
        live.native, live.expected = ask.native_id, ask.native_id
        return live

    def _brief(self, observer: Observer) -> str:
        fold = observer.recorder.fold
        return brief(
            task=self._execution.task,
            messages=fold.messages,
            format=fold.format,
            doubtful=[call for call in fold.calls(doubtful=True) if call.in_doubt],
            files=self._changed_files() or [],
            prompt=self._execution.prompt,
            subagents=self._subagents.note((), self._changed_files) if self._subagents is not None else None,
        )

    # -- the process ------------------------------------------------------------------------------------------

    def _spawn(self, live: LiveAttempt, orphans: tuple[int, ...]) -> None:
        execution, recorder = self._execution, self._recorder
        for path, content in live.launch.files.items():
            self._context.write_private(path, content)
        environment = {
            **recorder.identity.env,
            **self._marks,
            AGENT_VARIABLE: execution.agent,
            EPOCH_VARIABLE: str(recorder.epoch),
            **(self._listening.environment if self._listening is not None else {}),
            **live.launch.environment,
        }
        live.observer.attempt = recorder.head.attempt
        child = self._runtime.spawn(
            live.launch.command,
            directory=execution.directory,
            environment=environment,
            handle=recorder.head.handle or "",
            log=self._context.run_directory(execution.session) / "output.log" if live.launch.headless else None,
            capture=live.launch.headless,
        )
        live.begin(child, self._context.clock.instant().us)
        # After a native resume the initial prompt is in the agent's own transcript already.
        sent = live.rung == "fresh" and live.launch.prompt_sent
        self._record_start(live, "started", prompt_sent=sent, orphans=orphans)

    def _reattached(self, child: Child, observer: Observer) -> LiveAttempt:
        """Observe an agent that is running already; its hooks find the new socket at the path of the old one."""
        self.is_reattached = True
        execution = self._execution
        live = LiveAttempt(observer, "native", Launch(command=execution.command, headless=False))
        live.begin(child, self._context.clock.instant().us)
        live.native = live.expected = execution.native
        path = self.adapter.locate(execution.native, self.surroundings) if execution.native is not None else None
        if path is not None:
            observer.follow(path)
        observer.attempt = self._recorder.head.attempt
        if execution.prompt is not None:
            self._runtime.deliver(execution.handle, execution.prompt)
        self._record_start(live, "taken_up", prompt_sent=False, orphans=())
        return live

    def _record_start(self, live: LiveAttempt, how: str, *, prompt_sent: bool, orphans: tuple[int, ...]) -> None:
        """Record the start in the journal, and in `started`. A prompt stays pending until it is seen delivered."""
        child = live.child
        self.started = Started(
            session=self._execution.session,
            command=live.launch.command,
            handle=child.handle,
            rung=live.rung,
            prompt_sent=prompt_sent,
            pid=child.pid,
            orphans=orphans,
        )
        note = {how: {"rung": live.rung, "pid": child.pid, "handle": child.handle, "prompt_sent": prompt_sent}}
        if self._execution.prompt is not None:
            live.prompt = self._recorder.recording.about(self._execution.prompt)
        recorded = self._recorder.fold.answers.get(NEXT_PROMPT) == live.prompt  # by the claim
        pending = [NEXT_PROMPT, live.prompt] if live.prompt is not None and not recorded else []
        working = StatusChange(status="working")
        self._recorder.commit("status", Changes(status=working, native=live.native, note=note, answer=pending))


def denial(adapter: AgentAdapter) -> str:
    """The hook's reply, as JSON, to a call that needs approval but cannot be recorded."""
    reason = "relight could not record this call, so it could not be approved; it was not run"
    answer = adapter.decides(Heard(kind="tool_begins"), "deny", reason)
    return json.dumps(dict(answer)) if answer is not None else ""


def native_file(context: Context, found: Found) -> dict[str, str]:
    """The agent's own transcript as a bundle attachment, if it is on this machine."""
    adapter, native = context.agent(found.identity), found.whole_head().native
    surroundings = surroundings_of(context, found.identity)
    path = adapter.locate(native, surroundings) if native is not None else None
    return {NATIVE_FILE: str(path)} if path is not None else {}


def surroundings_of(context: Context, identity: Identity) -> Surroundings:
    """The directory and environment that a session's agent will have."""
    environment = {**context.environment, **identity.env, **context.runtime(identity).environment()}
    return Surroundings(directory=identity.directory or "", environment=environment)


def foresee(context: Context, found: Found, *, has_history: bool, handed: HandOver | None = None) -> AgentState | None:
    """How a start of this coding agent would begin, without changing anything; None for other programs. `handed`: what
    it is given of another agent's conversation."""
    adapter, head = context.agent(found.identity), found.whole_head()
    if not adapter.capabilities.transcript:
        return None
    state = partial(AgentState, agent=adapter.name, cannot=adapter.capabilities.cannot)
    if handed is not None:
        is_brief = bool(handed.faults) or not adapter.capabilities.native_resume
        return state(rung="bootstrap" if is_brief else "native", written=not is_brief)
    runtime = context.runtime(found.identity)
    if runtime.persistent and head.handle is not None:
        probe = runtime.probe(head.handle)
        if probe.liveness == "alive":
            return state(rung="native", living=probe.pid)
    surroundings = surroundings_of(context, found.identity)
    there = head.native is not None and adapter.locate(head.native, surroundings) is not None
    if not has_history and not there:
        return state(rung="fresh")
    if not adapter.capabilities.native_resume:
        return state(rung="bootstrap")
    return state(rung="native", written=not there)


def first_reply(context: Context, identity: Identity, fold: Fold) -> FirstReply | None:
    """An estimate of the tokens and cost of the first reply after a resume."""
    given = context.environment.get("RELIGHT_CACHE_MINUTES", "")
    try:
        minutes = float(given) if given else estimating.CACHE_MINUTES
    except ValueError:
        raise UsageError(f"RELIGHT_CACHE_MINUTES must be a number of minutes, not {given[:50]!r}") from None
    now_us = context.clock.now_us()
    return estimating.first_reply(fold, provider=identity.provider, now_us=now_us, cache_minutes=minutes)


def limit_of(context: Context, observer: Observer) -> Reached | None:
    """The budget or token limit that an agent has reached according to its transcript and those of its sub-agents; or
    None."""
    recorder, subagents = observer.recorder, observer.subagents
    unpriced = observer.unpriced or (subagents.unpriced if subagents is not None else None)
    budgets, policy = budgets_of(context, recorder.identity), recorder.identity.policy
    if unpriced is not None and (covered := budgets.covering(policy)).budget is not None:
        return uncounted(covered, no_price(unpriced))
    return budgets.spent(policy, recorder.head)


def _stop_at_limit(context: Context, observer: Observer, live: LiveAttempt, heard: Heard) -> bool:
    """Before a tool or model call: whether a limit is reached. If so, blocks the hook until the agent was ended.

    The reply that reached the limit is recorded; a tool call in it does not begin."""
    identity = observer.recorder.identity
    if not budgets_of(context, identity).covering(identity.policy).counts_usage:
        return False
    observer.catch_up(heard)
    for _ in range(_LINE_TRIES if heard.kind == "tool_ended" else 0):
        if observer.has_call(heard.call) or live.over.wait(_LINE_SECONDS):
            break
        observer.catch_up(heard)
    limit = limit_of(context, observer)
    if limit is None:
        return False
    live.halted = live.halted or limit
    live.over.wait(HOLD_SECONDS)
    return True
