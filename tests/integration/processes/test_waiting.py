"""Limits, approvals and quarantine: a wait is a row that everybody can see, and goes on by itself or by a person."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from relight.agents.claude_code.adapter import ClaudeCode
from relight.hooks.channel import SocketHooks
from relight.ports.agent import Ask, Hooks, Surroundings
from relight.supervision.start import denial
from tests.integration.processes.conftest import Open
from tests.support.fake_model import texts
from tests.support.program_harness import UNSET, ProgramHarness, kill
from tests.support.shell import eventually

ONE = {"text": "first", "calls": [{"shell": "echo one > a.txt"}]}
PUSH = {"text": "now", "calls": [{"shell": "git push >> pushed 2>&1; echo x >> pushes"}]}
TOKEN = "sk-ant-oat01-fakefakefakefake"
UNIFIED = "anthropic-ratelimit-unified-"


def limited(seconds: float) -> dict[str, Any]:
    reset = str(int(time.time() + seconds))
    headers = {f"{UNIFIED}status": "rejected", f"{UNIFIED}reset": reset, f"{UNIFIED}representative-claim": "five_hour"}
    return {"status": 429, "headers": headers}


def pushes(s: ProgramHarness) -> int:
    path = s.work / "pushes"
    return len(path.read_text().splitlines()) if path.exists() else 0


# -- limits ---------------------------------------------------------------------------------------------------


def test_a_usage_limit_is_a_row_with_a_time_and_survives_its_supervisor(harness: Open) -> None:
    s = harness(
        [ONE, [limited(3600), {"text": "fin"}]],
        CLAUDE_CODE_OAUTH_TOKEN=TOKEN,
        ANTHROPIC_API_KEY=UNSET,
    )
    child = s.begin()
    info = eventually(lambda: (i := s.info()) and i.wake_at and i, what="a time to wake")
    assert info.status == "queued"
    assert 3500 < info.wake_at.timestamp() - time.time() < 3900
    assert info.failure is not None and info.failure.kind == "usage_limit"
    assert not s.agents(), "nothing waits in memory"
    child.kill()
    child.wait()
    [row] = s.json("list", "--all")
    assert row["status"] == "queued" and row["wake_at"]
    waiting = s.start("resume", "job", "--yes")
    eventually(lambda: "usage limit" in s.out().rpartition("job @")[2], what="it saying what it waits for")
    waiting.terminate()
    waiting.wait(timeout=60)
    info = s.known()
    assert info.wake_at is not None or info.status == "terminated"
    assert len(s.model.requests()) == 2, "nobody asked before the time had come"


def test_after_a_usage_limit_it_resumes_by_itself(harness: Open) -> None:
    """Not before its time, and without anybody's help."""
    s = harness(
        [ONE, [limited(2), {"text": "fin"}]],
        CLAUDE_CODE_OAUTH_TOKEN=TOKEN,
        ANTHROPIC_API_KEY=UNSET,
        RELIGHT_LEAST_WAIT="1",
    )
    child = s.begin()
    info = eventually(lambda: (i := s.info()) and i.wake_at and i, what="a time to wake")
    assert child.wait(timeout=60) == 0, s.out()
    assert time.time() >= info.wake_at.timestamp()
    after = s.known()
    assert (after.status, after.attempt) == ("completed", 2)
    s.assert_whole("do the task", "first")


@pytest.mark.crash
def test_the_same_failure_again_and_again_ends_in_quarantine_with_the_way_out(harness: Open) -> None:
    s = harness([[*[{"hang": "before"}] * 3, {"text": "fin"}]])
    child = s.begin()
    for number in (1, 2, 3):
        s.model.wait_for(number)
        kill(s.the_agent())
    assert child.wait(timeout=60) == 137, s.out()
    info = s.known()
    assert info.status == "halted"
    assert info.reason is not None and "relight resume job" in info.reason, info.reason
    assert s.relight("resume", "job", "--yes").returncode == 0
    s.assert_whole("do the task")


def test_a_wrong_key_asks_a_person_and_does_not_try_for_ever(harness: Open) -> None:
    s = harness([[{"status": 401}, {"text": "fin"}]])
    done = s.run()
    assert done.returncode == 1
    info = s.known()
    assert (info.status, info.attempt) == ("failed", 1)
    assert info.failure is not None and info.failure.kind == "auth"
    assert s.relight("resume", "job", "--yes").returncode == 0
    s.assert_whole("do the task")


# -- approvals ------------------------------------------------------------------------------------------------


def test_a_matching_call_waits_until_it_is_approved_and_runs_once(harness: Open) -> None:
    s = harness([ONE, PUSH, {"text": "fin"}])
    child = s.begin("ship it", "--approve", "Bash(git push*)")
    info = s.reaches("waiting")
    assert info.question is not None and "git push" in info.question
    assert pushes(s) == 0
    assert not s.agents()
    assert s.relight("approve", "job").returncode == 0
    assert child.wait(timeout=60) == 0, s.out()
    assert pushes(s) == 1
    s.assert_whole("ship it", "first")
    assert s.known().status == "completed"


def test_a_denied_call_does_not_run_and_the_model_hears_of_it(harness: Open) -> None:
    s = harness([PUSH, {"text": "fin"}])
    child = s.begin("ship it", "--approve", "Bash(git push*)")
    s.reaches("waiting")
    assert s.relight("deny", "job").returncode == 0
    assert child.wait(timeout=60) == 0, s.out()
    assert pushes(s) == 0
    assert "denied" in "\n".join(texts(s.last(), "result"))


@pytest.mark.crash
def test_a_decision_survives_everything_and_is_used_once(harness: Open) -> None:
    s = harness([PUSH, PUSH, {"text": "fin"}])
    child = s.begin("ship it", "--approve", "Bash(git push*)")
    s.reaches("waiting")
    child.kill()
    child.wait()
    assert s.relight("approve", "job").returncode == 0
    again = s.start("resume", "job", "--yes")
    eventually(lambda: pushes(s) == 1, what="the approved push")
    info = s.reaches("waiting")
    assert info.question is not None and "git push" in info.question
    assert pushes(s) == 1, "one decision served two calls"
    assert s.relight("deny", "job").returncode == 0
    assert again.wait(timeout=60) == 0, s.out()
    assert pushes(s) == 1


def hooked(tmp_path: Path, command: tuple[str, ...]) -> dict[str, str]:
    """The hooks of Claude Code with approvals, by event, as they stand in its settings."""
    hooks = Hooks(command=command, file=tmp_path / "s.json", approve=("Bash(git push*)",), deny=denial(ClaudeCode()))
    where = Surroundings(directory=str(tmp_path), environment={"HOME": str(tmp_path), "PATH": ""})
    asked = Ask(command=("claude", "-p", "hi"), surroundings=where, rung="fresh", hooks=hooks)
    settings = json.loads(ClaudeCode().launch(asked).files[hooks.file])
    return {event: groups[-1]["hooks"][0]["command"] for event, groups in settings["hooks"].items()}


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
@pytest.mark.parametrize("lost", ["everything", "socket", "store"])
@pytest.mark.parametrize("payload", ["{}", "not JSON"])
def test_a_call_that_needs_approval_is_denied_where_nothing_can_be_recorded(
    tmp_path: Path, event: str, lost: str, payload: str
) -> None:
    """Neither the supervisor nor the store answers, as on a full disk, or the environment was lost on the way to the
    hook: nobody can be asked, so it must not run."""
    away = {"RELIGHT_HOOK_SOCKET": str(tmp_path / "hook"), "RELIGHT_STORE": str(tmp_path / "away.db")}
    left = {"everything": {}, "socket": {"RELIGHT_STORE": away["RELIGHT_STORE"]}, "store": away}[lost]
    clean = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in left.items()), "/bin/sh", "-c"]
    command = hooked(tmp_path, SocketHooks.command)[event]
    ran = subprocess.run([*clean, command], input=payload, capture_output=True, text=True, check=False)
    assert ran.returncode == 0
    if event == "PreToolUse":
        assert json.loads(ran.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    else:
        assert ran.stdout == ""


@pytest.mark.parametrize("broken", ["/nonexistent/python", "/bin/false"])
def test_a_hook_that_cannot_start_blocks_the_call_that_needs_approval_and_nothing_else(
    tmp_path: Path, broken: str
) -> None:
    commands = hooked(tmp_path, (broken, *SocketHooks.command[1:]))
    ran = {one: subprocess.run(["sh", "-c", text], capture_output=True, check=False) for one, text in commands.items()}
    assert ran["PreToolUse"].returncode == 2, "the code with which Claude Code does not run the call"
    assert b"no person could be asked" in ran["PreToolUse"].stderr
    assert all(one.returncode not in (0, 2) for event, one in ran.items() if event != "PreToolUse")


@pytest.mark.crash
def test_an_approved_call_that_was_killed_is_not_taken_for_undone(harness: Open) -> None:
    slow = {"calls": [{"shell": "git push; echo x >> pushes; exec sleep 15"}]}
    s = harness([slow, {"text": "fin"}])
    child = s.begin("ship it", "--approve", "Bash(git push*)")
    s.reaches("waiting")
    assert s.relight("approve", "job").returncode == 0
    eventually(lambda: pushes(s) == 1, what="the approved push")
    kill(s.the_agent())
    assert child.wait(timeout=60) == 0, s.out()
    assert pushes(s) == 1
    assert "outcome unknown" in "\n".join(texts(s.last(), "result"))


def test_a_call_that_does_not_match_waits_for_nobody(harness: Open) -> None:
    s = harness([ONE, {"text": "fin"}])
    assert s.run("do it", "--approve", "Bash(git push*)").returncode == 0
    assert s.known().status == "completed"


@pytest.mark.crash
@pytest.mark.parametrize("both", [False, True], ids=["agent", "supervisor too"])
def test_killed_while_it_asks_a_call_neither_runs_nor_counts_as_run(harness: Open, both: bool) -> None:
    """Its hook was told to wait, and it dies before it could end: the person is asked all the same."""
    s = harness([PUSH | {"again": "not run|outcome"}, {"text": "fin"}], SCRIPTED_AGENT_FLUSH_MS="0")
    hook = {"type": "command", "command": f"touch {s.base}/ending; sleep 1", "timeout": 5}
    mine = s.base / "mine.json"
    mine.write_text(json.dumps({"hooks": {"SessionEnd": [{"hooks": [hook]}]}}))
    words = s.words("ship it", "--approve", "Bash(git push*)", name="job")
    child = s.start(*words, "--settings", str(mine))
    eventually((s.base / "ending").exists, what="the agent about to end")
    if both:
        child.kill()
        child.wait()
        eventually(lambda: not s.agents(), what="the agent's end")
        child = s.start("resume", "job", "--yes")
    else:
        kill(s.the_agent())
    info = s.reaches("waiting")
    assert info.question is not None and "git push" in info.question
    assert pushes(s) == 0
    assert s.relight("approve", "job").returncode == 0
    assert child.wait(timeout=60) == 0, s.out()
    assert pushes(s) == 1
    assert s.known().status == "completed"
    reported = "\n".join(texts(s.last(), "result"))
    assert "outcome unknown" not in reported, reported
