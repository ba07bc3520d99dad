"""Observer: records a coding agent's transcript and hook events as journal steps while the agent runs.

The supervisor owns the session and is the only writer. A hook reports a tool call before it runs (the intent is durable
before the agent continues) and after it (the result is durable before the model reads it). What is reported twice, by
hook and transcript, has the same id and is recorded once. Everything is redacted when it is committed
(sessions/redacting_store.py), the conversation included.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from relight.errors import Conflict
from relight.files.capture import Files, commit_with_files
from relight.journal.conversation import transcript_diff
from relight.journal.conversation.dialogue import NEXT_PROMPT
from relight.journal.conversation.prompt_delivery import delivers
from relight.journal.formats.registry import detect
from relight.journal.prices import Price
from relight.ports.agent import (
    AgentAdapter,
    Entry,
    Follower,
    Heard,
    Line,
    NativeCall,
    NativeResult,
    OwnCost,
    Transcript,
)
from relight.sessions.recorder import Recorder
from relight.sessions.reset import reset_to
from relight.values.call import Intent, Outcome
from relight.values.checkpoint import Checkpoint
from relight.values.step import Changes, StepKind, View
from relight.values.usage import Usage

Pricing = Callable[[str | None], Price | None]
Changed = Callable[[], Sequence[str] | None]
"""which files changed since before the interrupted calls; None: not known"""
_LEAST_COST: Final = 1e-6
"""smaller differences between our cost and the agent's are ignored"""
_RECENT_LINES: Final = 50
"""among how many lines a call is looked for that has just ended"""
_MAX_REFRESHES: Final = 20
"""each follows a commit of another process: together they make progress"""
SIDECHAIN: Final = "subagent:"
"""prefix of the tool name of a sub-agent's call in journals of 0.1.0, which recorded it in its parent"""


class SubAgentRecords(Protocol):
    """The records of an agent's sub-agents: `SubAgentSessions` (subagents.py), which observes each of them too."""

    @property
    def usage(self) -> Usage: ...

    @property
    def counted(self) -> Usage: ...

    @property
    def unpriced(self) -> str | None: ...

    def sync(self, path: Path) -> int: ...

    def record_hook(self, heard: Heard) -> None: ...

    def note_reports(self, lines: Sequence[Line]) -> None: ...

    def results(self, calls: Iterable[NativeCall], changed: Changed) -> dict[str, NativeResult]: ...

    def note(self, told: Iterable[str], changed: Changed) -> str | None: ...

    def settle(self, unknown: Callable[[], str], now_us: int) -> None: ...

    def interrupt(self) -> None: ...


class Observer:
    """Records one attempt of one agent. Thread-safe: hooks arrive on their own threads."""

    def __init__(self, recorder: Recorder, adapter: AgentAdapter, files: Files | None, price: Pricing) -> None:
        self.recorder = recorder
        self.adapter = adapter
        self._price = price
        self._files = files
        self._lock = threading.RLock()
        self._follower: Follower | None = None
        self._path: Path | None = None
        self.subagents: SubAgentRecords | None = None
        """its sub-agents, for the observer of a supervisor"""
        self._read: tuple[Entry, ...] = ()
        self._keys: list[str] = []
        self._fold = recorder.fold
        self._known = [adapter.key(line) for line in recorder.fold.messages]
        """keys of the lines of `_fold`"""
        self.attempt = recorder.head.attempt
        """the newest attempt that can have written the transcript"""
        self.transcript: Transcript | None = None
        """as last read"""
        self.progress = 0
        """number of commits of new content in this attempt"""
        self.replies = 0
        """number of the model's lines among it"""
        self.counted = Usage()
        """usage recorded in this attempt"""
        self.unpriced: str | None = None
        """a model whose tokens were counted but whose price is unknown"""
        self.has_lost_history = False
        """whether the agent continued without the conversation that it was handed over"""
        self._handed: list[str] = []
        """keys of that conversation, until the agent has replied to it"""

    # -- the transcript ---------------------------------------------------------------------------------------

    @property
    def follows(self) -> bool:
        """Whether the transcript's path is known."""
        return self._follower is not None

    def follow(self, path: Path) -> None:
        """Read the transcript at this path from here on."""
        with self._lock:
            self._follower, self._path = self.adapter.follow(path), path

    def follow_with(self, follower: Follower) -> None:
        """Read the transcript with this reader from here on."""
        with self._lock:
            self._follower = follower

    def read(self) -> Transcript | None:
        """The present transcript; the same object if nothing changed. None: its path is not known. Records nothing."""
        with self._lock:
            self._read_transcript()
            return self.transcript

    def end_unfinished(self) -> None:
        """End what a dead agent left unfinished in its transcript, so that every call that may have begun is read: the
        call behind an unfinished text is no line yet. Records nothing."""
        transcript = self.read()
        if transcript is not None:
            self.adapter.append(transcript.path, (), offset=transcript.offset)

    def compare(self) -> transcript_diff.TranscriptMatch:
        """Read the transcript and compare it with the journal. Records nothing."""
        with self._lock:
            self._read_transcript()
            if self.recorder.fold is not self._fold:  # loaded again, with steps that another process wrote
                self._fold = self.recorder.fold
                self._known = [self.adapter.key(line) for line in self._fold.messages]
            return transcript_diff.compare(self._known, self._keys)

    def sync(self, *, replace: bool = True) -> bool:
        """Record what the transcript has beyond the journal; whether there was anything.

        `replace`: a transcript that differs from the journal replaces the conversation; otherwise it is ignored.
        """
        with self._lock:
            if self.subagents is not None and self._path is not None:
                self.progress += self.subagents.sync(self._path)
            for _ in range(_MAX_REFRESHES):
                try:
                    return self._sync(replace=replace)
                # A hook that no supervisor answered records the transcript itself, under the lease of the supervisor:
                # several at once, or beside a supervisor that was only slow. What the others recorded is not recorded
                # again.
                except Conflict:
                    self.recorder.refresh()
            return self._sync(replace=replace)

    def _sync(self, *, replace: bool) -> bool:
        compared = self.compare()
        lines, is_recorded = [entry.line for entry in self._read[compared.common :]], True
        if compared.relation == "ahead":
            self._append(compared.common)
        elif compared.relation == "apart" and replace and not self._has_left_history():
            self._replace()
        else:
            lines, is_recorded = [], False
        if self.subagents is not None:
            self.subagents.note_reports(lines)
        return is_recorded

    def _read_transcript(self) -> None:
        if self._follower is None:
            return
        transcript = self._follower.read()
        if self.transcript is not None and transcript.entries is self._read:
            return
        entries = transcript.entries
        same = 0
        for before, now in zip(self._read, entries, strict=False):
            if before is not now and before != now:
                break
            same += 1
        self._keys[same:] = [entry.key for entry in entries[same:]]
        self._read, self.transcript = entries, transcript

    @property
    def is_mid_turn(self) -> bool:
        """Whether the transcript ends within a turn: the model is still to reply."""
        last = self._last_said()
        return last is not None and not last.ends_turn

    @property
    def has_ended(self) -> bool:
        """Whether the transcript ends with the end of a turn."""
        last = self._last_said()
        return last is not None and last.ends_turn

    def _last_said(self) -> Entry | None:
        read = self.recorder.fold.format.read
        for entry in reversed(self._read):
            if entry.ends_turn or any(one.role in ("user", "assistant", "tool") for one in read([entry.line])):
                return entry
        return None

    def _append(self, since: int) -> None:
        entries = self._read[since:]
        lines = [entry.line for entry in entries]
        delivered = self._delivered_prompt(lines)
        changes = Changes(
            messages=lines, usage=self._usage_of(entries), intents=self._unhooked(lines), answer=delivered
        )
        asked = any(entry.ends_turn for entry in entries)
        self._commit("message", changes, is_reply=True, asked=asked, if_newest=True)
        self.counted += changes.usage or Usage()
        self._known += self._keys[since:]
        self.replies += self._spoken(lines)
        self._handed = [] if self.replies else self._handed
        self.progress += 1

    def _replace(self) -> None:
        """Record that the agent rewrote its conversation (compaction, rewind), as a reset."""
        recorder, lines = self.recorder, [entry.line for entry in self._read]
        known = set(self._known)
        usage = self._usage_of([entry for entry in self._read if entry.key not in known])
        with recorder.lock:
            changes, view = reset_to(recorder, lines)
            delivered = self._delivered_prompt([entry.line for entry in self._read if entry.key not in known])
            changes = msgspec.structs.replace(changes, usage=usage, answer=delivered)
            self._commit("reset", changes, view=view, if_newest=True)
        self.counted += usage or Usage()
        before, self._known = set(self._known), list(self._keys)
        fresh = zip(self._known, lines, strict=True)
        self.replies += self._spoken([line for key, line in fresh if key not in before])
        self.progress += 1

    def begin_with(self, note: Mapping[str, Any], *, native: str) -> None:
        """Record the followed transcript, which was written from another agent's conversation, in its place. All its
        calls have results, and its tokens were counted when they were used."""
        with self._lock, self.recorder.lock:
            self._read_transcript()
            lines = [entry.line for entry in self._read]
            changes, view = reset_to(self.recorder, lines)
            answered = {site.id for line in lines for site in detect(lines[:1]).calls(line)}
            carried = changes.carried
            assert carried is not None
            kept = msgspec.structs.replace(carried, open=[one for one in carried.open if one.id not in answered])
            changes = msgspec.structs.replace(changes, carried=kept, note=dict(note), native=native)
            self._commit("reset", changes, view=view)
            self._known, self._handed = list(self._keys), list(self._keys)

    def _has_left_history(self) -> bool:
        """Whether the transcript does not begin with the conversation that was handed over, and the agent did not
        compact it."""
        dialect = self.adapter.dialect
        if self._handed and self._keys[: len(self._handed)] != self._handed and dialect is not None:
            # Without anything of its own it is still reading it: opencode imports message by message.
            if set(self._keys) <= set(self._handed):
                return True
            self.has_lost_history = not any(dialect.is_compaction(entry.line) for entry in self._read)
        return self.has_lost_history

    def _delivered_prompt(self, lines: Sequence[Line]) -> list[Any]:
        """The change that marks the pending prompt as delivered, if these lines contain it; else none."""
        # It is part of the commit that records the lines. As a commit of its own it could be lost if the supervisor
        # died between the two, and the prompt would be sent twice.
        recorder = self.recorder
        is_told = delivers(recorder.fold, lines, upto=self.attempt, redact=recorder.recording.about)
        return [NEXT_PROMPT, None] if is_told else []

    def _spoken(self, lines: Sequence[Line]) -> int:
        return sum(map(self.recorder.fold.format.is_assistant, lines))

    def _unhooked(self, lines: Sequence[Line]) -> list[Intent]:
        """Intents for calls in the transcript that no hook reports."""
        able = self.adapter.capabilities
        # With approvals no call that its hooks report can begin without them.
        hooked = (able.hooks and not able.hooks_may_be_off) or bool(self.recorder.identity.policy.approve)
        calls = [call for call in self.adapter.pending(lines) if not (hooked and able.reports(call.name))]
        # Nothing else reports that such a call begins, so each one in the transcript may have begun.
        return [self._intent(call.id, call.name, call.arguments) for call in calls]

    def catch_up(self, heard: Heard) -> None:
        """Record the transcript up to a hook event, before it is decided whether the call may begin."""
        with self._lock:
            if heard.transcript is not None and self._follower is None:
                self.follow(heard.transcript)
            self.sync()

    def has_call(self, call: str) -> bool:
        """Whether the reply that asked for this call is recorded, among the last lines."""
        with self._lock:
            fold = self.recorder.fold
            return any(site.id == call for line in fold.messages[-_RECENT_LINES:] for site in fold.format.calls(line))

    # -- hooks ------------------------------------------------------------------------------------------------

    def record_hook(self, heard: Heard) -> None:
        """Record a hook event: the intent or the outcome of a tool call, or the end of a turn."""
        with self._lock:
            self.catch_up(heard)
            if heard.subagent and self.subagents is not None:
                self.subagents.record_hook(heard)
                if heard.kind == "tool_ended" and self._files is not None:
                    note = {"subagent": {"id": heard.subagent, "tool": heard.tool}}
                    self._commit("mark", Changes(note=note), is_reply=True)
            elif heard.kind == "tool_begins":
                intent = self._intent(heard.call, heard.tool, heard.arguments)
                self._commit("intent", Changes(intents=[intent]))
            elif heard.kind == "tool_ended":
                self._commit("result", Changes(outcomes=[self._outcome(heard)]), is_reply=True)
            elif heard.kind == "turn_ended":
                self._commit("mark", Changes(note={"turn": "ended"}), asked=True)
            self.progress += 1

    def take_back(self, begun: Sequence[str], held: Sequence[NativeCall], *, now_us: int) -> None:
        """Record that calls which were about to begin have not: their agent was ended before. Those that it had not
        written down are written into its transcript as pending calls, so that the model is told what became of them."""
        with self._lock:
            hooked = [one.intent for one in self.recorder.fold.hooked.values() if one.intent.id in begun]
            calls = [*(NativeCall(id=one.id, name=one.name, arguments=one.arguments) for one in hooked), *held]
            lines, added = [entry.line for entry in self._read], list[Line]()
            for call in {call.id: call for call in calls if not self.has_call(call.id)}.values():  # equal ones are one
                added.append(self.adapter.asked(call, [*lines, *added], at_us=now_us))
            if added and self._path is not None and self.transcript is not None:
                self.adapter.append(self._path, added, offset=self.transcript.offset)
                self.sync()
            if begun:
                outcomes = [Outcome(id=call, status="void", content=None) for call in begun]
                self._commit("result", Changes(outcomes=outcomes))

    def _intent(self, call: str, tool: str, arguments: Any) -> Intent:
        effect = self.adapter.effect_of(tool, arguments)
        return Intent(id=call, name=tool, effect=effect, hooked=True, arguments=arguments)

    def _outcome(self, heard: Heard) -> Outcome:
        return Outcome(id=heard.call, status="error" if heard.failed else "ok", content=heard.result)

    # -- files ------------------------------------------------------------------------------------------------

    def baseline(self) -> None:
        """Capture the files before the agent begins, if no step has them: evidence for interrupted calls."""
        with self._lock:
            if self._files is not None and self._files.baseline():
                self._commit("mark", Changes(note={"files": "captured before it began"}))

    # -- committing -------------------------------------------------------------------------------------------

    def mark(self, note: Mapping[str, Any], *, native: str | None = None, used: Sequence[str] = ()) -> None:
        """Commit a note, and optionally the native session id from here on, and decisions that were used. Captures no
        files."""
        with self._lock:
            self.recorder.commit("mark", Changes(note=dict(note), native=native, used=used))

    def _commit(
        self,
        kind: StepKind,
        changes: Changes,
        *,
        is_reply: bool = False,
        asked: bool = False,
        view: View | None = None,
        if_newest: bool = False,
    ) -> Checkpoint:
        how: dict[str, Any] = {"is_reply": is_reply, "asked": asked, "view": view, "if_newest": if_newest}
        return commit_with_files(self._files, self.recorder, kind, changes, **how)

    # -- usage and cost ---------------------------------------------------------------------------------------

    @property
    def tree_usage(self) -> Usage:
        """Of the session and of its sub-agents."""
        own = self.recorder.head.usage
        return own + self.subagents.usage if self.subagents is not None else own

    def _usage_of(self, entries: Sequence[Entry]) -> Usage | None:
        """The sum of the tokens in these entries, each priced by its own model."""
        total: Usage | None = None
        for entry in entries:
            if entry.usage is not None:
                priced = self._priced(entry.usage, entry)
                total = priced if total is None else total + priced
        return total

    def _priced(self, usage: Usage, entry: Entry) -> Usage:
        if usage.cost is not None or not usage.tokens:
            return usage
        price = self._price(entry.model)
        if price is None:
            self.unpriced = entry.model or "a model that it does not name"
            return usage
        return msgspec.structs.replace(usage, cost=price.cost(usage, kept_long=entry.kept_long))

    def apply_reported_cost(self, figure: OwnCost) -> None:
        """Correct the recorded cost to the agent's own figure, which includes helpers and side requests."""
        with self._lock:
            # The figure is of the whole session, or of this process alone: then it has fewer tokens than we counted.
            whole, counted = self.tree_usage, self.counted
            if self.subagents is not None:
                counted += self.subagents.counted
            known = whole if figure.tokens >= whole.tokens else counted
            missing = figure.cost - (known.cost or 0.0)
            if abs(missing) < _LEAST_COST:
                return
            correction = Usage(cost=missing)
            self.recorder.commit("mark", Changes(usage=correction, note={"cost": "as the agent told it"}))
            self.counted += correction
