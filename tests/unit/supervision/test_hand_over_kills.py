"""A hand-over that fails or is killed: the conversation is the old one or the new one, whole, with one owner."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.history.loading import resolve
from relight.system.durable import Written
from tests.support import small_codex
from tests.support.figures import Figure
from tests.support.program_harness import ProgramHarness

TASK, PROMPT = "do the task", "now the second part"
SCRIPT = [{"text": "looks", "calls": [{"shell": "echo one >> log.txt"}]}, {"text": "first part done"}, {"text": "more"}]
MOST_COMMITS = 20
"""more than a hand-over and the turn after it have"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[ProgramHarness]:
    made = begun(tmp_path)
    yield made
    made.close()


def begun(base: Path) -> ProgramHarness:
    """A task that Claude Code has completed."""
    made = ProgramHarness(base, SCRIPT)
    small_codex.install(made.bin)
    done = made.run(TASK)
    assert done.returncode == 0, done.stderr
    return made


def state(job: ProgramHarness) -> tuple[Any, ...]:
    """The agent, its native session, and the conversation in its format."""
    with relight.open(job.store, create=False) as rl:
        found = resolve(rl.store, "job")
        identity = found.identity
        messages = rl.history.load("job").messages
        return identity.agent, identity.command, identity.commands, found.whole_head().native, messages


def test_an_agent_that_cannot_be_started_leaves_the_conversation_as_it_was(job: ProgramHarness) -> None:
    before = state(job)
    (job.bin / "codex").write_bytes(b"\x7fELF, and then nothing that a machine could run")
    done = job.relight("resume", "job", PROMPT, "--agent", "codex", "--yes")
    assert done.returncode != 0
    assert state(job) == before
    assert any("handed_over" in one.note for one in job.steps())  # it came so far, and was taken back
    assert not list(job.home.rglob("rollout-*.jsonl")), "the native session that was written for it was left"
    assert job.relight("verify", "job").returncode == 0
    done = job.relight("resume", "job", "--yes")
    assert done.returncode == 0, done.stderr
    job.assert_whole(TASK, "first part done", PROMPT)
    assert [one.note["started"]["rung"] for one in job.steps() if one.note.get("started")] == ["fresh", "native"]


def test_a_native_session_is_removed_only_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "rollout.jsonl"
    path.write_text("ours")
    written = Written.at(path)
    path.write_text("its agent has added to it")
    written.remove()
    assert path.exists()
    Written.at(path).remove()
    assert not path.exists()
    written.remove()  # of one that is gone already nothing is left to do


def test_a_hand_over_killed_at_any_step_continues_whole_in_one_of_both(
    tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    points = [f"{name}:{nth}" for nth in range(1, MOST_COMMITS) for name in ("commit.enter", "commit.committed")]
    points.append("session.handed_over:1")
    random.shuffle(points)
    wanted, killed = sample(1, proof=len(points)), 0
    for number, point in enumerate(points):
        if killed < wanted:
            killed += one_kill(tmp_path / str(number), point)
    figure("G7", f"{killed} hand-overs killed at a step: the conversation is whole, in one of both agents")


def one_kill(base: Path, point: str) -> bool:
    """Whether the hand-over reached the point, where it was killed."""
    job = begun(base)
    try:
        before, steps = state(job), len(job.steps())
        child = job.start("resume", "job", PROMPT, "--agent", "codex", "--yes", RELIGHT_FAULT=f"{point}:kill")
        assert child.wait(60) in (0, -signal.SIGKILL), job.out()
        is_killed = child.returncode != 0
        if len(job.steps()) == steps:  # not even claimed
            assert is_killed and state(job) == before
            return True
        agent, _, _, native, messages = state(job)
        assert native is not None
        form = "claude_code" if any("uuid" in one for one in messages) else "codex"
        assert agent in ("claude", "codex")
        assert form == "claude_code" or agent == "codex", f"{point}: {agent} has a conversation of {form}"
        if is_killed:
            done = job.relight("resume", "job", "--yes")
            assert done.returncode in (0, 4), f"{point}: {done.stderr}"
        assert job.known().status == "completed", point
        with relight.open(job.store, create=False) as rl:
            said = str(rl.history.messages("job", format="openai_chat"))
        for part in (TASK, "echo one", "first part done", PROMPT):
            assert said.count(part) == 1, f"{point}: {part} in {said}"
        assert (job.work / "log.txt").read_text() == "one\n"
        assert job.marked() == []
        assert job.relight("verify", "job").returncode == 0
        return is_killed
    finally:
        job.close()
