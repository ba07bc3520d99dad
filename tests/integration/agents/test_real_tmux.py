"""Real agents on a screen of their own: joined, typed to, killed with and without their tmux server, brought back."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agents.test_real_deaths import truth
from tests.support.agent_harness import KINDS, SECONDS, TASK, UNKNOWN, AgentHarness, append, kill, lines
from tests.support.processes import alive, marked, words
from tests.support.shell import eventually

pytestmark = [pytest.mark.agents, pytest.mark.crash]
STUCK = append("two", "exec sleep 60")
WAITS = append("two", "until test -e release; do sleep 0.05; done")
DONE = {"text": "all done"}
HEARD = {"text": "heard you"}


class Screen:
    """A harness whose agent draws on a tmux of relight's own."""

    def __init__(self, s: AgentHarness, tmux: str) -> None:
        self.harness, self.tmux = s, tmux
        if s.kind == "claude":
            s.seed_screen()

    def begin(self) -> None:
        words = {"claude": ["claude", "--dangerously-skip-permissions", TASK], "codex": ["codex", TASK]}
        s = self.harness
        s.do("run", "--name", "job", "--runtime", "tmux", "--detach", "--", *words[s.kind])

    @property
    def attach(self) -> list[str]:
        """The command that joins it."""
        found = self.harness.json("attach", "job")["command"]
        assert isinstance(found, list)
        return found

    @property
    def server(self) -> list[str]:
        return [self.tmux, "-S", str(self.attach[self.attach.index("-S") + 1])]

    def shown(self) -> str:
        target = ["capture-pane", "-p", "-S", "-200", "-t", f"={self.harness.info().handle}:"]
        return self._ask(*target)

    def server_pid(self) -> int:
        return int(self._ask("display-message", "-p", "#{pid}"))

    def _ask(self, *words: str) -> str:
        done = subprocess.run([*self.server, *words], capture_output=True, text=True, check=True, timeout=SECONDS)
        return done.stdout

    def supervisors(self) -> list[int]:
        s = self.harness
        return [pid for pid in s.processes() if pid not in s.marked() and "relight" in " ".join(words(pid))]

    def strike(self, victim: str, agent: int) -> None:
        """kill -9 of the agent, of its tmux server, or of these and the supervisor too."""
        server = self.server_pid()
        pids = {"agent": [agent], "server": [server], "everything": [*self.supervisors(), agent, server]}
        for pid in pids[victim]:
            kill(pid)

    def inside(self) -> None:
        """Wait until the second tool runs."""
        eventually(lambda: lines(self.harness.work) == ["one", "two"], seconds=SECONDS, what="the tool running")

    def says(self, text: str) -> None:
        try:
            eventually(lambda: text in self.shown(), seconds=SECONDS, what=f"{text!r} on the screen")
        except AssertionError:
            print(self.shown(), self.harness.info(), self.harness.said, sep="\n")
            raise


@pytest.fixture
def screen(program: Callable[[str], str]) -> Iterator[Callable[[str, Any], Screen]]:
    """`screen(kind, script)`; its agents and its tmux server are ended afterwards. The path of a socket is short."""
    made: list[Screen] = []
    location = Path(tempfile.mkdtemp(prefix="relight-"))

    def begin(kind: str, script: Any) -> Screen:
        made.append(Screen(AgentHarness(kind, location, script), program("tmux")))
        return made[-1]

    yield begin
    for one in made:
        with suppress(Exception):  # where it failed before there was a screen
            print(one.shown())
        one.harness.close()
        for socket in one.harness.store.parent.rglob("*"):
            if socket.is_socket():
                subprocess.run([one.tmux, "-S", str(socket), "kill-server"], capture_output=True, check=False)
    shutil.rmtree(location, ignore_errors=True)


def joined(command: list[str], s: AgentHarness) -> str:
    """What a terminal shows that joins by this command and leaves again."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, s.environment())
    seen = b""
    try:
        while TASK.encode() not in seen and b"log.txt" not in seen:
            seen += os.read(terminal, 65536)
    except OSError:
        return seen.decode("utf-8", "replace")
    finally:
        kill(pid)
        os.waitpid(pid, 0)
        os.close(terminal)
    return seen.decode("utf-8", "replace")


@pytest.mark.parametrize("kind", KINDS)
def test_on_its_screen_it_can_be_joined_and_typed_to(kind: str, screen: Callable[[str, Any], Screen]) -> None:
    one = screen(kind, [append("one"), WAITS, DONE, HEARD])
    s = one.harness
    one.begin()
    one.inside()
    assert "log.txt" in joined(one.attach, s) or TASK in joined(one.attach, s)
    assert s.the_agent(), "leaving the screen ended the agent"
    (s.work / "release").touch()
    one.says("all done")
    s.do("send", "job", "hello ; touch marker #")
    s.model.wait_for(4, SECONDS)
    one.says("heard you")
    s.remembers(TASK, "writes one", "writes two", "all done", "hello ; touch marker #")
    assert not list(s.base.rglob("marker"))
    s.do("stop", "job")
    assert not s.agents()


@pytest.mark.parametrize("victim", ["agent", "server", "everything"])
@pytest.mark.parametrize("kind", KINDS)
def test_killed_on_its_screen_it_comes_back_under_the_same_handle(
    kind: str, victim: str, screen: Callable[[str, Any], Screen]
) -> None:
    one = screen(kind, [append("one"), STUCK, DONE])
    s = one.harness
    one.begin()
    one.inside()
    handle, agent, attempt = s.info().handle, s.the_agent(), s.info().attempt
    one.strike(victim, agent)
    eventually(lambda: not alive(agent), seconds=SECONDS, what="the agent's end")
    if victim == "everything":
        truth(s, "terminated")
    eventually(lambda: _is_up(s, attempt), seconds=SECONDS, what="its return")
    assert s.info().handle == handle
    one.says("all done")
    s.remembers(TASK, "writes one", "writes two")
    reported = s.reported("echo two")
    if victim != "server":  # where only its terminal is gone it ends its tool itself, and says so
        assert UNKNOWN in reported and "log.txt" in reported, reported
    assert lines(s.work) == ["one", "two"]
    assert len(s.agents()) == 1
    s.do("stop", "job")
    assert not s.marked()


def _is_up(s: AgentHarness, attempt: int) -> bool:
    """Is it back? Where relight has given up, it is asked to go on."""
    info = s.info()
    if info.status in ("terminated", "failed") and info.attempt == attempt:
        s.relight("resume", "job", "--yes", "--detach")  # refused where its supervisor was just about to do it
    return info.attempt > attempt and info.status == "working"


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_that_outlived_its_supervisor_is_taken_up_where_it_is(
    kind: str, screen: Callable[[str, Any], Screen]
) -> None:
    one = screen(kind, [append("one"), WAITS, DONE])
    s = one.harness
    one.begin()
    one.inside()
    agent = s.the_agent()
    supervisors = one.supervisors()
    for pid in supervisors:
        kill(pid)
    eventually(lambda: not any(map(alive, supervisors)), seconds=SECONDS, what="the supervisor's end")
    assert alive(agent)
    s.do("resume", "job", "--yes", "--detach")
    s.reaches("working")
    (s.work / "release").touch()
    one.says("all done")
    assert s.agents() == [agent]
    eventually(lambda: s.info().said == "all done", seconds=SECONDS, what="the journal knowing what it said")
    s.remembers(TASK, "writes one", "writes two")
    assert all(UNKNOWN not in result for _, result in s.results())
    s.do("stop", "job")


def test_two_codex_screens_own_their_turns_and_a_daemon_of_the_users_is_left_alone(
    screen: Callable[[str, Any], Screen], program: Callable[[str], str]
) -> None:
    one = screen("codex", [append("one"), WAITS, DONE])
    s = one.harness
    s.daemon = True
    theirs = [program("tmux"), "-S", str(s.base / "theirs")]
    bare = {**s.environment(), "RELIGHT_SESSION": "0" * 32}  # the daemon carries what the first screen had
    subprocess.run([*theirs, "new-session", "-d", str(s.binary), TASK], cwd=s.work, env=bare, check=True)
    try:
        eventually(lambda: lines(s.work) == ["one", "two"], seconds=SECONDS, what="the user's own turn")
        daemons = [pid for pid in _daemons(s) if "--listen" in words(pid)]  # others only help it to begin
        assert daemons, "the user's own daemon"
        (s.work / "log.txt").unlink()
        for name in ("job", "other"):
            s.do("run", "--name", name, "--runtime", "tmux", "--detach", "--", "codex", TASK)
        eventually(lambda: lines(s.work).count("two") == 2, seconds=SECONDS, what="two tools running")
        owners = {name: set(_turn_of(s, name)) for name in ("job", "other")}
        assert all(owners.values()) and not owners["job"] & owners["other"], "each runs its own tool"
        requests = len(s.model.requests())
        s.do("stop", "job")
        assert not any(map(alive, owners["job"])), "the tool of a stopped screen runs on"
        assert all(map(alive, owners["other"])), "stopping one screen ended the turn of another"
        assert all(map(alive, daemons)), "a process that serves other sessions was ended"
        assert len(s.model.requests()) == requests, "the turn of a stopped screen went on"
        (s.work / "release").touch()
        eventually(lambda: s.info("other").said == "all done", seconds=SECONDS, what="the other one's end")
        s.do("stop", "other")
        assert all(map(alive, daemons))
    finally:
        subprocess.run([*theirs, "kill-server"], capture_output=True, check=False)
        for pid in _daemons(s):
            kill(pid)


def _daemons(s: AgentHarness) -> list[int]:
    return [pid for pid in s.processes() if "app-server" in words(pid)]


def _turn_of(s: AgentHarness, name: str) -> list[int]:
    """The processes of the tool that runs for this session."""
    ours = set(marked("RELIGHT_SESSION", s.info(name).id))
    return [pid for pid in s.processes() if pid in ours and "release" in " ".join(words(pid))]
