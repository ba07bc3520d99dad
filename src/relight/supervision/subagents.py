"""Sub-agents of a coding agent as children of its session, recorded from the agent's own files.

    found in the files -> session created -> claimed, its lines recorded -> completed, failed or interrupted

The supervisor of the parent writes them; nothing starts one by itself. A child's id is derived from the parent's and
from the agent's own id for it, so a restarted supervisor finds the same child, and what it recorded is not counted
again. After a death each child is reported to its parent once: finished, with its report; interrupted, with what it
did; never begun. That it was reported, or that the agent delivered the report itself, is the reason in the child's
status.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from relight.errors import Conflict, LeaseHeld, LeaseLost, NotFound, RelightError
from relight.history.listing import every_session
from relight.history.loading import Found
from relight.journal.conversation.subagent_reports import (
    interrupted_text,
    not_begun_text,
    note_of,
    perhaps_begun_text,
    report_of,
)
from relight.operations.retention import tombstone_of
from relight.operations.write_once import write_once
from relight.ports.agent import AgentAdapter, Heard, Line, NativeCall, NativeResult, SubAgent, SubAgents, Transcript
from relight.ports.store import Query
from relight.sessions.context import Context
from relight.sessions.opening import begin_attempt, create, lease_seconds_of, recorder_for
from relight.sessions.recorder import Recorder
from relight.supervision.observe import Changed, Observer
from relight.values.call import Outcome
from relight.values.ref import check_session_name
from relight.values.session import Identity
from relight.values.status import Failure, StatusChange
from relight.values.step import Changes
from relight.values.usage import Usage
from relight.values.view import Result

_DOMAIN: Final = "relight sub-agent 1"
_TASK: Final = 2000
REPORTED: Final = "its parent has the report"
INTERRUPTED: Final = "interrupted: the agent that began it has ended"
_ENDED: Final = ("completed", "failed")
"""by itself, with a report or an error; otherwise it is terminated with its agent"""
TOLD: Final = "interrupted: the agent that began it has ended; it was told so"


class _SubAgentSession:
    """One sub-agent's session, and the reader of its transcript."""

    def __init__(self, context: Context, recorder: Recorder, adapter: AgentAdapter) -> None:
        self._context = context
        self._recorded: Transcript | None = None
        self.recorder = recorder
        self.observer = Observer(recorder, adapter, None, context.price)
        self.files: SubAgent | None = None
        self._failure_in: Callable[[Line], str | None] = lambda _: None

    @property
    def id(self) -> str:
        """The agent's own id for it."""
        return self.recorder.identity.subagent or ""

    @property
    def call(self) -> str | None:
        """The call of the parent that began it."""
        return self.recorder.identity.key

    @property
    def status(self) -> str:
        """As it was recorded last."""
        return self.recorder.head.status

    @property
    def is_open(self) -> bool:
        """Whether its parent is still to learn how it ended."""
        return self.recorder.head.reason not in (REPORTED, TOLD)

    def is_reported(self, reports: Collection[str]) -> bool:
        """Whether it has ended by itself, is not recorded as reported, and its report is among these."""
        return self.status in _ENDED and self.is_open and (self.id in reports or self.call in reports)

    def follow(self, one: SubAgent, subagents: SubAgents) -> None:
        """Read its transcript from now on."""
        self.files = one
        self.observer.follow_with(subagents.follow(one))
        self._failure_in = subagents.failure_in
        if one.call is not None:
            self.learn_call(one.call)

    def learn_call(self, call: str) -> None:
        """The call that began it has become known."""
        if self.call is None:
            self.recorder.identity = self._context.store.update(
                self.recorder.identity.id, lambda now: msgspec.structs.replace(now, key=call)
            )

    def sync(self) -> bool:
        """Record what its transcript has more; whether there was anything."""
        transcript = self.observer.read()
        if transcript is None or transcript is self._recorded:
            return False
        if news := self.observer.compare().relation in ("ahead", "apart"):
            self.own()
            self._learn_model(transcript)
            self.observer.sync()
        # Also without news: a supervisor that was killed between the two has recorded the report, but not the end.
        if self.observer.has_ended and self.status != "completed":
            report = report_of(self.recorder.fold.format, self.recorder.fold.messages)
            self.end(StatusChange(status="completed", result=report))
        error = self._failure_in(transcript.entries[-1].line) if transcript.entries else None
        if error is not None and self.status not in _ENDED:
            self.end(StatusChange(status="failed", reason=error, failure=Failure(kind="unknown", text=error)))
        self._recorded = transcript
        return news

    def _learn_model(self, transcript: Transcript) -> None:
        model, after = transcript.model, self.recorder.head.seq
        if model is not None and model != self.recorder.identity.model:
            self.recorder.identity = self._context.store.update(
                self.recorder.identity.id, lambda now: now.with_model(model, after=after)
            )

    def own(self) -> None:
        """Claim it, unless this supervisor has it already."""
        if not self.recorder.owns:
            begin_attempt(self._context, self.recorder, seconds=lease_seconds_of(self._context.environment))
            self._context.heartbeat.add(self.recorder)

    def end(self, change: StatusChange) -> None:
        """Record how it ended, and release it."""
        self._context.heartbeat.remove(self.recorder)
        if self.recorder.owns:
            self.recorder.commit("status", Changes(status=change), release=True)
        else:
            write_once(self._context, self.recorder, "status", Changes(status=change))

    def interrupt(self) -> None:
        """Its agent has ended: so has the child, if it was not finished before."""
        if self.status in ("spawning", "working", "queued"):
            self.end(StatusChange(status="terminated", reason=INTERRUPTED))

    def settle(self) -> None:
        """Its parent knows how it ended."""
        fold, head = self.recorder.fold, self.recorder.head
        if self.status == "failed":
            self.end(StatusChange(status="failed", reason=REPORTED, failure=head.failure))
        elif self.status == "completed":
            self.end(StatusChange(status="completed", reason=REPORTED, result=fold.result))
        else:
            self.end(StatusChange(status="terminated", reason=TOLD))

    def repair(self, adapter: AgentAdapter, unknown: Callable[[], str], now_us: int) -> None:
        """Give its unfinished calls a result in its own transcript, so that it knows of them if it is continued."""
        self.observer.end_unfinished()
        transcript = self.observer.read()
        if transcript is None or self.files is None:
            return
        lines = [entry.line for entry in transcript.entries]
        results = {call.id: NativeResult(text=unknown()) for call in adapter.pending(lines)}
        if results:
            adapter.append(self.files.path, adapter.answered(results, lines, at_us=now_us), offset=transcript.offset)
            self.sync()


class SubAgentSessions:
    """The sub-agents of one session. Used under the lock of the parent's observer."""

    def __init__(self, context: Context, parent: Recorder, adapter: AgentAdapter) -> None:
        self._context, self._parent, self._adapter = context, parent, adapter
        self._children: dict[str, _SubAgentSession] = {}
        self._ignored: set[str] = set()
        """removed by a person: what they did is not recorded again"""
        self._calls: dict[str, str] = {}
        """calls that began children, by the ids of the children, from the parent's conversation"""
        self._reports: set[str] = set()
        """children, and calls that began one, whose report the parent's conversation has"""

    @property
    def usage(self) -> Usage:
        """Of all of them."""
        return sum((one.recorder.head.usage for one in self._children.values()), Usage())

    @property
    def counted(self) -> Usage:
        """What was recorded here of it."""
        return sum((one.observer.counted for one in self._children.values()), Usage())

    @property
    def unpriced(self) -> str | None:
        """A model of one of them whose price is unknown."""
        return next((one.observer.unpriced for one in self._children.values() if one.observer.unpriced), None)

    # -- recording --------------------------------------------------------------------------------------------

    def sync(self, path: Path) -> int:
        """Record what the sub-agents of this transcript have written; how many had written something."""
        subagents = self._adapter.subagents
        if subagents is None:
            return 0
        followed = {one.id for one in self._children.values() if one.files is not None and one.call is not None}
        for one in subagents.begun(path, followed | self._ignored):
            child = self._opened(one.id, one)
            if child is not None and (child.files is None or one.call is not None):
                child.follow(one, subagents)
        return sum(self._guarded(child, self._sync_one) for child in list(self._children.values()))

    def _sync_one(self, child: _SubAgentSession) -> bool:
        was_open = child.is_open
        news = child.sync()
        if child.is_open and not was_open:  # continued by its parent: the report that this one has is an earlier one
            self._reports -= {child.id, child.call}
        return news

    def _guarded(self, child: _SubAgentSession, act: Callable[[_SubAgentSession], Any]) -> bool:
        """Do this with one child. If another writer took or removed its session, it is opened again by the next sync:
        the parent continues."""
        try:
            return bool(act(child))
        except (Conflict, LeaseHeld, LeaseLost, NotFound):
            self._context.heartbeat.remove(child.recorder)
            self._children.pop(child.id, None)
            return False

    def record_hook(self, heard: Heard) -> None:
        """Record a tool call of a sub-agent in its own session: the intent is durable before the tool runs."""
        child = self._opened(heard.subagent, None)
        if child is not None:
            child.own()
            child.observer.record_hook(msgspec.structs.replace(heard, subagent="", transcript=None))

    def _opened(self, name: str, one: SubAgent | None) -> _SubAgentSession | None:
        """The child of this id, created if there is none; None if a person removed it."""
        if name in self._ignored or name in self._children:
            return self._children.get(name)
        parent = self._parent.identity
        session = sha256(f"{_DOMAIN}\n{parent.id}\n{self._adapter.name}\n{name}".encode()).hexdigest()[:32]
        record = self._context.store.find(session)
        if record is not None:
            found = Found(identity=record.identity, head=record.head, seq=None)
        elif tombstone_of(self._context, session) is not None:
            self._ignored.add(name)
            return None
        else:
            found = self._created(session, name, one)
        return self._taken(name, found)

    def _taken(self, name: str, found: Found) -> _SubAgentSession:
        child = _SubAgentSession(self._context, recorder_for(self._context, found), self._adapter)
        return self._children.setdefault(name, child)

    def _created(self, session: str, name: str, one: SubAgent | None) -> Found:
        parent = self._parent.identity
        identity = Identity(
            id=session,
            agent=self._adapter.name,
            provider=parent.provider,
            task=one.task[:_TASK] if one is not None and one.task else None,
            key=one.call if one is not None else None,
            directory=parent.directory,
            spawned_by=parent.id,
            subagent=name,
            redact=True,  # as for every conversation of a coding agent
            created_us=self._context.clock.now_us(),
        )
        try:
            full = check_session_name(f"{parent.name or parent.id[:8]}.{name}")
            return create(self._context, msgspec.structs.replace(identity, name=full))
        except RelightError:  # too long, or taken: it is found by its id
            return create(self._context, identity)

    def interrupt(self) -> None:
        """The agent has ended: so have all that were not finished."""
        self._complete_reported()
        for child in list(self._children.values()):
            self._guarded(child, _SubAgentSession.interrupt)

    def close(self) -> None:
        """Renew no lease any more."""
        for child in self._children.values():
            self._context.heartbeat.remove(child.recorder)

    # -- what the parent knows --------------------------------------------------------------------------------

    def note_reports(self, lines: Sequence[Line]) -> None:
        """Record which reports the agent itself delivered with these lines of the parent's conversation."""
        if self._adapter.subagents is not None and lines:
            self._reports |= self._adapter.subagents.reported(lines)
            self._calls |= self._adapter.subagents.spawned(lines)
        for name in self._calls.keys() & self._children.keys():
            self._children[name].learn_call(self._calls.pop(name))
        for child in list(self._children.values()):
            if child.is_reported(self._reports):
                self._guarded(child, _SubAgentSession.settle)

    def _untold(self) -> list[_SubAgentSession]:
        """Children whose end the parent is still to learn, those without files included."""
        for record in every_session(self._context.store, Query(spawned_by=self._parent.identity.id)):
            name, head = record.identity.subagent, record.head
            is_ours = name is not None and record.identity.agent == self._adapter.name
            if name is None or not is_ours or name in self._children or head is None or head.reason in (REPORTED, TOLD):
                continue
            self._taken(name, Found(identity=record.identity, head=head, seq=None))
        self._complete_reported()
        if self._adapter.subagents is not None:
            reported = self._adapter.subagents.reported(self._parent.fold.messages)
            for child in list(self._children.values()):
                # Of one that was continued the conversation may have an earlier report: better reported twice than
                # never.
                if child.is_reported(reported) and child.recorder.head.attempt == 1:
                    self._guarded(child, _SubAgentSession.settle)
        return [one for one in self._children.values() if one.is_open]

    def _outcomes(self) -> dict[str, Outcome | None]:
        """By the id of a call of the parent: how it ended, as a hook reported it."""
        fold = self._parent.fold
        outcomes = {slot.site.id: slot.outcome for slot in fold.slots()}
        return outcomes | {key: effect.outcome for key, effect in fold.hooked.items()}

    def _reports_of(self, calls: Iterable[str | None], subagents: SubAgents) -> dict[str, str]:
        """The reports that a hook or the parent's conversation has for these calls, which began a child."""
        wanted, outcomes, fold = set(calls), self._outcomes(), self._parent.fold
        found = {
            call: report
            for call, outcome in outcomes.items()
            if call in wanted and outcome is not None and outcome.status == "ok"
            if (report := subagents.report_in(outcome.content)) is not None
        }
        left = {call for call in wanted if outcomes.get(call or "") is None} & subagents.reported(fold.messages)
        for view in fold.format.read(fold.messages) if left else ():
            for block in view.blocks:
                # What relight wrote itself reports a death, or repeats what the child has recorded.
                if isinstance(block, Result) and block.call in left and block.status == "ok" and not block.synthetic:
                    found[block.call] = block.text
        return found

    def _complete_reported(self) -> None:
        """A child whose report its parent has is completed: if it was killed with its agent, the end of its own file
        may never have been written. One that was continued since then has a newer report."""
        open_ones = [
            one
            for one in self._children.values()
            if one.call is not None and one.status != "completed" and one.is_open and one.recorder.head.attempt <= 1
        ]
        if self._adapter.subagents is None or not open_ones:
            return
        reports = self._reports_of((one.call for one in open_ones), self._adapter.subagents)
        for child in open_ones:
            if child.call in reports:
                change = StatusChange(status="completed", result=reports[child.call])
                self._guarded(child, partial(_SubAgentSession.end, change=change))

    def results(self, calls: Iterable[NativeCall], changed: Changed) -> dict[str, NativeResult]:
        """What to report about those of the unfinished calls that begin a sub-agent."""
        subagents = self._adapter.subagents
        wanted = {call.id: call for call in calls if subagents is not None and call.name in subagents.tools}
        if subagents is None or not wanted:
            return {}
        untold = self._untold()
        by_call = {one.call: one for one in untold}
        # Known by a hook alone: its description was not on disk yet, so the call that began it is not known.
        nameless = [
            self._interrupted(one, subagents, changed)
            for one in untold
            if one.call is None and one.status != "completed"
        ]
        absent = NativeResult(text=perhaps_begun_text(nameless) if nameless else not_begun_text())
        reports, outcomes = self._reports_of(wanted, subagents), self._outcomes()
        results = {call: NativeResult(text=report, failed=False) for call, report in reports.items()}
        for call in wanted.keys() - reports.keys():
            child, outcome = by_call.get(call), outcomes.get(call)
            if outcome is None or outcome.status != "ok":  # otherwise it runs in the background: reported by a note
                results[call] = self._result(child, subagents, changed) if child is not None else absent
        return results

    def _result(self, child: _SubAgentSession, subagents: SubAgents, changed: Changed) -> NativeResult:
        if child.status == "completed":
            return NativeResult(text=str(child.recorder.fold.result), failed=False)
        return NativeResult(text=self._interrupted(child, subagents, changed))

    def _interrupted(self, child: _SubAgentSession, subagents: SubAgents, changed: Changed) -> str:
        fold = child.recorder.fold
        hooked = [one.intent for one in fold.hooked.values() if one.outcome is None]
        how = subagents.how_to_continue(child.id) if child.files is not None else None
        return interrupted_text(child.id, fold.format, fold.messages, hooked, changed=changed(), how_to_continue=how)

    def note(self, told: Iterable[str], changed: Changed) -> str | None:
        """A text about the others whose end the parent does not know; `told`: calls whose result reports it."""
        subagents, told = self._adapter.subagents, set(told)
        if subagents is None:
            return None
        others = [one for one in self._untold() if one.call not in told]
        finished = {one.id: str(one.recorder.fold.result) for one in others if one.status == "completed"}
        cut = [self._interrupted(one, subagents, changed) for one in others if one.status != "completed"]
        return note_of(finished, cut) if others else None

    def settle(self, unknown: Callable[[], str], now_us: int) -> None:
        """After the report to the parent: unfinished calls get a result in the child's own transcript, and each child
        is recorded as reported."""
        for child in self._untold():
            if child.status != "completed":
                self._guarded(child, lambda one: one.repair(self._adapter, unknown, now_us))
            self._guarded(child, _SubAgentSession.settle)
