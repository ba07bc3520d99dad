"""kill -9 of real agents and of their supervisors, at every kind of moment: all is remembered, nothing is left."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.agent_harness import KINDS, SECONDS, TASK, UNKNOWN, AgentHarness, append, harness, lines
from tests.support.figures import Figure
from tests.support.shell import eventually

pytestmark = [pytest.mark.agents, pytest.mark.crash]
TRUTH_SECONDS = 5.0
STUCK = append("two", "exec sleep 60")
DONE = {"text": "all done"}


def truth(s: AgentHarness, status: str) -> float:
    """After how long `relight list` was asked that says it, without anybody having helped.

    How long it took to answer is the machine's affair.
    """
    since = time.monotonic()
    while True:
        asked = time.monotonic() - since
        said = [row["status"] for row in s.json("list", "--all") if row["name"] == "job"]
        if said == [status]:
            return asked
        assert asked < TRUTH_SECONDS, f"{asked:.1f} s after the kill it is said to be {said}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_to_its_end_and_its_journal_is_whole(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("one"), append("two"), DONE]) as s:
        s.run()
        info = s.info()
        assert (info.status, info.attempt, info.said, info.turns) == ("completed", 1, "all done", 3)
        assert lines(s.work) == ["one", "two"]
        s.remembers(TASK, "writes one", "writes two")
        s.do("verify", "job")
        assert not s.marked()


@pytest.mark.parametrize("victim", ["agent", "supervisor", "both"])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_inside_a_tool_the_model_is_told_what_is_unknown_and_what_changed(
    kind: str, victim: str, tmp_path: Path, figure: Figure
) -> None:
    with harness(kind, tmp_path, [append("one"), STUCK, DONE]) as s:
        child = s.begin()
        eventually(lambda: lines(s.work) == ["one", "two"], seconds=SECONDS, what="the tool running")
        eventually(lambda: s.has_written("writes two"), seconds=SECONDS, what="its transcript")
        agent = s.the_agent()
        s.strike(victim, child)
        if victim == "agent":
            s.ends(child)
        else:
            seconds = truth(s, "terminated")
            figure("G12", f"{kind}, {victim} killed: the list was true after {seconds:.1f} s")
            s.do("resume", "job", "--yes")
        assert agent not in s.agents()
        assert (s.info().status, s.info().attempt) == ("completed", 2)
        s.remembers(TASK, "writes one", "writes two")
        reported = s.reported("echo two")
        assert UNKNOWN in reported and "log.txt" in reported, reported
        assert UNKNOWN not in s.reported("echo one")
        assert lines(s.work) == ["one", "two"]
        assert not s.marked(), "an orphan was left"
        s.do("verify", "job")


@pytest.mark.parametrize(
    ("moment", "victim"), [("before", "agent"), ("mid", "both")], ids=["between turns", "while the model streams"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_killed_while_the_model_answers_nothing_is_done_twice(
    kind: str, moment: str, victim: str, tmp_path: Path
) -> None:
    again = append("two")
    with harness(kind, tmp_path, [append("one"), [{**again, "hang": moment}, again], DONE]) as s:
        child = s.begin()
        s.model.wait_for(2, SECONDS)
        s.the_agent()
        s.strike(victim, child)
        if victim == "agent":
            s.ends(child)
        else:
            s.do("resume", "job", "--yes")
        assert s.info().status == "completed"
        assert lines(s.work) == ["one", "two"]
        s.remembers(TASK, "writes one", "writes two")
        assert all(UNKNOWN not in result for _, result in s.results())
        assert [request.slot for request in s.model.requests()].count(0) == 1
        assert not s.marked()


@pytest.mark.parametrize("kind", KINDS)
def test_two_resumes_at_once_are_one_and_the_other_learns_who_has_it(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("one"), [{"hang": "before"}, {"hang": "before"}, DONE]]) as s:
        first = s.begin()
        s.model.wait_for(2, SECONDS)
        s.strike("both", first)
        second = s.start("resume", "job", "--yes")
        s.model.wait_for(3, SECONDS)
        refused = s.relight("resume", "job", "--yes")
        assert refused.returncode == 4, refused.stderr
        assert f"pid {second.pid}" in refused.stderr
        assert len(s.agents()) == 1
        s.strike("agent", second)
        s.ends(second)
        s.remembers(TASK, "writes one")


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_it_goes_on_with_new_words(kind: str, tmp_path: Path) -> None:
    with harness(kind, tmp_path, [append("one"), [{"hang": "before"}, append("two")], DONE]) as s:
        child = s.begin()
        s.model.wait_for(2, SECONDS)
        s.do("stop", "job")
        child.wait(timeout=SECONDS)
        assert s.info().status == "terminated"
        assert not s.marked()
        s.do("resume", "job", "and now finish", "--yes")
        s.remembers(TASK, "writes one", "and now finish")
        assert lines(s.work) == ["one", "two"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_of_shell_words_is_said_and_never_run(kind: str, tmp_path: Path) -> None:
    prompt = "; touch marker #"
    with harness(kind, tmp_path, [[{"hang": "before"}, {"hang": "mid", "text": "half"}, DONE]]) as s:
        child = s.begin(prompt=prompt)
        for number in (1, 2):
            s.model.wait_for(number, SECONDS)
            s.strike("agent", child)
        s.ends(child)
        s.remembers(prompt)
        assert not list(tmp_path.rglob("marker"))
