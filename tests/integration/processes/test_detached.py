"""In the background, and after a reboot: what was running comes back without anybody having watched it."""

from __future__ import annotations

import pytest

from tests.integration.processes.conftest import Open
from tests.support.program_harness import ProgramHarness, kill
from tests.support.shell import eventually

pytestmark = pytest.mark.crash
ONE = {"text": "first", "calls": [{"shell": "echo one > a.txt"}]}


def killed_all(s: ProgramHarness) -> None:
    """What a power cut leaves: nothing."""
    for _ in range(3):
        for pid in s.processes():
            kill(pid)
    eventually(lambda: not s.processes(), what="silence")


def test_detached_it_goes_on_after_its_terminal_and_survives_a_kill(harness: Open) -> None:
    s = harness([ONE, [{"hang": "before"}, {"text": "fin"}]])
    started = s.run("do the task", "--detach")
    assert started.returncode == 0, started.stderr
    s.model.wait_for(2)
    kill(s.the_agent())
    info = s.reaches("completed")
    assert (info.attempt, info.said) == (2, "fin")
    s.assert_whole("do the task", "first")
    eventually(lambda: not s.processes(), what="its supervisor ending too")


def test_after_a_power_cut_everything_that_ran_comes_back(harness: Open) -> None:
    s = harness([ONE, [{"hang": "before"}, {"hang": "before"}, {"text": "fin"}]])
    for name in ("one", "two"):
        s.begin("do the task", name=name)
    s.model.wait_for(4)
    killed_all(s)
    assert {row["status"] for row in s.json("list", "--all")} == {"terminated"}
    back = s.relight("resume", "--all", "--yes")
    assert back.returncode == 0, back.stderr
    for name in ("one", "two"):
        assert s.reaches("completed", name).attempt == 2
    s.assert_whole("do the task", "first")


def test_a_prompt_given_to_a_stopped_session_is_its_next_words(harness: Open) -> None:
    s = harness([ONE, {"text": "fin"}, {"text": "more"}])
    assert s.run().returncode == 0
    sent = s.relight("send", "job", "and now the docs")
    assert sent.returncode == 0, sent.stderr
    assert s.relight("resume", "job", "--yes").returncode == 0
    s.assert_whole("do the task", "first", "fin", "and now the docs")
    assert s.known().said == "more"


def test_the_users_own_hooks_and_settings_hold_under_relight(harness: Open) -> None:
    s = harness([ONE, {"text": "fin"}])
    reported = s.base / "told"
    mine = s.base / "mine.json"
    hook = f'{{"type": "command", "command": "cat >> {reported}; echo >> {reported}"}}'
    mine.write_text(f'{{"hooks": {{"PostToolUse": [{{"matcher": "Bash", "hooks": [{hook}]}}]}}}}')
    words = s.words("do the task", name="job")
    done = s.relight(*words, "--settings", str(mine))
    assert done.returncode == 0, done.stderr
    assert reported.read_text().count("PostToolUse") == 1
    assert any("a.txt" in str(step) for step in s.steps()), "and relight was told too"
    assert mine.read_text().count("command") == 2, "the user's file is as it was"
