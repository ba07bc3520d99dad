"""kill -9 of the agent, of its supervisor, of both: nothing is lost, nothing is left running, the list is true."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import relight
from tests.integration.processes.conftest import Open
from tests.support.fake_model import texts
from tests.support.processes import alive
from tests.support.program_harness import ProgramHarness, kill
from tests.support.shell import eventually

pytestmark = pytest.mark.crash
TRUTH_SECONDS = 20.0
ONE = {"text": "first", "calls": [{"shell": "echo one > a.txt"}]}
STUCK = {"calls": [{"shell": "echo two >> b.txt; touch inside; exec sleep 15"}]}


def inside(s: ProgramHarness) -> int:
    """Wait until the agent is in the middle of a tool; its pid."""
    eventually((s.work / "inside").exists, what="the tool running")
    return s.the_agent()


def ended(child: subprocess.Popen[str]) -> int:
    return child.wait(timeout=60)


# -- the agent ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", ["0", "60000"], ids=["written down", "only told by hooks"])
def test_killed_inside_a_tool_it_goes_on_and_the_model_is_told_that_the_outcome_is_unknown(
    harness: Open, late: str
) -> None:
    s = harness([ONE, STUCK, {"text": "fin"}], SCRIPTED_AGENT_FLUSH_MS=late)
    child = s.begin()
    kill(inside(s))
    assert ended(child) == 0, s.out()
    info = s.known()
    assert (info.status, info.attempt) == ("completed", 2)
    s.assert_whole("do the task", *([] if late != "0" else ["first"]))
    assert (s.work / "a.txt").read_text() == "one\n"
    reported = s.results()[STUCK["calls"][0]["shell"]]
    assert "outcome unknown" in reported and "b.txt" in reported, "the model hears of the doubt and of the evidence"
    assert (s.work / "b.txt").read_text() == "two\n"
    assert not s.marked(), "the shell command survived its agent"


def test_killed_between_two_turns_it_goes_on_with_all_it_said(harness: Open) -> None:
    s = harness([ONE, [{"hang": "before"}, {"calls": [{"shell": "cat a.txt"}]}], {"text": "fin"}])
    child = s.begin()
    s.model.wait_for(2)
    kill(s.the_agent())
    assert ended(child) == 0, s.out()
    s.assert_whole("do the task", "first", "one")
    assert s.known().attempt == 2


def test_killed_while_the_model_streams_it_asks_again_and_repeats_no_call(harness: Open) -> None:
    s = harness([ONE, [{"text": "half of an answer", "hang": "mid"}, {"text": "fin"}]])
    child = s.begin()
    s.model.wait_for(2)
    kill(s.the_agent())
    assert ended(child) == 0, s.out()
    s.assert_whole("do the task", "first")
    assert (s.work / "a.txt").read_text() == "one\n"
    assert [request.slot for request in s.model.requests()].count(0) == 1


def test_a_result_that_a_hook_told_is_known_though_the_agent_had_not_written_it_down(harness: Open) -> None:
    """Lines reach the disk only at the end: everything the journal has came by hooks."""
    s = harness(
        [{"calls": [{"shell": "echo paid >> bills"}]}, [{"hang": "before"}, {"text": "fin"}]],
        SCRIPTED_AGENT_FLUSH_MS="60000",
    )
    child = s.begin()
    s.model.wait_for(2)
    kill(s.the_agent())
    assert ended(child) == 0, s.out()
    assert (s.work / "bills").read_text() == "paid\n", "a bill was paid twice"
    s.assert_whole()


def test_a_prompt_of_shell_words_is_never_run_by_a_shell(harness: Open) -> None:
    s = harness([[{"hang": "before"}, {"hang": "mid"}, {"text": "fin"}]])
    child = s.begin("; touch marker #")
    for number in (1, 2):
        s.model.wait_for(number)
        kill(s.the_agent())
        s.model.wait_for(number + 1)
    assert ended(child) == 0, s.out()
    assert "; touch marker #" in texts(s.last(), "user")
    assert not list(s.base.rglob("marker"))


def test_what_a_killed_agent_left_running_is_ended_before_it_goes_on(harness: Open) -> None:
    left = {"calls": [{"shell": "echo $$ > pid; touch inside; exec sleep 15"}]}
    s = harness([left, {"text": "fin", "delay": 0.3}])
    child = s.begin()
    kill(inside(s))
    s.model.wait_for(2)
    assert not alive(int((s.work / "pid").read_text())), "two hands on the same files"
    assert ended(child) == 0, s.out()


def test_a_prompt_that_died_with_its_agent_is_said_again(harness: Open) -> None:
    s = harness([{"text": "first"}, [{"hang": "before"}, {"text": "fin"}]])
    assert s.run().returncode == 0
    child = s.start("resume", "job", "and the docs", "--yes", SCRIPTED_AGENT_FLUSH_MS="60000")
    s.model.wait_for(2)
    kill(s.the_agent())
    assert ended(child) == 0, s.out()
    assert texts(s.last(), "user").count("and the docs") == 1


def test_a_prompt_that_the_agent_wrote_down_is_not_said_twice(harness: Open) -> None:
    s = harness([{"text": "first"}, [{"hang": "before"}, {"text": "fin"}]])
    assert s.run().returncode == 0
    child = s.start("resume", "job", "and the docs", "--yes")
    s.model.wait_for(2)
    kill(s.the_agent())
    assert ended(child) == 0, s.out()
    assert texts(s.last(), "user").count("and the docs") == 1


# -- the supervisor -------------------------------------------------------------------------------------------


def truth(s: ProgramHarness, expected: str, name: str = "job") -> None:
    """`relight list` says it within the time that is promised, without anybody having helped."""
    since = time.monotonic()
    eventually(
        lambda: [row for row in s.json("list", "--all") if row["name"] == name and row["status"] == expected],
        seconds=TRUTH_SECONDS,
        what=f"the list saying {expected}",
    )
    assert time.monotonic() - since < TRUTH_SECONDS


def test_without_its_supervisor_it_can_be_resumed_and_no_orphan_is_left(harness: Open) -> None:
    s = harness([ONE, STUCK, {"text": "fin"}])
    child = s.begin()
    agent = inside(s)
    child.kill()
    child.wait()
    done = s.relight("resume", "job", "--yes")
    assert done.returncode == 0, done.stderr
    assert not alive(agent), "two agents of one session"
    s.assert_whole("do the task", "first")
    assert "outcome unknown" in s.results()[STUCK["calls"][0]["shell"]]
    assert not s.marked()
    assert s.known().status == "completed"


def test_after_both_were_killed_the_list_is_true_and_it_resumes(harness: Open) -> None:
    s = harness([ONE, STUCK, {"text": "fin"}])
    child = s.begin()
    agent = inside(s)
    child.kill()
    kill(agent)
    child.wait()
    truth(s, "terminated")
    done = s.relight("resume", "job", "--yes")
    assert done.returncode == 0, done.stderr
    s.assert_whole("do the task", "first")
    assert (s.work / "b.txt").read_text() == "two\n", "it ran again without a word"
    assert not s.marked()


def test_an_agent_does_not_outlive_its_supervisor_for_long(harness: Open) -> None:
    s = harness([ONE, [{"hang": "before"}, {"text": "fin"}]])
    child = s.begin()
    s.model.wait_for(2)
    child.kill()
    child.wait()
    eventually(lambda: not s.agents(), seconds=TRUTH_SECONDS, what="the agent ending")
    truth(s, "terminated")


def test_two_resumes_at_once_are_one(harness: Open) -> None:
    s = harness([ONE, [{"hang": "before"}, {"hang": "before"}, {"text": "fin"}]])
    first = s.begin()
    s.model.wait_for(2)
    first.kill()
    first.wait()
    second = s.start("resume", "job", "--yes")
    s.model.wait_for(3)
    refused = s.relight("resume", "job", "--yes")
    assert refused.returncode == 4, refused.stderr
    assert len(s.agents()) == 1
    kill(s.the_agent())
    assert ended(second) == 0, s.out()
    s.assert_whole("do the task", "first")


def test_stopped_it_can_be_resumed(harness: Open) -> None:
    s = harness([ONE, [{"hang": "before"}, {"text": "fin"}]])
    child = s.begin()
    s.model.wait_for(2)
    assert s.relight("stop", "job").returncode == 0
    ended(child)
    assert s.known().status == "terminated"
    assert not s.marked()
    assert s.relight("resume", "job", "--yes").returncode == 0
    s.assert_whole("do the task", "first")


def test_a_hook_that_finds_nobody_breaks_nothing(harness: Open, tmp_path: Path) -> None:
    """The socket is gone while the agent runs: it goes on, and what its transcript says is recorded."""
    release = {"calls": [{"shell": "touch inside; until test -e release; do sleep 0.05; done"}]}
    s = harness([release, {"calls": [{"shell": "echo after > d.txt"}]}, {"text": "fin"}])
    child = s.begin()
    inside(s)
    [socket] = s.store.parent.rglob("hook")
    socket.unlink()
    (s.work / "release").touch()
    assert ended(child) == 0, s.out()
    info = s.known()
    assert (info.status, info.attempt, info.said) == ("completed", 1, "fin")
    assert (s.work / "d.txt").read_text() == "after\n"


# -- the supervisor, once its agent was told ------------------------------------------------------------------


@pytest.mark.parametrize("runtime", ["process", "tmux"])
def test_a_prompt_that_the_agent_took_without_its_supervisor_is_not_said_again(
    harness: Open, program: Callable[[str], str], runtime: str
) -> None:
    """Only relight is killed once its agent runs; the agent writes down what it was told, and relight comes back."""
    if runtime == "tmux":
        program("tmux")
    s = harness([{"text": "first"}])
    assert s.run("do the task", "--runtime", runtime).returncode == 0
    s.play([[{"text": "work", "calls": [{"shell": "touch inside; echo deployed >> side.txt"}]}, {"text": "other"}],
            {"text": "fin"}, {"text": "fin"}])  # fmt: skip
    before = s.known().seq
    child = s.start("resume", "job", "deploy it now", "--yes")
    eventually(lambda: _has_started(s, before), what="the agent started")
    child.send_signal(signal.SIGSTOP)  # it sees nothing of what follows; a process without a place dies with it
    eventually(lambda: _wrote_down(s, "deploy it now"), what="the agent writing down what it was told")
    child.kill()
    child.wait()
    back = s.relight("resume", "job", "--yes", "--json")
    assert back.returncode == 0, back.stderr
    assert not json.loads(back.stdout)["prompt_sent"]
    assert texts(s.last(), "user").count("deploy it now") == 1, s.evidence()
    again = s.relight("resume", "job", "deploy it now", "--yes")
    assert again.returncode == 0, again.stderr
    assert texts(s.last(), "user").count("deploy it now") == 2, "said again on purpose, it is another prompt"


def _has_started(s: ProgramHarness, after: int) -> bool:
    with relight.open(s.store, create=False) as rl:
        return any("started" in step.note for step in rl.history.events("job", after=after))


def _wrote_down(s: ProgramHarness, prompt: str) -> bool:
    return any(prompt in path.read_text() for path in s.transcripts())
