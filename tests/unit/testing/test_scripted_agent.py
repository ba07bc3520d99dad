"""The scripted agent does to a supervisor what the real one does: its transcript, its hooks, its way to die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_model import FakeModel, texts, unpaired
from tests.support.scripted_agent import install
from tests.support.scripted_agent.conversation import UNANSWERED
from tests.support.shell import eventually

STREAM = ("--output-format", "stream-json", "--verbose")


class Place:
    """A home, a directory and an agent."""

    def __init__(self, base: Path, url: str, **variables: str) -> None:
        self.home, self.work = base / "home", base / "work"
        self.home.mkdir(exist_ok=True)
        self.work.mkdir(exist_ok=True)
        self.program = install(base / "bin")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-ant-fake",
            "SCRIPTED_AGENT_RETRY_MS": "10",
            **variables,
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.program, *arguments],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        child = self.start(*arguments)
        out, error = child.communicate(timeout=60)
        return child.returncode, out, error

    def lines(self, session: str) -> list[dict[str, Any]]:
        [path] = (self.home / ".claude" / "projects").rglob(f"{session}.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]


Played = Callable[..., tuple[FakeModel, Place]]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Played]:
    models = []

    def begin(script: list[Any], **variables: str) -> tuple[FakeModel, Place]:
        model = FakeModel(script, strict=True).start()
        models.append(model)
        return model, Place(tmp_path, model.url, **variables)

    yield begin
    for model in models:
        model.close()


def settings(base: Path, **commands: str) -> str:
    hooks = {
        event: [{"matcher": "*", "hooks": [{"type": "command", "command": run}]}] for event, run in commands.items()
    }
    path = base / "settings.json"
    path.write_text(json.dumps({"hooks": hooks}))
    return str(path)


def answering(decision: str) -> str:
    said = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision}}
    return f"printf %s '{json.dumps(said)}'"


def new_id() -> str:
    return str(uuid.uuid4())


def test_a_run_leaves_a_whole_tree_of_lines_and_a_result(play: Played) -> None:
    model, location = play(
        [{"text": "so", "calls": [{"shell": "echo hi"}, {"name": "Bash", "input": {"command": "exit 3"}}]}]
    )
    session = new_id()
    code, out, _ = location.run("-p", "do it", "--session-id", session, *STREAM)
    assert code == 0
    printed = [json.loads(line) for line in out.splitlines()]
    assert printed[-1]["type"] == "result" and printed[-1]["result"] == "done" and not printed[-1]["is_error"]
    assert {line["session_id"] for line in printed} == {session}
    lines = [line for line in location.lines(session) if "uuid" in line]
    known = {None, *(line["uuid"] for line in lines)}
    assert all(line["parentUuid"] in known for line in lines)
    assert [len(line["message"]["content"]) for line in lines if line["type"] == "assistant"] == [1, 1, 1, 1]
    assert texts(model.requests()[-1].items, "result") == ["hi", "Exit code 3"]


def test_a_resumed_session_sends_its_whole_history(play: Played) -> None:
    model, location = play([{"calls": [{"shell": "echo one"}]}, {"text": "first"}, {"text": "second"}])
    session = new_id()
    assert location.run("-p", "begin", "--session-id", session)[0] == 0
    assert location.run("-p", "go on", "--resume", session)[1] == "second\n"
    said = texts(model.requests()[-1].items)
    assert [text for text in said if text in ("begin", "one", "first", "go on")] == ["begin", "one", "first", "go on"]


def test_a_fork_leaves_the_session_it_came_from_alone(play: Played) -> None:
    model, location = play([{"text": "first"}, {"text": "second"}])
    old, new = new_id(), new_id()
    location.run("-p", "begin", "--session-id", old)
    before = location.lines(old)
    assert location.run("-p", "go on", "--resume", old, "--fork-session", "--session-id", new)[0] == 0
    assert location.lines(old) == before
    assert "begin" in texts(model.requests()[-1].items, "user")
    assert {line["sessionId"] for line in location.lines(new)} == {new}


def test_a_killed_agent_leaves_its_command_running_and_says_so_when_it_is_resumed(play: Played, tmp_path: Path) -> None:
    model, location = play([{"calls": [{"shell": "echo $$ > pid; sleep 60"}]}], SCRIPTED_AGENT_FLUSH_MS="0")
    session = new_id()
    child = location.start("-p", "do it", "--session-id", session)
    pid = location.work / "pid"
    eventually(lambda: pid.exists() and pid.read_text().strip())
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    orphan = int(pid.read_text())
    os.kill(orphan, 0)
    os.kill(orphan, signal.SIGKILL)
    assert location.run("-p", "go on", "--resume", session)[0] == 0
    last = model.requests()[-1].items
    assert texts(last, "result") == [UNANSWERED] and unpaired(last) == []


def test_lines_reach_the_disk_late(play: Played) -> None:
    _, location = play([{"calls": [{"shell": "touch here; sleep 5"}]}], SCRIPTED_AGENT_FLUSH_MS="60000")
    session = new_id()
    child = location.start("-p", "do it", "--session-id", session)
    eventually((location.work / "here").exists)
    assert not list(location.home.rglob(f"{session}.jsonl"))
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    assert child.returncode == 143
    assert location.lines(session)


def test_hooks_are_told_and_a_broken_one_stops_nothing(play: Played, tmp_path: Path) -> None:
    reported = tmp_path / "told"
    script = [{"calls": [{"shell": "true"}, {"shell": "exit 1"}]}]
    _, location = play(script)
    events = (
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "Stop",
        "SessionEnd",
    )
    given = settings(tmp_path, **dict.fromkeys(events, f"cat >> {reported}; echo >> {reported}; echo nonsense; exit 1"))
    assert location.run("-p", "do it", "--settings", given)[0] == 0
    heard = [json.loads(line) for line in reported.read_text().splitlines()]
    assert [one["hook_event_name"] for one in heard] == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PreToolUse",
        "PostToolUseFailure",
        "Stop",
        "SessionEnd",
    ]
    assert {"tool_name", "tool_input", "tool_use_id", "tool_response", "transcript_path"} <= set(heard[3])


def test_a_deferred_tool_waits_for_a_resume_without_a_prompt(play: Played, tmp_path: Path) -> None:
    model, location = play([{"calls": [{"shell": "touch ran"}]}, {"text": "fin"}])
    session = new_id()
    code, out, _ = location.run(
        "-p", "do it", "--session-id", session, *STREAM, "--settings", settings(tmp_path, PreToolUse=answering("defer"))
    )
    assert code == 0 and json.loads(out.splitlines()[-1])["stop_reason"] == "tool_deferred"
    assert not (location.work / "ran").exists()
    given = settings(tmp_path, PreToolUse=answering("allow"))
    assert location.run("-p", "--resume", session, "--settings", given)[1] == "fin\n"
    assert (location.work / "ran").exists()
    assert unpaired(model.requests()[-1].items) == []
    code, _, error = location.run("-p", "--resume", session)
    assert code == 1 and "No deferred tool marker" in error


def test_a_denied_tool_does_not_run(play: Played, tmp_path: Path) -> None:
    _, location = play([{"calls": [{"shell": "touch ran"}]}])
    assert location.run("-p", "do it", "--settings", settings(tmp_path, PreToolUse=answering("deny")))[0] == 0
    assert not (location.work / "ran").exists()


def test_a_usage_limit_is_told_as_the_real_one_tells_it(play: Played) -> None:
    reset = str(int(time.time()) + 3600)
    prefix = "anthropic-ratelimit-unified-"
    headers = {f"{prefix}status": "rejected", f"{prefix}reset": reset, f"{prefix}representative-claim": "five_hour"}
    model, location = play([{"status": 429, "headers": headers}], CLAUDE_CODE_OAUTH_TOKEN="sk-ant-oat01-fake")
    session = new_id()
    code, out, _ = location.run("-p", "do it", "--session-id", session, *STREAM)
    printed = [json.loads(line) for line in out.splitlines()]
    assert code == 1 and len(model.requests()) == 1
    assert printed[-1]["is_error"] and printed[-1]["subtype"] == "success"
    assert printed[-1]["api_error"] == "usage_limit_reached" and printed[-1]["result"].startswith(
        "You've hit your 5-hour"
    )
    [event] = [line for line in printed if line["type"] == "rate_limit_event"]
    assert event["rate_limit_info"]["resetsAt"] == int(reset)
    [error] = [line for line in location.lines(session) if line.get("isApiErrorMessage")]
    assert error["apiErrorParams"]["rate_limit_info"]["resetsAt"] == int(reset)


@pytest.mark.parametrize("status", [401, 429, 529])
def test_a_failing_request_is_repeated_as_often_as_allowed(play: Played, status: int) -> None:
    model, location = play([{"status": status}], CLAUDE_CODE_MAX_RETRIES="2")
    code, out, _ = location.run("-p", "do it", *STREAM)
    assert code == 1 and len(model.requests()) == 3
    assert json.loads(out.splitlines()[-1])["api_error_status"] == status


def test_an_interrupted_agent_says_so_and_ends_with_0(play: Played) -> None:
    _, location = play([{"calls": [{"shell": "touch here; sleep 60"}]}])
    child = location.start("-p", "do it", *STREAM)
    eventually((location.work / "here").exists)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert json.loads(out.splitlines()[-1])["terminal_reason"] == "aborted_tools"


def test_what_it_cannot_do_it_refuses(play: Played) -> None:
    _, location = play([])
    session = new_id()
    assert location.run("-p", "x", "--session-id", session)[0] == 0
    assert "already in use" in location.run("-p", "x", "--session-id", session)[2]
    assert "No conversation found" in location.run("-p", "x", "--resume", new_id())[2]
    assert location.run("-p", "x", "--no-such-flag")[0] == 1


def test_a_loop_is_ended_by_the_number_of_turns(play: Played) -> None:
    _, location = play([{"calls": [{"shell": "true"}]}, {"calls": [{"shell": "true"}]}])
    code, out, _ = location.run("-p", "x", "--max-turns", "1", *STREAM)
    assert code == 1 and json.loads(out.splitlines()[-1])["subtype"] == "error_max_turns"
