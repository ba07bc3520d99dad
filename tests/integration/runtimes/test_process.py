"""A plain process: what it leaves comes to us, what it prints is kept within bounds, its terminal is like ours."""

from __future__ import annotations

import os
import pty
import secrets
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from relight.errors import AgentFailed, Refused, UsageError
from relight.ports.runtime import SESSION_VARIABLE, Exit
from relight.runtimes.process import ProcessRuntime, guard, output, subreaper
from relight.runtimes.process.child import ProcessChild
from relight.runtimes.process.output import Lines, Log
from relight.runtimes.process.subreaper import SUBREAPER, descendants
from relight.system import processes
from relight.system.linux_calls import become_subreaper, end_with_parent
from relight.system.platform import Platform
from relight.system.process_facts import Facts
from relight.system.processes import ancestors, children_of, children_of_ours, is_zombie, start_of, words_of
from relight.testing.runtime_kit import until

LEAVES_A_SHELL = """
import os, subprocess, time
child = subprocess.Popen(["sleep", "300"], start_new_session=True)
with open("left.new", "w") as file:
    file.write(str(child.pid))
os.rename("left.new", "left")
time.sleep(300)
"""
LEAVES_QUICK_ONES = """
import os, subprocess, time
for _ in range(10):
    subprocess.run(["sh", "-c", "(exec sleep 0.05) & exit 0"])
open("done", "w").close()
time.sleep(300)
"""


def spawn(workspace: Path, *command: str, log: Path | None = None, capture: bool = False) -> tuple[ProcessChild, str]:
    session = secrets.token_hex(16)
    child = ProcessRuntime().spawn(
        command, directory=str(workspace), environment={SESSION_VARIABLE: session}, log=log, capture=capture
    )
    return child, session


def ended(child: ProcessChild) -> Exit:
    until(lambda: child.poll() is not None, "its end is told")
    exit = child.poll()
    child.close()
    assert exit is not None
    return exit


@pytest.mark.guarantee("G12")
def test_what_a_killed_agent_leaves_comes_to_us_and_is_ended_and_buried(tmp_path: Path) -> None:
    child, session = spawn(tmp_path, sys.executable, "-I", "-S", "-c", LEAVES_A_SHELL)
    until((tmp_path / "left").exists, "the agent has started a command in a session of its own")
    left = int((tmp_path / "left").read_text())
    child.signal(signal.SIGKILL)
    assert ended(child) == Exit(signal=9)
    assert start_of(left), "it outlives the agent and its group"
    if become_subreaper():
        until(lambda: os.getpid() in ancestors(left), "it is ours now")
    runtime = ProcessRuntime()
    assert runtime.orphans(session) == [left]
    runtime.end([left], seconds=2)
    assert left not in children_of_ours(), "not even its entry is left"


def test_orphans_that_end_by_themselves_leave_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SUBREAPER, "foreign_seconds", 2.0)
    others = set(children_of_ours())  # of tests beside this one
    child, _ = spawn(tmp_path, sys.executable, "-I", "-S", "-c", LEAVES_QUICK_ONES)
    until((tmp_path / "done").exists, "the orphans were made")
    until(lambda: SUBREAPER.reap(now=True) == 0 and set(_adopted(child)) <= others, "all orphans are reaped")
    assert child.poll() is None
    child.signal(signal.SIGKILL)
    assert ended(child) == Exit(signal=9)


def _adopted(child: ProcessChild) -> list[int]:
    return [pid for pid in children_of_ours() if pid != child.pid and guard.__file__ not in words_of(pid)]


def test_burying_takes_no_exit_from_whoever_waits_for_it(tmp_path: Path) -> None:
    child, session = spawn(tmp_path, "sh", "-c", "(sleep 300 &); exec sleep 300")
    if become_subreaper():
        until(lambda: bool(_adopted(child)), "an orphan of the agent, in our own terminal session, is ours")
    SUBREAPER.reap(now=True)
    own = [subprocess.Popen(["sh", "-c", "exit 9"], start_new_session=apart) for apart in (False, True)]
    until(lambda: all(is_zombie(one.pid) for one in own), "they have ended, and nobody has asked")
    for _ in range(3):
        SUBREAPER.reap(now=True)
    assert [one.wait() for one in own] == [9, 9]
    child.signal(signal.SIGTERM)
    until(lambda: is_zombie(child.pid), "it has ended")
    SUBREAPER.reap(now=True)
    assert ended(child) == Exit(signal=signal.SIGTERM)
    assert ProcessRuntime().orphans(session) == [], "the signal went to the whole group"


SUPERVISES = """
import signal, sys, time
from relight.runtimes.process import ProcessRuntime, runtime
runtime.end_with_parent = lambda number: None  # as on a kernel that cannot
child = ProcessRuntime().spawn(["sleep", "60"], directory=".", environment={"RELIGHT_SESSION": "a"})
print(child.pid, child._guard.pid, flush=True)
sys.stdin.read()
child.signal(signal.SIGKILL)
while child.poll() is None:
    time.sleep(0.01)
child.close()
"""


@pytest.mark.guarantee("G12")
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "ends"])
def test_without_help_of_the_kernel_an_agent_ends_with_its_supervisor_too(tmp_path: Path, is_killed: bool) -> None:
    command = [sys.executable, "-P", "-c", SUPERVISES]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        agent, guarding = map(int, supervisor.stdout.readline().split())
        before = [start_of(agent), start_of(guarding)]
        assert all(before)
        if is_killed:
            supervisor.kill()
    until(lambda: start_of(agent) != before[0], "the agent has ended")
    until(lambda: start_of(guarding) != before[1], "the guard has, too")
    assert supervisor.returncode == (-signal.SIGKILL if is_killed else 0)


@pytest.mark.guarantee("G12")
def test_an_orphan_whose_environment_is_hidden_is_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subreaper, "become_subreaper", lambda: False)
    for module in (subreaper, processes):  # as macOS does for its own programs
        monkeypatch.setattr(module, "environment_of", lambda pid: [])
    child, session = spawn(tmp_path, sys.executable, "-I", "-S", "-c", LEAVES_A_SHELL)
    until((tmp_path / "left").exists, "the agent has started a command in a session of its own")
    left = int((tmp_path / "left").read_text())
    SUBREAPER.reap(now=True)
    child.signal(signal.SIGKILL)
    ended(child)
    assert ProcessRuntime().orphans(session) == [left]
    assert ProcessRuntime().orphans("another") == []
    ProcessRuntime().end([left], seconds=2)
    assert not start_of(left) and ProcessRuntime().orphans(session) == []


def test_descendants_are_remembered_and_a_reused_pid_is_not_one() -> None:
    def facts(start: str, parent: int) -> Facts:
        return Facts(start, is_zombie=False, parent=parent, group=0, session=0)

    first = descendants({7: facts("1", 2), 8: facts("2", 7), 9: facts("3", 8), 5: facts("1", 1)}, {7: "s"}, {})
    assert first == {8: ("2", "s"), 9: ("3", "s")}
    later = descendants({9: facts("3", 1), 8: facts("5", 1), 10: facts("4", 9)}, {}, first)
    assert later == {9: ("3", "s"), 10: ("4", "s")}


def test_other_kernels_are_not_asked_for_what_only_linux_does() -> None:
    assert end_with_parent(signal.SIGTERM, Platform("darwin")) is None
    assert become_subreaper(Platform("darwin")) is False


def test_a_log_has_both_streams_and_stays_within_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The streams are read side by side: what is in a pipe and in its reader's hands, 128 kB, may follow the last words.
    monkeypatch.setattr(output, "LOG_BYTES", 200_000)
    log = tmp_path / "agent.log"
    text = "import sys\nfor n in range(40000): print(f'line {n:06d}', flush=n == 39999)\nsys.stderr.write('last words')"
    child, _ = spawn(tmp_path, sys.executable, "-I", "-S", "-c", text, log=log, capture=True)
    assert ended(child) == Exit(code=0)
    assert child.last_lines() == ["last words"]
    assert child.output() == [f"line {n:06d}" for n in range(40000)]
    old = Path(f"{log}.1")
    for path in (log, old):
        assert path.stat().st_size <= 200_000 and stat.S_IMODE(path.stat().st_mode) == 0o600
    both = old.read_text() + log.read_text()
    assert "last words" in both and "line 039999" in both and "line 000000" not in both


def test_a_log_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AgentFailed, match="cannot write the log"):
        spawn(tmp_path, "true", log=tmp_path / "log")
    assert not (tmp_path / "elsewhere").exists()


def test_a_log_that_cannot_be_written_costs_only_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "LOG_BYTES", 10)
    (tmp_path / "gone").mkdir()
    kept = Log(tmp_path / "gone" / "log")
    kept.write(b"12345678")
    (tmp_path / "gone" / "log").unlink()
    (tmp_path / "gone").rmdir()
    kept.write(b"12345678")
    kept.write(b"12345678")
    kept.close()


def test_lines_are_whole_and_memory_is_bounded() -> None:
    lines = Lines(line_bytes=10, held_bytes=100)
    for chunk in (b"ab", b"c\r\nd", b"\n\n", b"x" * 50, b"y\ntail"):
        lines.feed(chunk)
    assert lines.take() == ["abc", "d", "", "x" * 10]
    lines.end()
    assert lines.take() == ["tail"]
    for number in range(1000):
        lines.feed(b"%09d\n" % number)
    assert lines.take() == [f"{number:09d}" for number in range(989, 1000)]


def test_a_captured_child_of_a_terminal_sees_a_terminal_of_the_same_size(tmp_path: Path) -> None:
    child = "import os; print(os.isatty(1), os.isatty(2), tuple(os.get_terminal_size(1)))"
    driver = f"""
import sys, time
from relight.runtimes.process import ProcessRuntime
command = [sys.executable, "-I", "-S", "-c", {child!r}]
child = ProcessRuntime().spawn(command, directory=".", environment={{}}, capture=True)
while child.poll() is None:
    time.sleep(0.005)
child.close()
open("lines", "w").write(repr(child.output()))
"""
    near, far = pty.openpty()
    subprocess.run(["stty", "cols", "123", "rows", "45"], stdin=far, check=True)
    done = subprocess.run(
        [sys.executable, "-c", driver], stdin=far, stdout=far, stderr=far, cwd=tmp_path, timeout=30, check=False
    )
    os.close(far)
    shown = os.read(near, 65_536)
    os.close(near)
    assert done.returncode == 0, shown
    assert shown == b"True True (123, 45)\r\n"
    assert (tmp_path / "lines").read_text() == repr(["True True (123, 45)"])


@pytest.mark.parametrize(("first", "missing"), [("#!/no/such/python -u", True), (f"#!{sys.executable}", False)])
def test_a_script_without_its_interpreter_is_refused_before_anything_is_started(
    tmp_path: Path, first: str, missing: bool
) -> None:
    script = tmp_path / "agent"
    script.write_text(f"{first}\nprint('hello')\n")
    script.chmod(0o700)
    if missing:
        with pytest.raises(UsageError, match=r"needs the interpreter '/no/such/python', which is missing"):
            ProcessRuntime().check(["./agent"], str(tmp_path))
    else:
        ProcessRuntime().check(["./agent"], str(tmp_path))


def test_a_plain_process_cannot_be_typed_to_and_says_what_can() -> None:
    with pytest.raises(Refused) as reported:
        ProcessRuntime().deliver("", "hello")
    assert "--runtime tmux" in reported.value.hints[0] and "relight resume" in reported.value.hints[1]


@pytest.mark.parametrize("arguments", [("--listen", "unix://"), ("daemon",), ()])
def test_a_service_that_sessions_share_is_nobodys_orphan_and_neither_is_what_it_runs(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Without an address it serves the one program that started it."""
    session = secrets.token_hex(16)
    (tmp_path / "app-server").write_text(
        "import os, subprocess, sys, time\n"
        "subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "open('ready', 'w').close()\n"
        "time.sleep(60)\n"
    )
    served = {**os.environ, SESSION_VARIABLE: session}
    words = ["codex", "app-server", *arguments]
    shared = subprocess.Popen(words, executable=sys.executable, cwd=tmp_path, env=served, start_new_session=True)
    plain = subprocess.Popen(["sleep", "60"], env=served, start_new_session=True)
    try:
        until((tmp_path / "ready").exists, "the service runs")
        alone = [] if arguments else [shared.pid, *children_of(shared.pid)]
        assert sorted(ProcessRuntime().orphans(session)) == sorted([plain.pid, *alone])
    finally:
        for child in children_of(shared.pid):
            os.kill(child, signal.SIGKILL)
        for process in (shared, plain):
            process.kill()
            process.wait()
