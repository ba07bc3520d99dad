"""tmux: text reaches the agent or nobody, a place outlasts its processes, and nothing of ours passes a shell."""

from __future__ import annotations

import os
import random
import secrets
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relight.errors import Refused, UsageError
from relight.ports.runtime import SESSION_VARIABLE, Exit
from relight.runtimes.tmux import TmuxRuntime
from relight.runtimes.tmux import runtime as tmux_runtime
from relight.runtimes.tmux.child import TmuxChild
from relight.system.processes import members_of, start_of
from relight.testing.runtime_kit import until
from tests.support.figures import Figure
from tests.support.processes import children
from tests.support.shell import Shell
from tests.support.tmux_servers import Sockets

ECHO = """
import os, sys
with open("pid", "w") as file:
    file.write(str(os.getpid()))
print("ready", flush=True)
for line in sys.stdin:
    with open("heard", "a") as file:
        file.write(line)
"""
PROMPT = "fix it; touch marker #"
BRACKETED = """
import os, sys, termios, tty
tty.setraw(0)
sys.stdout.write("\\x1b[?2004hready")
sys.stdout.flush()
got = b""
while not got.endswith(b"\\x1b[201~\\r"):
    got += os.read(0, 4096)
with open("heard.new", "wb") as file:
    file.write(got)
os.rename("heard.new", "heard")
"""
LETS_ANOTHER_IN_FRONT = """
import os, signal
go, goes = os.pipe()      # cat begins when it is in front: before, the terminal may turn it away
runs, running = os.pipe() # closed by exec
other = os.fork()
if not other:
    os.setpgid(0, 0)
    os.close(runs)
    os.read(go, 1)
    os.execvp("cat", ["cat"])
os.close(running)
os.setpgid(other, other)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
os.tcsetpgrp(0, other)
os.write(goes, b"!")
os.read(runs, 1)
print("ready", flush=True)
os.waitpid(other, 0)
"""
IGNORES_HANG_UP = """
import signal, time
signal.signal(signal.SIGHUP, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(300)
"""


class TmuxHarness:
    """A runtime with a workspace, and agents in it."""

    def __init__(self, sockets: Sockets, workspace: Path) -> None:
        self.sockets, self.directory, self.workspace = sockets, sockets.new(), workspace
        self.runtime = TmuxRuntime(self.directory)
        self.session = secrets.token_hex(16)

    def start(self, *command: str, handle: str = "agent") -> TmuxChild:
        environment = {SESSION_VARIABLE: self.session}
        return self.runtime.spawn(command, directory=str(self.workspace), environment=environment, handle=handle)

    def python(self, text: str, *, handle: str = "agent") -> TmuxChild:
        child = self.start(sys.executable, "-I", "-S", "-c", text, handle=handle)
        until(lambda: any("ready" in line for line in child.last_lines()), "the agent is ready")
        return child

    def heard(self) -> bytes:
        path = self.workspace / "heard"
        return path.read_bytes() if path.exists() else b""

    def server(self) -> int:
        pid = self.sockets.server(self.directory)
        assert pid is not None
        return pid


@pytest.fixture
def harness(sockets: Sockets, tmp_path: Path) -> Iterator[TmuxHarness]:
    made = TmuxHarness(sockets, tmp_path)
    yield made
    made.runtime.end(made.runtime.orphans(made.session), seconds=2)


def ended(child: TmuxChild) -> Exit:
    until(lambda: child.poll() is not None, "its end is told")
    exit = child.poll()
    assert exit is not None
    return exit


@pytest.mark.long
@pytest.mark.guarantee("G25")
def test_a_prompt_is_never_typed_into_a_shell(harness: TmuxHarness, figure: Figure, sample: Callable[..., int]) -> None:
    """Agents that die at any moment of a delivery, and whatever stands in the pane then: no shell reads the text."""
    deaths, chance = sample(20, proof=1000, teeth=15), random.Random(25)
    refused = heard = 0
    harness.python(ECHO)
    began = time.monotonic()
    harness.runtime.deliver("agent", "calm")
    calm_seconds = time.monotonic() - began
    harness.runtime.destroy("agent")
    for number in range(deaths):
        child = harness.python(ECHO)
        agent = int((harness.workspace / "pid").read_text())
        # The first dies before its delivery, the second after it, the others at any moment.
        delay = 0.0 if number == 0 else chance.uniform(0, 1.5 * calm_seconds)
        timer = threading.Timer(delay, os.kill, (agent, signal.SIGKILL))
        if number != 1:
            timer.start()
        if number == 0:
            timer.join()
        try:
            harness.runtime.deliver("agent", PROMPT)
            heard += 1
        except Refused:
            refused += 1
        if number == 1:
            timer.start()
        timer.join()
        until(lambda: not start_of(agent), "the agent is dead")  # noqa: B023
        with pytest.raises(Refused):
            harness.runtime.deliver("agent", PROMPT)
        assert not (harness.workspace / "marker").exists(), f"death {number}: a shell ran the prompt"
        assert ended(child) == Exit(signal=9)
    assert refused and heard, "deaths came before, during and after a delivery"
    figure("G25", f"{deaths} agent deaths during delivery ({refused} refused, {heard} typed), 0 prompts run by a shell")


@pytest.mark.guarantee("G25")
@pytest.mark.parametrize(
    "command",
    [["bash"], ["sh", "-i"], ["sh", "-c", "python3 -c 'input()'; exec sh"]],
    ids=["bash", "interactive", "around"],
)
def test_nothing_is_typed_where_a_shell_is_or_will_be(harness: TmuxHarness, command: list[str]) -> None:
    harness.start(*command)
    with pytest.raises(Refused):
        harness.runtime.deliver("agent", PROMPT)
    assert not (harness.workspace / "marker").exists()


@pytest.mark.guarantee("G25")
def test_nothing_is_typed_while_a_shell_is_in_front_of_the_agent(harness: TmuxHarness) -> None:
    text = "import subprocess; print('ready', flush=True); subprocess.run(['bash', '--norc', '-i'])"
    child = harness.python(text)
    until(lambda: len(members_of(child.pid)) + len(children(child.pid)) > 1, "the shell is there")
    with pytest.raises(Refused, match=r"bash|in front"):
        harness.runtime.deliver("agent", "touch marker")
    assert not (harness.workspace / "marker").exists()


@pytest.mark.guarantee("G25")
def test_nothing_is_typed_while_another_program_is_in_front_of_the_agent(harness: TmuxHarness) -> None:
    harness.python(LETS_ANOTHER_IN_FRONT)
    with pytest.raises(Refused, match=r"cat \(pid \d+\) has the terminal's foreground, not the agent"):
        harness.runtime.deliver("agent", "for the agent")


@pytest.mark.guarantee("G25")
def test_nothing_is_typed_to_a_shell_that_a_person_put_in_the_place(harness: TmuxHarness) -> None:
    harness.python(ECHO)
    socket = str(harness.directory / "tmux.sock")
    subprocess.run(["tmux", "-S", socket, "respawn-pane", "-k", "-t", "=agent:", "bash", "--norc"], check=True)
    with pytest.raises(Refused, match="not started by relight"):
        harness.runtime.deliver("agent", "touch marker")


def test_an_agent_whose_environment_is_hidden_is_known_by_its_pane(
    harness: TmuxHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = harness.python(ECHO)
    monkeypatch.setattr(tmux_runtime, "environment_of", lambda pid: [])  # as macOS does for some programs
    joined = harness.runtime.reattach("agent")
    assert joined is not None and joined.pid == child.pid
    harness.runtime.deliver("agent", "hello")
    until(lambda: harness.heard() == b"hello\n", "it is heard")
    tmux = ["tmux", "-S", str(harness.directory / "tmux.sock"), "respawn-pane", "-k", "-t", "=agent:", "--", "cat"]
    subprocess.run(tmux, check=True)
    assert harness.runtime.reattach("agent") is None
    with pytest.raises(Refused, match="was not started by relight"):
        harness.runtime.deliver("agent", "hello")


def test_text_arrives_as_it_is_with_one_enter(harness: TmuxHarness) -> None:
    harness.python(ECHO)
    text = 'it\'s "quoted"; $(touch marker) `x` #{pid} #(touch marker) -t ünï ✓ {enter} Enter C-c \\;'
    harness.runtime.deliver("agent", text)
    until(lambda: harness.heard().endswith(b"\n"), "the text is heard")
    assert harness.heard().decode() == text + "\n"
    assert not (harness.workspace / "marker").exists()


def test_several_lines_are_one_paste_to_an_agent_that_knows_pastes(harness: TmuxHarness) -> None:
    harness.python(BRACKETED)
    text = "first\nsecond " + "y" * 40_000 + "\nthird"
    harness.runtime.deliver("agent", text)
    until(lambda: bool(harness.heard()), "the paste is heard")
    assert harness.heard() == b"\x1b[200~" + text.replace("\n", "\r").encode() + b"\x1b[201~\r"


@pytest.mark.parametrize("text", ["\x03", "a\x1b[201~b", "\x04", "", "\n", "\x9b", "\x7f"])
def test_keys_are_not_text(harness: TmuxHarness, text: str) -> None:
    child = harness.python(ECHO)
    with pytest.raises(UsageError):
        harness.runtime.deliver("agent", text)
    assert child.poll() is None and harness.heard() == b""


def test_typing_reaches_the_agent_though_a_person_scrolls_back(harness: TmuxHarness) -> None:
    harness.python(ECHO)
    subprocess.run(["tmux", "-S", str(harness.directory / "tmux.sock"), "copy-mode", "-t", "=agent:"], check=True)
    harness.runtime.deliver("agent", "heard all the same")
    until(lambda: harness.heard() == b"heard all the same\n", "the text is heard")


def test_an_end_just_after_typing_is_told_truly(harness: TmuxHarness) -> None:
    for _ in range(5):
        child = harness.python(ECHO)
        harness.runtime.deliver("agent", "x")
        os.kill(child.pid, signal.SIGKILL)
        assert ended(child) == Exit(signal=9)
        assert harness.runtime.probe("agent").exit == Exit(signal=9)


@pytest.mark.guarantee("G12")
def test_a_killed_server_is_a_death_with_evidence(harness: TmuxHarness) -> None:
    child, server = harness.python(IGNORES_HANG_UP), harness.server()
    os.kill(server, signal.SIGKILL)
    exit = ended(child)
    assert exit.signal is not None and not start_of(child.pid), "what nobody can reach was ended"
    assert f"pid {server}" in child.last_lines()[-1]
    assert harness.runtime.probe("agent").liveness == "absent"
    assert harness.python(ECHO).handle == "agent", "the same handle, on a new server"


def test_what_a_person_looks_at_shows_the_new_process(harness: TmuxHarness) -> None:
    child = harness.python("print('ready the first'); input()")
    os.kill(child.pid, signal.SIGKILL)
    ended(child)
    assert child.last_lines() == ["ready the first"]
    again = harness.python("print('ready the second'); input()")
    joining = harness.runtime.attach("agent")
    assert joining is not None
    assert again.last_lines() == ["ready the second"]
    screen = subprocess.run([*joining[:3], "capture-pane", "-p", "-t", "=agent:"], capture_output=True, check=True)
    assert b"the second" in screen.stdout and b"the first" not in screen.stdout


def test_secrets_and_prompts_are_on_no_command_line_and_in_no_file(harness: TmuxHarness) -> None:
    canary = "canary-" + secrets.token_hex(8)
    environment = {SESSION_VARIABLE: harness.session, "API_KEY": canary}
    command = [sys.executable, "-I", "-S", "-c", "print('ready'); input()"]
    harness.runtime.spawn(command, directory=str(harness.workspace), environment=environment, handle="agent")
    reported = subprocess.run(
        ["tmux", "-S", str(harness.directory / "tmux.sock"), "show-environment", "-g"], capture_output=True, check=True
    )
    assert canary.encode() not in reported.stdout
    assert [path.name for path in harness.directory.iterdir()] == ["tmux.sock"]
    assert stat.S_IMODE(harness.directory.stat().st_mode) == 0o700


def test_the_users_own_settings_stay_out(harness: TmuxHarness, own_home: Path) -> None:
    settings = own_home / ".tmux.conf"
    settings.write_text("set -g remain-on-exit off\nset-hook -g pane-died 'respawn-pane -k sh'\n")
    try:
        child = harness.start("false")
        assert ended(child) == Exit(code=1)
        assert harness.runtime.probe("agent").liveness == "dead"
    finally:
        settings.unlink()


def test_a_missing_tmux_is_told_with_its_cure(harness: TmuxHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(harness.workspace))
    with pytest.raises(UsageError, match="tmux is not installed") as reported:
        harness.runtime.check(["/bin/true"], str(harness.workspace))
    assert "apt-get install tmux" in reported.value.hints[0]
    assert harness.runtime.probe("agent").liveness == "unknown"
    harness.runtime.destroy("agent")


def test_the_command_that_joins_it_is_printed_with_its_socket_and_works(tmp_path: Path) -> None:
    store = tmp_path / "r.db"
    shell, command = Shell(store, tmp_path), ["tmux", "-S", ""]
    try:
        done = shell.run("run", "--name", "job", "--runtime", "tmux", "--detach", "--", "sleep", "60")
        assert done.returncode == 0, done.stderr
        command = shell.json("show", "job")["attach"]
        assert command[:2] == ["tmux", "-S"]
        assert command[-2:] == ["-t", f"={shell.json('show', 'job')['handle']}"]
        assert " ".join(command) in shell.run("show", "job").stdout
        there = subprocess.run([*command[:3], "has-session", *command[-2:]], capture_output=True, check=False)
        assert there.returncode == 0, there.stderr
        shell.run("stop", "job")
        assert shell.json("show", "job")["attach"] is None
    finally:
        shell.run("stop", "job")
        subprocess.run([*command[:3], "kill-server"], capture_output=True, check=False)
