"""The sandbox: inside there is the workspace, a home of its own and a system to read; nothing else, and no way out."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from relight.errors import Refused, UsageError
from relight.ports.runtime import SESSION_VARIABLE, Exit
from relight.runtimes.process import ProcessRuntime
from relight.runtimes.sandbox import SandboxRuntime
from relight.runtimes.sandbox.child import SandboxChild
from relight.runtimes.tmux import TmuxRuntime
from relight.system.platform import Platform
from relight.testing.runtime_kit import until
from tests.support.tmux_servers import Sockets


class Box:
    """A sandbox with a workspace."""

    def __init__(self, directory: Path) -> None:
        self.homes, self.workspace = directory / "homes", directory / "work"
        self.workspace.mkdir()
        self.session = secrets.token_hex(16)

    def start(self, *command: str, network: bool = True, writable: tuple[Path, ...] = ()) -> SandboxChild:
        runtime = SandboxRuntime(ProcessRuntime(), self.homes, network=network, writable=writable)
        environment = {SESSION_VARIABLE: self.session}
        return runtime.spawn(command, directory=str(self.workspace), environment=environment, capture=True)

    def run(self, script: str, *, network: bool = True, writable: tuple[Path, ...] = ()) -> list[str]:
        child = self.start("sh", "-c", script, network=network, writable=writable)
        assert ended(child) == Exit(code=0), child.last_lines()
        return child.output()


def ended(child: SandboxChild) -> Exit:
    until(lambda: child.poll() is not None, "its end is told")
    exit = child.poll()
    child.close()
    assert exit is not None
    return exit


@pytest.fixture
def box(program: Callable[[str], str], tmp_path: Path) -> Box:
    program("bwrap")
    return Box(tmp_path)


def test_the_workspace_is_written_and_the_system_is_not(box: Box) -> None:
    lines = box.run(
        "echo kept > file; for d in / /etc /usr /var; do touch $d/rl-probe 2>/dev/null && echo $d; done; true"
    )
    assert (box.workspace / "file").read_text() == "kept\n"
    assert lines == []


def test_homes_and_temporary_files_of_others_are_not_seen(box: Box, own_home: Path, tmp_path: Path) -> None:
    (own_home / "secret").write_text("x")
    (tmp_path / "beside").write_text("x")
    lines = box.run(f"ls -A {own_home} ~root; ls {tmp_path}; touch /tmp/inside-{box.session}; ls /run/*.sock; true")
    assert "secret" not in lines and "beside" not in lines and not any("sock" in line for line in lines)
    assert not Path(f"/tmp/inside-{box.session}").exists()
    (own_home / "secret").unlink()


def test_its_home_is_empty_at_first_and_kept_over_restarts(box: Box) -> None:
    home = box.homes / box.session
    assert box.run("echo $HOME; ls -A ~") == [str(home)]
    box.run("echo remembered > ~/note")
    assert box.run("cat ~/note") == ["remembered"]
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    box.session = secrets.token_hex(16)
    assert box.run("ls -A ~") == [], "another session has another home"


def test_it_sees_only_its_own_processes(box: Box) -> None:
    lines = box.run("for d in /proc/[0-9]*; do tr '\\0' ' ' < $d/cmdline | cut -c1-40; echo; done")
    shown = [line for line in lines if line.strip()]
    assert shown and not any("pytest" in line for line in shown)
    assert not Path("/proc/1/cmdline").read_bytes().startswith(b"bwrap"), "we are outside"


@pytest.mark.parametrize("network", [True, False])
def test_the_network_is_there_or_not_as_asked(box: Box, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        exit = ended(box.start(sys.executable, "-I", "-S", "-c", text, network=network))
    assert (exit == Exit(code=0)) is network


def test_it_cannot_change_its_view_or_reach_out_of_it(box: Box) -> None:
    lines = box.run(
        "mount -o remount,rw / 2>/dev/null && echo remounted; umount /tmp 2>/dev/null && echo unmounted; "
        "mknod disk b 8 0 2>/dev/null && echo made; kill -0 " + str(os.getpid()) + " 2>/dev/null && echo seen; true"
    )
    assert lines == []


def test_further_directories_are_written_where_they_are_named(box: Box, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    box.run(f"echo x > {tmp_path}/shared/file", writable=(tmp_path / "shared",))
    assert (tmp_path / "shared" / "file").read_text() == "x\n"


def test_a_program_in_a_hidden_home_is_seen_with_its_package_to_read(box: Box, own_home: Path) -> None:
    package = own_home / "lib" / "node_modules" / "agent"
    package.mkdir(parents=True)
    (own_home / "bin").mkdir()
    (own_home / "secret").write_text("x")
    (package / "part").write_text("the part\n")
    (package / "cli").write_text(
        f'#!/bin/sh\ncat "{package}/part"; ls -A {own_home}; touch {package}/new || echo kept\n'
    )
    (package / "cli").chmod(0o755)
    (own_home / "bin" / "agent").symlink_to("../lib/node_modules/agent/cli")
    child = box.start(str(own_home / "bin" / "agent"))
    assert ended(child) == Exit(code=0), child.last_lines()
    assert child.output() == ["the part", "bin", "lib", "kept"]


def test_a_signal_reaches_the_agent_which_ends_as_it_likes(box: Box) -> None:
    child = box.start("sh", "-c", 'trap "echo tidied; exit 5" TERM; echo ready; while :; do sleep 0.02; done')
    until(lambda: "ready" in child.output(), "it is ready")
    child.signal(signal.SIGTERM)
    assert ended(child) == Exit(code=5)
    assert "tidied" in child.output()


def test_killing_the_wall_leaves_nothing_behind_it(box: Box) -> None:
    child = box.start("sh", "-c", "setsid sleep 300 & echo ready; sleep 300")
    until(lambda: "ready" in child.output(), "it is ready")
    os.kill(child.pid, signal.SIGKILL)
    assert ended(child) == Exit(signal=9)
    until(lambda: not ProcessRuntime().orphans(box.session), "all of it is gone")


def test_a_terminal_of_ours_is_not_its_own(box: Box) -> None:
    """It runs in a terminal session of its own, so that it cannot type into ours (TIOCSTI)."""
    assert box.run("cut -d' ' -f6 /proc/$$/stat") == ["1"], "one that was begun inside, by its first process"


@pytest.mark.guarantee("G25")
def test_a_sandbox_in_tmux_is_typed_to_and_a_shell_in_it_is_not(box: Box, sockets: Sockets) -> None:
    runtime = SandboxRuntime(TmuxRuntime(sockets.new()), box.homes)
    environment, where = {SESSION_VARIABLE: box.session}, str(box.workspace)
    text = "print('ready', flush=True); open('heard', 'w').write(input())"
    child = runtime.spawn([sys.executable, "-c", text], directory=where, environment=environment, handle="box")
    until(lambda: "ready" in child.last_lines(), "it is ready")
    runtime.deliver("box", "hello; touch marker #")
    assert ended(child) == Exit(code=0)
    assert (box.workspace / "heard").read_text() == "hello; touch marker #"
    shell = runtime.spawn(["bash", "--norc"], directory=where, environment=environment, handle="box")
    until(lambda: bool(shell.last_lines()), "the shell is ready")
    with pytest.raises(Refused, match=r"shell|bash .* foreground"):
        runtime.deliver("box", "touch marker")
    runtime.destroy("box")


@pytest.mark.parametrize("where", ["/", "~", "/tmp"])
def test_a_workspace_that_would_open_everything_is_refused(box: Box, where: str) -> None:
    with pytest.raises(UsageError, match="that a sandbox hides"):
        SandboxRuntime(ProcessRuntime(), box.homes).check(["true"], os.path.expanduser(where))


def test_elsewhere_one_sentence_says_that_it_needs_linux(box: Box) -> None:
    elsewhere = SandboxRuntime(ProcessRuntime(), box.homes, platform=Platform("darwin"))
    with pytest.raises(UsageError, match="the sandbox runtime needs Linux; nothing was started"):
        elsewhere.check(["/bin/true"], str(box.workspace))
    with pytest.raises(UsageError, match="needs Linux"):
        elsewhere.spawn(["/bin/true"], directory=str(box.workspace), environment={SESSION_VARIABLE: box.session})


def test_a_missing_bwrap_is_told_with_its_cure(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(box.workspace))
    with pytest.raises(UsageError, match="not installed") as reported:
        SandboxRuntime(ProcessRuntime(), box.homes).check(["/bin/true"], str(box.workspace))
    assert "apt-get install bubblewrap" in reported.value.hints[0]


def test_a_system_that_forbids_it_is_told_in_its_own_words(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = box.workspace / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{box.workspace}:/bin:/usr/bin")
    with pytest.raises(UsageError, match="No permissions to create new namespace") as reported:
        SandboxRuntime(ProcessRuntime(), box.homes).check(["/bin/true"], str(box.workspace))
    assert "unprivileged_userns_clone" in reported.value.hints[0]
