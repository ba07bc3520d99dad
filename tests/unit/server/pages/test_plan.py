"""The plan before a resume: what the first reply would read, and what a start would find here, before it is tried."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from relight.errors import Waiting
from relight.values.options import RunOptions
from relight.values.policy import RunPolicy
from tests.support.scripted_agent import install
from tests.support.server_harness import Answer, ServerHarness
from tests.support.transcripts import claude_conversation

KEY = "sk-ant-api03-fakefakefakefakefakefakefakefakefakefake"


def stopped(harness: ServerHarness, tmp_path: Path, *command: str, agent: str = "claude") -> str:
    made = harness.rl.runs.create(list(command), RunOptions(directory=str(tmp_path), agent=agent, name="job"))
    with harness.rl.session("job") as s:
        s.append({"role": "user", "content": "hello"})
        s.fail("enough")
    return made.id


def shown(harness: ServerHarness, path: str) -> str:
    return unescape(harness.client("read").get(path, headers={"accept": "text/html"}).text)


def test_a_variable_that_is_not_set_here_is_told_before_a_resume_is_refused_for_it(
    harness: ServerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("PATH", str(install(tmp_path / "bin").parent), prepend=":")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    session = stopped(harness, work, "claude", "-p", "hello")
    plan = harness.rl.runs.plan(session)
    assert plan.ok and plan.environment == {"ANTHROPIC_API_KEY": True}
    assert "ANTHROPIC_API_KEY is set" in shown(harness, f"/sessions/{session}/do/resume")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    plan = harness.rl.runs.plan(session)
    assert not plan.ok and [reason.code for reason in plan.reasons] == ["secrets_missing"]
    text = shown(harness, f"/sessions/{session}/do/resume")
    assert "not set here: ANTHROPIC_API_KEY" in text and "start it although they are not set" in text
    assert "relight resume job --without-secrets" in text and "Not possible now" not in text
    refused = Answer(harness.client().post(f"/api/sessions/{session}/resume", json={}))
    assert refused.status == 409 and "ANTHROPIC_API_KEY" in refused.document["detail"]
    assert KEY not in text and KEY not in shown(harness, f"/checkpoints/{session}@2")


def test_a_program_that_is_gone_is_told_before_a_resume_is_refused_for_it(
    harness: ServerHarness, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    session = stopped(harness, tmp_path, str(program), agent="command")
    assert harness.rl.runs.plan(session).ok
    program.unlink()
    plan = harness.rl.runs.plan(session)
    assert not plan.ok and plan.reasons[0].code == "no_program"
    assert "Not possible now" in shown(harness, f"/sessions/{session}/do/resume")
    assert harness.client("read").get(f"/api/sessions/{session}/can-resume").json()["ok"] is False


def test_the_loss_report_of_another_agent_is_in_its_dialog_before_it_is_chosen(
    harness: ServerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("claude", "codex"):
        install(tmp_path / "bin", name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    options = RunOptions(directory=str(tmp_path), agent="claude", name="job")
    session = harness.rl.runs.create(["claude", "-p", "hello"], options).id
    with harness.rl.session("job") as s:
        for line in claude_conversation():
            s.append(line)
        s.fail("enough")
    text = shown(harness, f"/sessions/{session}/do/resume")
    assert f"/sessions/{session}/do/resume?agent=codex" in text and "not carried over" not in text
    text = shown(harness, f"/sessions/{session}/do/resume?agent=codex")
    assert "dropped: reasoning of the model" in text and "relight resume job --agent codex" in text
    assert "Not possible now" not in text
    assert "Not possible now" in shown(harness, f"/sessions/{session}/do/resume?agent=ls%20-l")
    for body in ({"agent": "codex exec"}, {"fallback": ["claude"]}):  # no name of one; its own
        refused = Answer(harness.client().post(f"/api/sessions/{session}/resume", json=body))
        assert refused.status in (400, 422)
    plan = harness.client("read").get(f"/api/sessions/{session}/can-resume?agent=codex").json()
    assert plan["hand_over"]["target"] == "codex"


def test_the_agents_that_continue_after_a_limit_are_chosen_in_the_dialog_and_kept_as_they_were(
    harness: ServerHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", "claude")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    policy = RunPolicy(fallback=("pi", "codex"))
    options = RunOptions(directory=str(tmp_path), agent="claude", name="job", policy=policy)
    session = harness.rl.runs.create(["claude", "-p", "hello"], options).id
    text = shown(harness, f"/sessions/{session}/do/resume")
    boxes = re.findall(r'name="fallback" value="(\w+)" data-list( checked)?', text)
    assert boxes[:2] == [("pi", " checked"), ("codex", " checked")], "its agents first, in their order"
    others = {name for name, checked in boxes[2:] if not checked}
    assert others == set(harness.rl.runs.agents()) - {"claude", "pi", "codex"}
    assert 'name="returns"' in text and "return to claude" in text
    plain = harness.rl.runs.create(["true"], RunOptions(directory=str(tmp_path), agent="command", name="plain"))
    assert 'name="fallback"' not in shown(harness, f"/sessions/{plain.id}/do/resume")


def test_what_the_first_reply_would_read_is_in_the_dialog_and_on_the_page_of_a_checkpoint(
    harness: ServerHarness,
) -> None:
    with harness.rl.session("talk", provider="anthropic") as s:
        s.append({"role": "user", "content": "hello"})
        s.append({"role": "assistant", "content": "yes"}, {"input_tokens": 184_000, "output_tokens": 20, "cost": 0.5})
        session, head = str(s.id), s.head
    for path in (f"/sessions/{session}/do/resume", f"/checkpoints/{head}"):
        text = shown(harness, path)
        assert "about 184 k tokens, cache warm (idle " in text and "about $0.05" in text, path
    document = harness.client("read").get(f"/api/sessions/{session}/can-resume").json()
    assert document["first_reply"]["tokens"] == 184_020 and document["first_reply"]["cold"] is False
    again = harness.client("read").get(f"/api/sessions/{session}/can-resume").json()
    assert again == document, "a plan is the same as long as nothing happens"


def test_a_dialog_says_each_thing_once_and_under_its_own_name(harness: ServerHarness) -> None:
    with pytest.raises(Waiting), harness.rl.session("talk", provider="anthropic") as s:
        s.append({"role": "assistant", "content": "May I?"}, {"input_tokens": 900, "output_tokens": 20})
        s.checkpoint("before")
        s.ask("push?")
    text = " ".join(re.sub(r"<[^>]*>", " ", shown(harness, f"/sessions/{s.id}/do/resume")).split())
    assert text.count("relight does not know how to start it") == 1, text
    assert " note it asks: push?" in text, text
    text = " ".join(re.sub(r"<[^>]*>", " ", shown(harness, f"/sessions/{s.id}/do/rewind")).split())
    assert "Happens Choose the checkpoint to rewind to: one with a label, or any step" in text, text
    assert "Way back Cancel." in text and "before" in text, text
