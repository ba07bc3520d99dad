"""`relight run` hands its session to the program it starts, and to nobody else: what that starts is its child."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import pytest

from relight.processes.inheritance import LAUNCHERS, handed, took
from tests.support.shell import Shell

PYTHON = sys.executable
ONE = """
import relight, sys
with relight.open() as rl, rl.session(sys.argv[1]) as s:
    if not s.is_finished:
        s.append({"role": "user", "content": sys.argv[1]})
        s.complete("result of " + sys.argv[1])
    print(sys.argv[1], s.name, s.result)
"""
EARLY = """
import relight, subprocess, sys
if sys.argv[1] == "early":
    subprocess.run([sys.executable, "one.py", "kid"], check=True)
if sys.argv[1] == "orphaned":  # the shell has ended; the pipe is open as long as the kid lives
    subprocess.run(f"{sys.executable} one.py kid &", shell=True, check=True, stdout=subprocess.PIPE)
with relight.open() as rl, rl.session("parent") as s:
    s.append({"role": "user", "content": "hi"})
    if sys.argv[1] == "late":
        subprocess.run([sys.executable, "one.py", "kid"], check=True)
    assert s.join("kid", timeout=30) == ["result of kid"]
    with relight.open() as other, other.session("second") as t:
        t.complete()
    s.complete("ok")
"""


@pytest.fixture
def programs(shell: Shell) -> Shell:
    (shell.directory / "one.py").write_text(ONE)
    (shell.directory / "early.py").write_text(EARLY)
    return shell


def sessions(shell: Shell) -> dict[str, Any]:
    return {one["name"]: one for one in shell.json("list", "--all")}


def test_two_programs_of_a_shell_have_sessions_of_their_own(programs: Shell) -> None:
    script = f"{PYTHON} one.py extract; {PYTHON} one.py transform; exit 3"
    done = programs.run("run", "--name", "pipe", "--", "sh", "-c", script)
    assert done.stdout.splitlines() == [
        "extract extract result of extract",
        "transform transform result of transform",
    ]
    found = sessions(programs)
    assert done.returncode == 3
    assert (found["pipe"]["status"], found["pipe"]["spawned_by"]) == ("failed", None), "its own exit is its verdict"
    for name in ("extract", "transform"):
        assert (found[name]["status"], found[name]["spawned_by"]) == ("completed", found["pipe"]["id"])


@pytest.mark.parametrize("when", ["early", "orphaned", "late"])
def test_what_a_program_starts_is_its_child_whenever_it_was_started(programs: Shell, when: str) -> None:
    done = programs.run("run", "--name", "pipe", "--", PYTHON, "early.py", when)
    assert done.returncode == 0, done.stderr
    found = sessions(programs)
    assert set(found) == {"pipe", "kid", "second"}
    assert [found[name]["status"] for name in ("pipe", "kid", "second")] == ["completed"] * 3
    assert (found["kid"]["spawned_by"], found["second"]["spawned_by"]) == (found["pipe"]["id"], None)
    assert found["pipe"]["attempt"] == 1


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", f"exec {PYTHON} one.py any"],
        ["env", "A=1", PYTHON, "one.py", "any"],
        ["timeout", "60", PYTHON, "one.py", "any"],
        ["sh", "-c", f"{PYTHON} one.py pipe; exit $?"],
    ],
    ids=["exec", "env", "a launcher that forks", "by its name"],
)
def test_the_program_behind_a_launcher_is_the_program(programs: Shell, command: list[str]) -> None:
    assert shutil.which(command[0])
    done = programs.run("run", "--name", "pipe", "--", *command)
    assert done.returncode == 0, done.stderr
    found = sessions(programs)
    assert set(found) == {"pipe"}
    assert (found["pipe"]["status"], found["pipe"]["head"] > 1) == ("completed", True)


def test_what_is_taken_is_gone_from_the_environment_and_what_is_inherited_is_a_parent(monkeypatch: Any) -> None:
    monkeypatch.setattr("relight.processes.inheritance._TAKEN", {})
    supervisor = "1:0"
    given = {"RELIGHT_SESSION": "s", "RELIGHT_OWNER": "o", "RELIGHT_SUPERVISOR": supervisor}
    assert handed(dict(given))["session"] == "s"
    assert handed({**given, "RELIGHT_AGENT": "claude"}) == {"parent": "s"}
    took("s", given)
    assert given == {"RELIGHT_SUPERVISOR": supervisor, "RELIGHT_PARENT": "s"}
    assert handed(given) == {}, "a second session of the same process is not its own child"
    monkeypatch.setattr(os, "getpid", lambda: 4_000_000)
    assert handed(given) == {"parent": "s"}, "a process that it forks is"
    assert not LAUNCHERS & {"sh", "bash", "python", "python3", "node", "make"}, "those may start several"
