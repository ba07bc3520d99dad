"""Real agents at their limits: a usage limit is waited for, hooks that fail break nothing, approvals hold."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_harness import KINDS, OTHERS, SECONDS, TASK, append, harness, lines
from tests.support.figures import Figure
from tests.support.load import allowed
from tests.support.shell import eventually

pytestmark = pytest.mark.agents
DONE = {"text": "all done"}
PAUSE_SECONDS = 2.0
LEAST = 3
"""seconds that relight waits beyond a reset; a minute where nobody is in a hurry"""
TOKEN = "sk-ant-oat01-fake-token-of-the-relight-tests-000000000000"


def limit(kind: str, reset: int) -> dict[str, Any]:
    """What a provider answers to a subscription that is used up, until `reset`."""
    if kind == "claude":
        window = {"status": "rejected", "reset": str(reset), "utilization": "1.0"}
        headers = {
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(reset),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
            **{f"anthropic-ratelimit-unified-5h-{name}": value for name, value in window.items()},
        }
        return {"status": 429, "headers": headers}
    error = {
        "type": "usage_limit_reached",
        "message": "The usage limit has been reached",
        "plan_type": "plus",
        "resets_at": reset,
        "resets_in_seconds": max(0, reset - int(time.time())),
    }
    return {"status": 429, "body": {"error": error}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_usage_limit_is_waited_for_and_then_it_goes_on_by_itself(kind: str, tmp_path: Path) -> None:
    reset = int(time.time()) + 5
    script = [append("one"), [limit(kind, reset), append("two")], DONE]
    login = {"CLAUDE_CODE_OAUTH_TOKEN": TOKEN} if kind == "claude" else {}
    with harness(kind, tmp_path, script, RELIGHT_LEAST_WAIT=str(LEAST), **login) as s:
        child = s.begin()
        s.model.wait_for(2, SECONDS)
        waiting = s.reaches("queued")
        assert "limit" in (waiting.reason or ""), waiting.reason
        assert waiting.failure is not None and waiting.failure.kind == "usage_limit"
        assert not s.agents(), "a process sleeps through the limit"
        s.ends(child)
        reported = reset if kind == "claude" else reset - reset % 60  # Codex tells it to the minute
        assert time.time() > reported, "it did not wait for the reset"
        assert waiting.wake_at is not None and waiting.wake_at.timestamp() >= reported + LEAST
        assert s.info().status == "completed"
        assert lines(s.work) == ["one", "two"]
        s.remembers(TASK, "writes one", "writes two")


@pytest.mark.crash
def test_the_cap_on_usage_limits_counts_over_a_kill_of_everything(tmp_path: Path) -> None:
    reached = limit("codex", int(time.time()) + 2)
    with harness("codex", tmp_path, [append("one"), [reached, reached, append("two")], DONE]) as s:
        child = s.begin("--windows", "2")
        s.reaches("queued")
        s.strike("both", child)
        s.relight("resume", "job", "--now", "--yes")
        info = s.info()
        assert info.status == "halted" and "reached 2 usage limits" in (info.reason or ""), info
        assert lines(s.work) == ["one"] and len(s.model.requests()) == 3


@pytest.mark.crash
def test_quiet_hours_hold_over_a_kill_of_everything(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    hours = f"{now - timedelta(minutes=2):%H:%M}-{now + timedelta(hours=2):%H:%M}"
    with harness("codex", tmp_path, [append("one"), DONE]) as s:
        child = s.begin("--quiet-hours", hours)
        until = s.reaches("queued").wake_at
        s.strike("both", child)
        child = s.start("resume", "job", "--yes")
        eventually(lambda: "waiting for its end" in s.said, seconds=SECONDS, what="the second wait")
        s.strike("both", child)
        assert "0 sessions to resume" in "".join(s.relight("resume", "--all", "--yes").stderr)
        info = s.info()
        assert (info.status, info.reason, info.wake_at) == ("queued", "quiet hours", until)
        assert not s.model.requests() and not s.agents()


def test_without_its_socket_the_hook_writes_the_journal_itself(tmp_path: Path) -> None:
    waits = append("two", "until test -e release; do sleep 0.05; done")
    with harness("claude", tmp_path, [append("one"), waits, append("three"), DONE]) as s:
        child = s.begin()
        eventually(lambda: lines(s.work) == ["one", "two"], seconds=SECONDS, what="the tool running")
        [socket] = [path for path in s.store.parent.rglob("hook") if path.is_socket()]
        socket.unlink()
        (s.work / "release").touch()
        s.ends(child)
        info = s.info()
        assert (info.status, info.attempt, info.said) == ("completed", 1, "all done")
        assert lines(s.work) == ["one", "two", "three"]
        s.do("verify", "job")
        s.do("resume", "job", "go on", "--yes")
        s.remembers(TASK, "writes one", "writes two", "writes three", "all done", "go on")


@pytest.mark.parametrize(
    "broken",
    [
        "lambda command: '/nonexistent/hook'",
        "lambda command: 'kill -9 $$'",
        "lambda command: 'echo nonsense; exit 3'",
    ],
    ids=["missing", "killed", "failing and talking nonsense"],
)
def test_a_broken_hook_command_never_breaks_the_agent(broken: str, tmp_path: Path) -> None:
    with harness("claude", tmp_path, [append("one"), append("two"), DONE]) as s:
        s.dress(f"rewrite({broken})")
        s.run()
        info = s.info()
        assert (info.status, info.attempt, info.said, info.turns) == ("completed", 1, "all done", 3)
        assert lines(s.work) == ["one", "two"]
        s.remembers(TASK, "writes one", "writes two")


@pytest.mark.parametrize(("verb", "expected"), [("approve", ["one", "two"]), ("deny", ["one"])])
def test_a_call_waits_for_a_person_and_the_decision_is_used_once(
    verb: str, expected: list[str], tmp_path: Path
) -> None:
    with harness("claude", tmp_path, [append("one"), append("two"), DONE]) as s:
        child = s.begin("--approve", "Bash(*two*)")
        s.reaches("waiting")
        assert lines(s.work) == ["one"]
        s.strike("both", child)
        s.do(verb, "job")
        if s.info().status != "completed":
            s.do("resume", "job", "--yes")
        assert s.info().status == "completed"
        assert lines(s.work) == expected
        s.remembers(TASK, "writes one", "writes two")
        assert s.relight(verb, "job").returncode != 0, "a decision was taken twice"


@pytest.mark.parametrize(
    "lost",
    [
        "lambda command: 'env -i sh -c ' + __import__('shlex').quote(command)",
        "lambda command: command.replace('relight', 'nowhere')",
    ],
    ids=["environment", "program"],
)
def test_a_call_that_needs_approval_does_not_run_where_its_hook_cannot_ask(lost: str, tmp_path: Path) -> None:
    with harness("claude", tmp_path, [append("one"), DONE]) as s:
        s.dress(f"rewrite({lost})")
        s.run("--approve", "Bash(*)")
        assert s.info().status == "completed"
        assert lines(s.work) == []


@pytest.mark.timeout(600)
@pytest.mark.guarantee("G27")
def test_a_pause_ends_an_agent_at_work_and_all_that_it_started(
    tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    kinds = [*KINDS, *OTHERS]
    for kind in random.sample(kinds, sample(1, proof=len(kinds))):
        with harness(kind, tmp_path / kind, [append("one", "sleep 60"), DONE]) as s:
            child = s.begin()
            eventually(lambda s=s: lines(s.work) == ["one"], seconds=SECONDS, what="the call")  # type: ignore[misc]
            begun = time.monotonic()
            s.do("pause")
            seconds = time.monotonic() - begun
            assert s.marked() == [], kind
            assert seconds < allowed(PAUSE_SECONDS), kind
            assert child.wait(timeout=SECONDS) is not None
            assert (s.info().status, s.info().reason) == ("terminated", "paused")
            assert s.relight("resume", "job", "--yes").returncode == 4
            s.do("unpause")
            s.do("resume", "job", "--yes")
            assert s.info().status == "completed"
            figure("G27", f"{kind}: ended {seconds:.1f} s after `relight pause`")
