"""Sub-agents as children of a session: one session for each, counted once, told once and truly."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.agents.claude_code.adapter import ClaudeCode
from relight.errors import NotResumable
from relight.history.loading import resolve
from relight.library.facade import Relight
from relight.ports.agent import Heard, NativeCall
from relight.sessions.opening import begin_attempt, recorder_for
from relight.supervision.subagents import REPORTED, SubAgentSessions
from relight.values.call import Intent, Outcome
from relight.values.info import SessionInfo
from relight.values.options import RunOptions
from relight.values.step import Changes
from tests.support.transcripts import CLAUDE_SESSION, ClaudeLines

CLAUDE = ClaudeCode()
REPLY_TOKENS = 137
CALLS = [NativeCall(id=f"toolu_{name}", name="Agent", arguments={}) for name in ("a", "b", "c")]


class Family:
    """A session of Claude Code, and files of its sub-agents."""

    def __init__(self, rl: Relight, location: Path) -> None:
        self.rl, self.path = rl, location / f"{CLAUDE_SESSION}.jsonl"
        rl.runs.create(["claude", "-p", "do it"], RunOptions(directory=str(location), agent="claude", name="job"))
        self.made: dict[str, ClaudeLines] = {}

    def supervised(self) -> SubAgentSessions:
        """As a supervisor that has just started knows them; one that held the session before is dead."""
        context = self.rl._context
        found = resolve(context.store, "job")
        recorder = recorder_for(context, found)
        if (head := found.head) is not None and head.lease is not None:
            context.store.release(head.session, owner=head.lease.owner.id, epoch=head.epoch)
            recorder = recorder_for(context, resolve(context.store, "job"))
        for child in self.children().values():
            head = resolve(context.store, child.id).whole_head()
            if head.lease is not None:
                context.store.release(head.session, owner=head.lease.owner.id, epoch=head.epoch)
        begin_attempt(context, recorder, seconds=30)
        return SubAgentSessions(context, recorder, CLAUDE)

    def file(self, name: str) -> Path:
        return self.path.with_suffix("") / "subagents" / f"agent-{name}.jsonl"

    def writes(self, name: str, *, ends: bool | None) -> None:
        """The sub-agent has asked for a command; if it `ends` it has the result and gave its report. None: its lines
        as they were made."""
        made = self.made.setdefault(name, ClaudeLines())
        if not made.lines:
            made.user(f"part {name}", isSidechain=True, agentId=name)
        if ends is not None:
            self._goes_on(name, made, ends=ends)
        directory = self.file(name).parent
        directory.mkdir(parents=True, exist_ok=True)
        meta = {"toolUseId": f"toolu_{name}", "description": f"part {name}"}
        self.file(name).with_suffix(".meta.json").write_text(json.dumps(meta))
        self.file(name).write_text("".join(json.dumps(line) + "\n" for line in made.lines))

    def _goes_on(self, name: str, made: ClaudeLines, *, ends: bool) -> None:
        if any(f"toolu_of_{name}" in json.dumps(line) for line in made.lines):
            call = made.lines[-1]["uuid"]
        else:
            call = made.call(f"msg_{name}", f"toolu_of_{name}", isSidechain=True, agentId=name)
        if ends:
            made.result(f"toolu_of_{name}", call, isSidechain=True, agentId=name)
            made.says(f"msg_{name}2", f"report of {name}", isSidechain=True, agentId=name)

    def children(self) -> dict[str, SessionInfo]:
        return {str(one.subagent): one for one in self.rl.sessions.list(spawned_by="job")}


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Family]:
    (tmp_path / "claude").write_text("#!/bin/sh\n")
    (tmp_path / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with relight.open(tmp_path / "store" / "r.db") as rl:
        yield Family(rl, tmp_path)


def changed() -> list[str]:
    return ["made.txt"]


def test_a_restarted_supervisor_finds_the_same_children_and_counts_nothing_twice(family: Family) -> None:
    family.writes("a", ends=True)
    family.writes("b", ends=False)
    first = family.supervised()
    assert first.sync(family.path) == 2
    assert first.sync(family.path) == 0
    again = family.supervised()
    again.sync(family.path)
    family.writes("b", ends=True)
    again.sync(family.path)
    found = family.children()
    assert {one: (info.status, info.usage.tokens) for one, info in found.items()} == {
        "a": ("completed", 2 * REPLY_TOKENS),
        "b": ("completed", 2 * REPLY_TOKENS),
    }
    assert again.usage.tokens == 4 * REPLY_TOKENS
    assert (found["a"].name, found["a"].task, found["a"].key) == ("job.a", "part a", "toolu_a")


def test_a_report_that_was_recorded_before_the_supervisor_was_killed_makes_the_child_completed(family: Family) -> None:
    family.writes("a", ends=False)
    first = family.supervised()
    first.sync(family.path)
    family.writes("a", ends=True)
    child = first._children["a"]
    child.own()
    child.observer.sync()  # and killed here, before its status is written
    again = family.supervised()
    again.sync(family.path)
    assert family.children()["a"].status == "completed"
    assert again.results(CALLS[:1], changed)["toolu_a"].text == "report of a"


def test_one_that_its_parent_continued_is_told_again(family: Family) -> None:
    family.writes("a", ends=False)
    known = family.supervised()
    known.sync(family.path)
    known.settle(lambda: "outcome unknown", 1_790_000_000_000_000)
    made = family.made["a"]
    made.lines = [json.loads(line) for line in family.file("a").read_text().splitlines()]
    made.last = made.lines[-1]["uuid"]
    made.user("go on", isSidechain=True, agentId="a")
    family.writes("a", ends=None)
    known.sync(family.path)
    known.interrupt()
    assert family.children()["a"].status == "terminated"
    note = family.supervised().note((), changed)
    assert note is not None and "sub-agent a" in note


def test_each_is_told_once_finished_with_its_report_cut_off_with_what_it_did_or_not_begun(family: Family) -> None:
    family.writes("a", ends=True)
    family.writes("b", ends=False)
    known = family.supervised()
    known.sync(family.path)
    told = known.results(CALLS, changed)
    assert (told["toolu_a"].text, told["toolu_a"].failed) == ("report of a", False)
    assert all(part in told["toolu_b"].text for part in ("outcome unknown", "sub-agent b", "toolu_of_b", "made.txt"))
    assert told["toolu_c"].text.startswith("not run") and told["toolu_c"].failed
    assert known.note({"toolu_a", "toolu_b"}, changed) is None
    note = known.note((), changed)
    assert note is not None and "report of a" in note and "sub-agent b" in note
    known.settle(lambda: "outcome unknown: it died", 1_790_000_000_000_000)
    assert {one: info.status for one, info in family.children().items()} == {"a": "completed", "b": "terminated"}
    assert family.supervised().note((), changed) is None
    own = family.file("b").read_text().splitlines()
    assert "it died" in own[-1] and json.loads(own[-1])["isSidechain"] is True, "its own call has a result"


@pytest.mark.parametrize("within_a_turn", [False, True], ids=["between two turns", "within a turn"])
def test_a_report_that_the_agent_delivered_itself_is_not_told_again(family: Family, within_a_turn: bool) -> None:
    family.writes("a", ends=True)
    family.writes("b", ends=True)
    known = family.supervised()
    parent = ClaudeLines()
    notice = "<task-notification>\n<task-id>a</task-id></task-notification>"
    if within_a_turn:
        parent.add("attachment", attachment={"type": "queued_command", "prompt": notice})
    else:
        parent.user(notice)
    parent.result("toolu_b", parent.call("msg_1", "toolu_b"))
    known.note_reports(parent.lines)
    known.sync(family.path)
    known.note_reports(())
    assert {one.reason for one in family.children().values()} == {REPORTED}
    assert known.note((), changed) is None


def hook_ended(known: SubAgentSessions, call: str, result: Any) -> None:
    """A hook of the parent has reported that this call began and ended."""
    intent = Intent(id=call, name="Agent", effect="once", hooked=True, arguments={"prompt": "part"})
    known._parent.commit("intent", Changes(intents=[intent]))
    known._parent.commit("result", Changes(outcomes=[Outcome(id=call, status="ok", content=result)]))


@pytest.mark.parametrize("ended_by", ["its supervisor", "a kill of both"])
def test_one_whose_report_its_parent_has_is_completed_although_its_own_file_has_no_end(
    family: Family, ended_by: str
) -> None:
    family.writes("a", ends=False)
    known = family.supervised()
    known.sync(family.path)
    hook_ended(known, "toolu_a", {"status": "completed", "content": [{"type": "text", "text": "report of a"}]})
    if ended_by == "its supervisor":
        known.interrupt()
        assert family.children()["a"].status == "completed"
    again = family.supervised()
    again.sync(family.path)
    told = again.results(CALLS[:1], changed)["toolu_a"]
    assert (told.text, told.failed) == ("report of a", False)
    again.settle(lambda: "outcome unknown", 1_790_000_000_000_000)
    [child] = family.children().values()
    assert (child.status, child.reason) == ("completed", REPORTED)
    assert family.supervised().note((), changed) is None


def test_one_in_the_background_whose_call_has_ended_is_told_of_as_interrupted(family: Family) -> None:
    family.writes("a", ends=False)
    known = family.supervised()
    known.sync(family.path)
    hook_ended(known, "toolu_a", {"status": "async_launched", "agentId": "a"})
    known.interrupt()
    assert family.children()["a"].status == "terminated"
    again = family.supervised()
    reports = again.results(CALLS[:1], changed)
    note = again.note(reports, changed)
    assert reports == {} and note is not None and "sub-agent a" in note


def test_a_call_that_only_a_hook_reported_is_in_doubt_in_the_child_and_its_parent_is_told(family: Family) -> None:
    known = family.supervised()
    heard = Heard(kind="tool_begins", subagent="x", call="toolu_1", tool="Bash", arguments={"command": "rm it"})
    known.record_hook(heard)
    known.interrupt()
    assert [(one.status, one.in_doubt) for one in family.children().values()] == [("terminated", 1)]
    told = family.supervised().results(CALLS[:1], changed)["toolu_a"].text
    assert "outcome unknown" in told and "rm it" in told


def test_a_child_that_a_person_removed_is_not_recorded_again_and_none_is_started_by_itself(family: Family) -> None:
    family.writes("a", ends=True)
    family.writes("b", ends=False)
    known = family.supervised()
    known.sync(family.path)
    known.interrupt()
    family.rl.sessions.remove("job.a")
    with pytest.raises(NotResumable, match="sub-agent"):
        family.rl.session("job.b")
    with pytest.raises(NotResumable, match="sub-agent"):
        family.rl.runs.check_start("job.b")
    assert [reason.code for reason in family.rl.runs.plan("job.b").reasons] == ["subagent"]
    again = family.supervised()
    again.sync(family.path)
    assert list(family.children()) == ["b"]
