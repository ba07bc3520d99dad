"""A session that another agent continues: one session and one owner, everything said arrives, what is lost is told
before and recorded after, and a hand-over that is refused leaves the session as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import relight
from relight.agents.claude_code.adapter import ClaudeCode
from relight.errors import UsageError
from relight.history.documents import session_document
from relight.history.loading import resolve
from relight.library.facade import Relight
from relight.ports.agent import Surroundings
from relight.sessions.opening import begin_attempt, recorder_for
from relight.supervision import hand_over
from relight.supervision.observe import Observer
from relight.values.options import ResumeOptions, RunOptions
from relight.values.policy import RunPolicy
from tests.support.program_harness import ProgramHarness
from tests.support.transcripts import ClaudeLines, claude_conversation

CALL = {"id": "call 1", "type": "function", "function": {"name": "charge card", "arguments": '{"amount": 3}'}}
AT_US = 1_790_000_000_000_000
DIALOGUE: list[dict[str, Any]] = [
    {"role": "system", "content": "you are a shop"},
    {"role": "user", "content": "sell it é"},
    {"role": "assistant", "content": "I charge the card", "tool_calls": [CALL]},
]


@pytest.fixture
def rl(tmp_path: Path) -> Iterator[Relight]:
    with relight.open(tmp_path / "store" / "r.db") as opened:
        yield opened


def begun(rl: Relight, name: str = "job", messages: list[dict[str, Any]] = DIALOGUE) -> str:
    """A session of a program, which ended in the middle of a call."""
    with rl.session(name) as session:
        for message in messages:
            session.append(message)
        return str(session.id)


def test_a_programs_conversation_goes_on_in_a_coding_agent_and_comes_back_as_plain_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = ProgramHarness(
        tmp_path, [{"text": "nothing to do"}, {"calls": [{"shell": "echo x > f"}]}, {"text": "sold"}]
    )
    try:
        monkeypatch.chdir(harness.work)
        with relight.open(harness.store) as rl:
            session = begun(rl)
        plan = harness.json("can-resume", "job", "--agent", "claude")
        assert plan["hand_over"]["source"] == "openai_chat"
        assert "dropped: text of the agent's own instructions" in plan["hand_over"]["losses"]
        assert (plan["agent"]["agent"], plan["agent"]["rung"], plan["agent"]["written"]) == ("claude", "native", True)
        done = harness.relight("resume", "job", "finish it", "--agent", "claude", "--yes")
        assert done.returncode == 0, done.stderr
        assert "not carried over" in done.stderr
        harness.assert_whole("sell it é", "I charge the card", "finish it", "outcome unknown")
        assert [one.problem for one in harness.model.requests() if one.problem] == []
        info = harness.known()
        assert (info.id, info.agent, info.status) == (session, "claude", "completed")
        assert list(info.workspace.values()) == [str(harness.work)]
        [noted] = [one for one in harness.steps() if "handed_over" in one.note]
        assert (noted.kind, noted.note["handed_over"]["losses"]) == ("reset", plan["hand_over"]["losses"])
        with relight.open(harness.store) as rl:
            for format in ("openai_chat", "anthropic", "openai_responses"):
                plain = str(rl.history.messages("job", format=format))
                assert all(said in plain for said in ("sell it é", "finish it", "sold", "charge_card"))
            assert rl.history.load(f"job@{noted.seq - 1}").messages[1:] == DIALOGUE[1:]
            with rl.session("again") as session_again:
                session_again.replace(rl.history.messages("job", format="openai_chat"))
                assert session_again.messages[0] == {"role": "user", "content": "sell it é"}
    finally:
        harness.close()


def test_the_plan_of_a_hand_over_changes_nothing_and_names_what_is_lost(rl: Relight) -> None:
    begun(rl, messages=claude_conversation())
    before = session_document(rl.sessions.get("job"))
    options = ResumeOptions(agent="codex")
    plan = rl.runs.plan("job", options=options)
    assert plan.hand_over is not None
    assert plan.hand_over.losses == ["dropped: reasoning of the model", "dropped: settings and permissions of claude"]
    assert plan.hand_over.faults == []
    assert plan.command is not None
    assert plan.command[0] == "codex"
    assert session_document(rl.sessions.get("job")) == before
    same = rl.runs.plan("job", options=msgspec.structs.replace(options, agent="claude"))
    assert same.hand_over is None


@pytest.mark.parametrize(
    "agent",
    ["nothing", "ls -l", "'codex", "codex"],  # the last one is not installed
)
def test_a_hand_over_that_is_refused_leaves_the_session_as_it_was(
    rl: Relight, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    begun(rl)
    before, steps = session_document(rl.sessions.get("job")), list(rl.store.steps(rl.sessions.get("job").id))
    with pytest.raises(UsageError):
        rl.runs.resume("job", ResumeOptions(agent=agent))
    assert session_document(rl.sessions.get("job")) == before
    assert list(rl.store.steps(rl.sessions.get("job").id)) == steps


def test_a_session_that_needs_approvals_is_not_handed_to_an_agent_that_cannot_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("claude", "codex"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with relight.open(tmp_path / "store" / "r.db") as rl:
        options = RunOptions(directory=str(tmp_path), agent="claude", name="job", policy=RunPolicy(approve=("Bash",)))
        rl.runs.create(["claude", "-p", "do it"], options)
        with pytest.raises(UsageError, match="cannot be made to wait"):
            rl.runs.plan("job", options=ResumeOptions(agent="codex exec --disable hooks"))


@pytest.mark.parametrize("how", ["forgotten", "compacted", "continued", "half read"])
def test_an_agent_that_continues_without_the_history_is_noticed_and_the_journal_keeps_it(
    rl: Relight, tmp_path: Path, how: str
) -> None:
    context, adapter = rl._context, ClaudeCode()
    recorder = recorder_for(context, resolve(context.store, begun(rl)))
    begin_attempt(context, recorder, seconds=30)
    observer = Observer(recorder, adapter, None, context.price)
    source = hand_over.source_of(context, resolve(context.store, "job"), recorder.fold, adapter)
    assert source is not None
    where = Surroundings(directory=str(tmp_path), environment={"HOME": str(tmp_path)})
    ready = hand_over.take_over(observer, source, where, changed=lambda: None, task=None, now_us=AT_US)
    assert ready is not None
    before, last = list(recorder.fold.messages), recorder.fold.messages[-1]["uuid"]
    if how == "half read":  # in any order: opencode imports a conversation part by part
        first, *_, last_line = ready.path.read_text().splitlines(keepends=True)
        ready.path.write_text(first + last_line.replace(f'"{recorder.fold.messages[-2]["uuid"]}"', "null", 1))
        observer.sync()
        assert (observer.has_lost_history, recorder.fold.messages) == (False, before)
        context.store.release(recorder.identity.id, owner=recorder.owner, epoch=recorder.epoch)
        return
    made = ClaudeLines()
    if how == "compacted":
        made.add("system", subtype="compact_boundary", parent=None)
        made.user("in short", isCompactSummary=True)
    made.user("next prompt", parent={"forgotten": None, "compacted": made.last, "continued": last}[how])
    made.says("msg_new", "a reply")
    offset = ready.path.stat().st_size
    adapter.append(ready.path, made.lines, offset=offset)
    observer.sync()
    assert observer.has_lost_history == (how == "forgotten")
    kept = recorder.fold.messages
    assert (kept == before) if how == "forgotten" else ("a reply" in str(kept[-1]))
    assert (kept[: len(before)] == before) == (how != "compacted")
    context.store.release(recorder.identity.id, owner=recorder.owner, epoch=recorder.epoch)
