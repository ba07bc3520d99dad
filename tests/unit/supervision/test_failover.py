"""A task goes on in the next agent when the first one may not: at once, as one session, with its whole history."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import UsageError
from relight.library.facade import Relight
from relight.supervision.failover import Failover
from relight.values.ending import Scope, Verdict
from relight.values.options import RunOptions
from relight.values.policy import RunPolicy
from tests.support.program_harness import UNSET, ProgramHarness

TOKEN = "sk-ant-oat01-fakefakefakefake"
CODEX = f"""#!{sys.executable} -IS
# As much of Codex as a hand-over needs: it continues the thread it is asked for.
import json, os, pathlib, sys
words = sys.argv[1:]
at = words.index("--")
thread, prompt = words[at + 1], words[at + 2]
[rollout] = pathlib.Path(os.environ["HOME"], ".codex", "sessions").rglob(f"rollout-*-{{thread}}.jsonl")
before = [json.loads(line) for line in rollout.read_text().splitlines()]
print(json.dumps({{"type": "thread.started", "thread_id": thread}}), flush=True)
said = [("user", "input_text", prompt), ("assistant", "output_text", "codex went on")]
items = [{{"type": "message", "role": r, "content": [{{"type": k, "text": t}}]}} for r, k, t in said]
lines = [("response_item", item) for item in items] + [("event_msg", {{"type": "task_complete", "turn_id": "t"}})]
with rollout.open("a") as file:
    for number, (kind, payload) in enumerate(lines, len(before)):
        stamp = f"2026-11-16T12:00:0{{number % 10}}.{{number:03d}}Z"
        file.write(json.dumps({{"timestamp": stamp, "ordinal": number, "type": kind, "payload": payload}}) + "\\n")
print(json.dumps({{"type": "turn.completed", "usage": {{}}}}), flush=True)
"""


def limit(reset: int) -> dict[str, Any]:
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(reset),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
    }
    return {"status": 429, "headers": headers}


@pytest.fixture
def harness(tmp_path: Path) -> Any:
    script = [{"text": "looks", "calls": [{"shell": "echo one >> log.txt"}]}, [limit(int(time.time()) + 3600)]]
    made = ProgramHarness(tmp_path, script, CLAUDE_CODE_OAUTH_TOKEN=TOKEN, ANTHROPIC_API_KEY=UNSET)
    (made.bin / "codex").write_text(CODEX)
    (made.bin / "codex").chmod(0o755)
    yield made
    made.close()


def test_a_limit_hands_the_task_to_the_next_agent_at_once(harness: ProgramHarness) -> None:
    done = harness.run("do the task", "--fallback", "codex", "--return")
    assert done.returncode == 0, done.stderr
    info = harness.known()
    assert (info.status, info.agent) == ("completed", "codex")
    steps = harness.steps()
    [fell] = [one for one in steps if one.status and "it continues in codex" in (one.status["reason"] or "")]
    [began] = [one for one in steps if one.note.get("started") and one.seq > fell.seq]
    assert (began.at - fell.at).total_seconds() < 2.0
    with relight.open(harness.store) as rl:
        said = str(rl.history.messages("job", format="anthropic"))
        assert all(part in said for part in ("do the task", "echo one", "codex went on"))
        plan = rl.runs.plan("job")
        assert plan.command is not None and plan.command[0] == "codex"  # the limit is not over
    assert (harness.work / "log.txt").read_text() == "one\n"


def test_a_failover_that_could_never_happen_is_refused(
    harness: ProgramHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(harness.bin))
    for policy in (
        RunPolicy(fallback=("nothing",)),
        RunPolicy(fallback=("claude",)),
        RunPolicy(returns=True),
        RunPolicy(quiet_hours="at night"),
        RunPolicy(fallback=("codex",), approve=("Bash",)),
    ):
        with relight.open(harness.store) as rl, pytest.raises(UsageError):
            options = RunOptions(directory=str(harness.work), agent="claude", policy=policy)
            rl.runs.plan_launch(["claude", "-p", "x"], options)


def created(harness: ProgramHarness, rl: Relight, policy: RunPolicy) -> Failover:
    """The failover of a session that has not been started."""
    options = RunOptions(directory=str(harness.work), agent="claude", name="job", policy=policy)
    session = rl.runs.create(["claude", "-p", "x"], options).id
    return Failover(rl._context, session)


def verdict(kind: Any, cure: Any, wake_us: int | None = None) -> Verdict:
    return Verdict(kind=kind, source="result", scope=Scope(provider="anthropic"), text="no", cure=cure, wake_us=wake_us)


def test_the_last_permitted_usage_limit_halts(harness: ProgramHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(harness.bin))
    with relight.open(harness.store) as rl:
        failover = created(harness, rl, RunPolicy(fallback=("codex",), windows=2))
        first = failover.decide(verdict("usage_limit", "wait_until", wake_us=2**60))
        assert first is not None and first.again and "it continues in codex" in (first.change.reason or "")
        failover.apply()
        second = Failover(rl._context, rl.sessions.get("job").id).decide(verdict("usage_limit", "wait_until"))
        assert second is not None and second.change.status == "halted"  # counted over restarts of the supervisor


def test_without_another_agent_the_ending_is_treated_as_ever(
    harness: ProgramHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(harness.bin))
    with relight.open(harness.store) as rl:
        failover = created(harness, rl, RunPolicy(fallback=("codex",)))
        assert failover.decide(verdict("crashed", "resume")) is None
        assert failover.decide(verdict("network", "backoff")) is None
        (harness.bin / "codex").unlink()
        assert failover.decide(verdict("auth", "ask")) is None
        assert rl.sessions.get("job").agent == "claude"


@pytest.mark.parametrize("returns", [True, False])
def test_it_returns_when_the_limit_is_over_if_it_may(
    harness: ProgramHarness, monkeypatch: pytest.MonkeyPatch, returns: bool
) -> None:
    monkeypatch.setenv("PATH", str(harness.bin))
    with relight.open(harness.store) as rl:
        failover = created(harness, rl, RunPolicy(fallback=("codex",), returns=returns))
        assert failover.decide(verdict("usage_limit", "wait_until", wake_us=1)) is not None
        failover.apply()
        assert rl.sessions.get("job").agent == "codex"
        failover.apply()
        assert rl.sessions.get("job").agent == ("claude" if returns else "codex")
        plan = rl.runs.plan("job")
        assert plan.command is not None and plan.command[:2] == (["claude", "-p"] if returns else ["codex", "exec"])


def test_in_quiet_hours_nothing_starts_and_a_time_is_known(harness: ProgramHarness) -> None:
    now = datetime.now(UTC)
    hours = f"{now - timedelta(minutes=5):%H:%M}-{now + timedelta(minutes=90):%H:%M}"
    words = harness.words("do the task", "--quiet-hours", hours, "--detach", name="job")
    done = harness.relight(*words, TZ="UTC")
    assert done.returncode == 0, done.stderr
    info = harness.known()
    assert (info.status, info.reason) == ("queued", "quiet hours")
    assert info.wake_at is not None and timedelta(minutes=80) < info.wake_at - now < timedelta(minutes=91)
    assert harness.model.requests() == []
