"""A task goes on in the next agent when the first one may not: at once, as one session, with its whole history."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import relight
from relight.errors import UsageError
from relight.history.loading import resolve
from relight.library.facade import Relight
from relight.supervision.failover import Failover, next_agent
from relight.values.ending import Scope, Verdict
from relight.values.options import ResumeOptions, RunOptions
from relight.values.policy import RunPolicy
from tests.support import small_codex
from tests.support.program_harness import UNSET, ProgramHarness

TOKEN = "sk-ant-oat01-fakefakefakefake"


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
    small_codex.install(made.bin)
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
        RunPolicy(approve_within=60.0),
    ):
        with relight.open(harness.store) as rl, pytest.raises(UsageError):
            options = RunOptions(directory=str(harness.work), agent="claude", policy=policy)
            rl.runs.plan_launch(["claude", "-p", "x"], options)


def test_a_session_that_waits_for_the_end_of_a_limit_is_resumed_with_agents_that_continue_it(
    harness: ProgramHarness,
) -> None:
    child = harness.begin()
    harness.reaches("queued")
    child.send_signal(signal.SIGINT)  # which leaves it queued
    child.wait(60)
    refused = harness.relight("resume", "job", "--fallback", "claude", "--yes")
    assert refused.returncode == 2 and "cannot continue" in refused.stderr
    refused = harness.relight("resume", "job", "--return", "--yes")
    assert refused.returncode == 2 and "--return needs other agents" in refused.stderr
    done = harness.relight("resume", "job", "--fallback", "codex", "--return", "--yes")
    assert done.returncode == 0, done.stderr
    info = harness.known()
    assert (info.status, info.agent) == ("completed", "codex")
    with relight.open(harness.store) as rl:
        policy = resolve(rl.store, "job").identity.policy
        assert (policy.fallback, policy.returns) == (("codex",), True), "they belong to the session from now on"
        again = rl.runs.plan("job", options=ResumeOptions(prompt="more", fallback=("codex", "pi")))
        assert again.agent is not None, "the agent that continues it at present may be named again"


def created(harness: ProgramHarness, rl: Relight, policy: RunPolicy) -> Failover:
    """The failover of a session that has not been started."""
    options = RunOptions(directory=str(harness.work), agent="claude", name="job", policy=policy)
    session = rl.runs.create(["claude", "-p", "x"], options).id
    return Failover(rl._context, session)


def apply(rl: Relight, failover: Failover) -> None:
    """As the claim of the next attempt does."""
    if (handed := failover.next()) is not None:
        rl.store.update(handed.after.id, handed.over)


def verdict(kind: Any, cure: Any, wake_us: int | None = None) -> Verdict:
    return Verdict(kind=kind, source="result", scope=Scope(provider="anthropic"), text="no", cure=cure, wake_us=wake_us)


def test_the_last_permitted_usage_limit_halts(harness: ProgramHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(harness.bin))
    with relight.open(harness.store) as rl:
        failover = created(harness, rl, RunPolicy(fallback=("codex",), windows=2))
        first = failover.decide(verdict("usage_limit", "wait_until", wake_us=2**60))
        assert first is not None and first.again and "it continues in codex" in (first.change.reason or "")
        apply(rl, failover)
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
        rl.store.update(rl.sessions.get("job").id, lambda now: msgspec.structs.replace(now, name="renamed"))
        apply(rl, failover)
        rl.store.update(rl.sessions.get("renamed").id, lambda now: msgspec.structs.replace(now, name="job"))
        assert rl.sessions.get("job").agent == "codex"
        apply(rl, failover)
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


def test_the_next_agent_is_the_first_that_has_not_failed() -> None:
    order = ["codex", "pi"]

    def after(current: str, *unusable: str, returns: bool = False) -> str | None:
        return next_agent(current, order, home="claude", returns=returns, unusable=set(unusable))

    assert after("claude", "claude") == "codex"
    assert after("codex", "claude", "codex") == "pi"
    assert after("pi", "claude", "codex", "pi") is None
    assert after("codex", "codex") == "pi"  # without a return the first agent is not tried again
    assert after("codex", "codex", returns=True) == "claude"
    assert after("codex", "codex", "claude", returns=True) == "pi"
