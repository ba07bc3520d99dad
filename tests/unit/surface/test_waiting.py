"""`Waiting` leaves the block as an exception, and a program that nobody catches it in ends with one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import relight

LINE = "relight: w is waiting for an answer: go on?  (relight send w ANSWER, then run this program again)\n"
PROGRAMS = {
    "task group": (
        "async def one():\n"
        "    async with relight.aio.open() as rl, await rl.session('w') as s, asyncio.TaskGroup() as group:\n"
        "        group.create_task(s.ask('go on?'))\n"
        "asyncio.run(one())\n"
    ),
    "thread": (
        "def one():\n"
        "    with relight.open() as rl, rl.session('w') as s:\n"
        "        s.ask('go on?')\n"
        "thread = threading.Thread(target=one)\n"
        "thread.start()\n"
        "thread.join()\n"
    ),
}


def run(program: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    code = f"import asyncio, sys, threading, relight\n{program}"
    environment = {**os.environ, "RELIGHT_STORE": f"sqlite:///{tmp_path}/w.db"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_program_that_waits_ends_with_one_line_and_exit_code_0(program: str, tmp_path: Path) -> None:
    done = run(program, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", LINE)
    with relight.open(f"sqlite:///{tmp_path}/w.db") as rl:
        assert (rl.sessions.get("w").status, rl.sessions.get("w").question) == ("waiting", "go on?")


def test_other_errors_go_to_the_hook_that_the_program_has_set(tmp_path: Path) -> None:
    program = (
        "sys.excepthook = lambda kind, error, trace: print('mine:', error)\n"
        "try:\n"
        "    with relight.open() as rl, rl.session('w') as s:\n"
        "        s.ask('go on?')\n"
        "except relight.Waiting as wait:\n"
        "    print(wait.session, wait.question)\n"
        "    raise ValueError('other')\n"
    )
    done = run(program, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "w go on?\nmine: other\n", "")
