"""Coding agents in a queue: a worker runs them, drains them, and does not sit with one that waits."""

from __future__ import annotations

import signal

from tests.integration.processes.conftest import Open, harness
from tests.integration.processes.test_waiting import ONE, TOKEN, limited
from tests.support.program_harness import UNSET, ProgramHarness
from tests.support.shell import eventually

__all__ = ["harness"]


def put_in_line(s: ProgramHarness) -> None:
    done = s.relight("run", "--queue", "q", "--name", "job", "--", "claude", "-p", "do the task")
    assert done.returncode == 0, done.stderr


def test_a_drained_agent_goes_on_in_another_worker_as_if_nothing_had_been(harness: Open) -> None:
    s = harness([ONE, {"text": "second", "calls": [{"shell": "echo two > b.txt; sleep 3"}]}, {"text": "fin"}])
    put_in_line(s)
    first = s.start("worker", "--queue", "q", "--no-retention")
    eventually((s.work / "b.txt").exists, what="the second turn")
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=60) == 0, s.out()
    info = s.known()
    assert (info.status, info.attempt) == ("queued", 1)
    assert info.reason is not None and info.reason.startswith("its worker"), info.reason
    assert not s.agents()
    second = s.start("worker", "--queue", "q", "--no-retention", "--until-empty")
    assert second.wait(timeout=60) == 0, s.out()
    assert (s.known().status, s.known().attempt) == ("completed", 2)
    s.assert_whole("do the task", "first")


def test_a_worker_does_not_sit_with_an_agent_that_met_a_limit(harness: Open) -> None:
    s = harness([ONE, [limited(3600), {"text": "fin"}]], CLAUDE_CODE_OAUTH_TOKEN=TOKEN, ANTHROPIC_API_KEY=UNSET)
    put_in_line(s)
    worker = s.start("worker", "--queue", "q", "--no-retention", "--sweep", "0.5")
    info = eventually(lambda: (i := s.info()) and i.wake_at and i, what="a time to wake")
    assert (info.status, info.queue) == ("queued", "q")
    eventually(lambda: [one["running"] for one in s.json("worker", "--list")] == [[]], what="the worker is free")
    worker.terminate()
    assert worker.wait(timeout=60) == 0
    assert s.known().status == "queued"
    assert len(s.model.requests()) == 2, "nobody asked before the time had come"
