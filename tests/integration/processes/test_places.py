"""Agents in tmux: the place outlasts them, what is typed reaches the agent or nobody, and the server may die."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable

import pytest

from tests.integration.processes.conftest import Open
from tests.support.fake_model import texts
from tests.support.figures import Figure
from tests.support.files_on_disk import files_below
from tests.support.processes import alive
from tests.support.program_harness import ProgramHarness, kill
from tests.support.shell import eventually

ONE = {"text": "first", "calls": [{"shell": "echo one > a.txt"}]}
TMUX = ("--runtime", "tmux")
pytestmark = pytest.mark.crash


@pytest.fixture(autouse=True)
def tmux(program: Callable[[str], str]) -> str:
    return program("tmux")


def socket_of(s: ProgramHarness) -> str:
    return str(s.store.parent / f"{s.store.name}.run" / "tmux" / "tmux.sock")


def server_of(s: ProgramHarness) -> int:
    asked = ["tmux", "-S", socket_of(s), "display-message", "-p", "#{pid}"]
    return int(subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60).stdout)


def screen_of(s: ProgramHarness) -> str:
    handle = s.known().handle
    asked = ["tmux", "-S", socket_of(s), "capture-pane", "-p", "-t", f"={handle}:"]
    return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60).stdout


def dead(pid: int) -> bool:
    return not alive(pid)


def interactive(s: ProgramHarness, name: str = "job") -> subprocess.Popen[str]:
    """An agent that shows a screen and waits for words."""
    child = s.start("run", "--name", name, "--workspace", str(s.work), *TMUX, "--", "claude", "do the task")
    s.reaches("working", name)
    return child


def test_killed_in_its_pane_it_goes_on_in_the_same_place(harness: Open) -> None:
    s = harness([ONE, [{"hang": "before"}, {"text": "fin"}]])
    child = s.begin("do the task", *TMUX)
    s.model.wait_for(2)
    before = s.known().handle
    kill(s.the_agent())
    assert child.wait(timeout=60) == 0, s.out()
    assert s.known().handle == before
    s.assert_whole("do the task", "first")
    assert not s.agents()


def test_after_the_server_died_the_list_is_true_and_it_comes_back_under_the_same_name(harness: Open) -> None:
    s = harness([ONE, [{"hang": "before"}, {"hang": "before"}, {"text": "fin"}]])
    child = s.begin("do the task", *TMUX)
    s.model.wait_for(2)
    before, server = s.known().handle, server_of(s)
    child.kill()
    child.wait()
    kill(server)
    eventually(
        lambda: [row["status"] for row in s.json("list", "--all")] == ["terminated"],
        seconds=5.0,
        what="the list saying terminated",
    )
    again = s.start("resume", "job", "--yes")
    s.model.wait_for(3)
    assert s.known().handle == before
    assert server_of(s) != server
    kill(s.the_agent())
    assert again.wait(timeout=60) == 0, s.out()
    s.assert_whole("do the task", "first")
    assert not s.agents()


def test_after_the_server_died_under_a_living_supervisor_it_goes_on_in_the_same_place(harness: Open) -> None:
    s = harness([ONE, [{"hang": "before"}, {"text": "fin"}]])
    child = s.begin("do the task", *TMUX)
    s.model.wait_for(2)
    kill(server_of(s))
    child.wait(timeout=60)
    assert s.known().status == "completed"
    assert s.known().attempt == 2
    s.assert_whole("do the task", "first")
    assert not s.marked()


def test_an_agent_in_tmux_outlives_its_supervisor_and_is_taken_up_again(harness: Open) -> None:
    release = {"calls": [{"shell": "touch inside; until test -e release; do sleep 0.05; done; echo x >> late"}]}
    s = harness([ONE, release, {"text": "fin"}])
    child = s.begin("do the task", *TMUX)
    eventually((s.work / "inside").exists, what="the tool running")
    agent = s.the_agent()
    child.kill()
    child.wait()
    assert alive(agent)
    again = s.start("resume", "job", "--yes")
    eventually(lambda: s.known().attempt == 2 and s.known().status == "working", what="the second supervisor")
    (s.work / "release").touch()
    assert again.wait(timeout=60) == 0, s.out()
    assert (s.work / "late").read_text() == "x\n", s.evidence()
    s.assert_whole("do the task", "first")


def test_what_is_sent_reaches_the_agent_as_its_next_prompt(harness: Open) -> None:
    s = harness([{"text": "hello"}, {"text": "as you like"}])
    interactive(s)
    eventually(lambda: "hello" in screen_of(s), what="the first answer on the screen")
    sent = s.relight("send", "job", "; touch marker #")
    assert sent.returncode == 0, sent.stderr
    s.model.wait_for(2)
    assert "; touch marker #" in texts(s.last(), "user")
    assert not (s.work / "marker").exists()


def _goes_on(s: ProgramHarness, child: subprocess.Popen[str]) -> bool:
    return child.poll() is not None or bool(s.agents())


@pytest.mark.guarantee("G25")
def test_what_is_sent_to_a_dying_agent_is_never_run_by_a_shell(
    harness: Open, sample: Callable[..., int], figure: Figure
) -> None:
    deaths = sample(3, proof=100)
    s = harness([{"text": "hello"}])
    child = interactive(s)
    for number in range(deaths):
        agent = s.the_agent()
        sending = s.start("send", "job", "; touch marker #")
        if number % 3:
            sending.wait(timeout=60)
        kill(agent)
        sending.wait(timeout=60)
        eventually(functools.partial(dead, agent), what="the agent's end")
        # Not by the status: between the death and the restart it may read "terminated", and the supervisor goes on.
        eventually(functools.partial(_goes_on, s, child), what="another agent, or its supervisor's end")
        if child.poll() is not None:
            child = s.start("resume", "job", "--yes")
    s.the_agent()
    assert not list(s.base.rglob("marker"))
    figure("G25", f"{deaths} agents killed while a prompt was typed to them: no shell ran it")


def test_attach_names_the_place(harness: Open) -> None:
    s = harness([[{"hang": "before"}, {"text": "fin"}]])
    s.begin("do the task", *TMUX)
    s.model.wait_for(1)
    shown = s.json("attach", "job")
    assert socket_of(s) in str(shown) and str(s.known().handle) in str(shown)


def test_the_users_own_tmux_is_left_alone(harness: Open) -> None:
    s = harness([{"text": "fin"}], TMUX_TMPDIR="")
    own = s.base / "own"
    own.mkdir(mode=0o700)
    environment = {**os.environ, "TMUX_TMPDIR": str(own)}
    subprocess.run(
        ["tmux", "-f", "/dev/null", "new-session", "-d", "-s", "mine"], env=environment, check=True, timeout=60
    )
    try:
        assert s.run("do the task", *TMUX, TMUX_TMPDIR=str(own)).returncode == 0
        asked = ["tmux", "list-sessions", "-F", "#{session_name}"]
        there = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True, timeout=60)
        assert there.stdout.split() == ["mine"]
    finally:
        subprocess.run(["tmux", "kill-server"], env=environment, check=False, timeout=60)


@pytest.mark.parametrize("words", [(), TMUX], ids=["process", "tmux"])
def test_removed_nothing_of_it_is_left_beside_the_store(harness: Open, words: tuple[str, ...]) -> None:
    s = harness([{"text": "canary-of-the-output"}])
    child = s.begin("do the task", *words)
    s.model.wait_for(1)
    eventually(lambda: s.known().said is not None, what="the reply")
    s.relight("stop", "job")
    child.wait(timeout=60)
    beside = s.store.parent / "r.db.run"
    session = s.known().id
    assert (beside / session).is_dir()
    done = s.relight("rm", "job", "--yes")
    assert done.returncode == 0, done.stderr
    assert not list(beside.rglob(f"*{session}*"))
    left = b"".join(data for _, data in files_below(s.store.parent))
    assert b"canary-of-the-output" not in left
    assert not s.marked()


def test_a_sweep_clears_what_a_removed_session_left_beside_the_store(harness: Open) -> None:
    s = harness([{"text": "fin"}])
    s.run()
    forgotten = s.store.parent / "r.db.run" / ("0" * 32)
    forgotten.mkdir()
    (forgotten / "output.log").write_text("old")
    assert s.relight("sweep").returncode == 0
    assert not forgotten.exists()
    assert (s.store.parent / "r.db.run" / s.known().id).is_dir(), "what is still there keeps its own"
