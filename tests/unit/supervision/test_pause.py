"""`relight pause`: whatever runs under supervision ends within two seconds, and nothing starts until it is over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import relight
from relight.errors import Refused
from relight.supervision.pause import _ASK_SECONDS, _KILL_SECONDS
from relight.supervision.waiting import wait
from relight.values.options import RunOptions
from tests.integration.fleet.loops import SimulatedWorker, existing
from tests.support.load import allowed
from tests.support.processes import alive, marked
from tests.support.shell import Shell, eventually
from tests.support.simulation import Simulation

STUBBORN = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('up', 'w').close()\ntime.sleep(600)"
)
LOOPING = """
import relight, time
with relight.session("agent") as s:
    while True:
        s.append({"role": "user", "content": "on and on"})
        open("up", "w").close()
        time.sleep(0.05)
"""
HOLDING = """
import os, signal, time
while not os.path.exists("go"):
    time.sleep(0.02)
os.kill(os.getppid(), signal.SIGSTOP)
open("up", "w").write(str(os.getppid()))
time.sleep(600)
"""
LEAVING = """
import subprocess, time
subprocess.Popen(["sleep", "600"], start_new_session=True)
open("up", "w").close()
time.sleep(600)
"""
MAX_SECONDS = 2.0


@pytest.mark.parametrize(
    "program",
    [STUBBORN, LOOPING, LEAVING, HOLDING],
    ids=["ignores SIGTERM", "uses the library", "leaves a process", "supervisor cannot answer"],
)
def test_what_runs_ends_within_two_seconds_and_nothing_starts_until_the_pause_is_over(
    shell: Shell, program: str
) -> None:
    (shell.directory / "agent.py").write_text(program)
    assert shell.run("run", "--detach", "--name", "busy", "--", sys.executable, "agent.py").returncode == 0
    # Not before that: a stopped process whose parent ends is sent SIGHUP and continues.
    (shell.directory / "go").touch()
    eventually(
        lambda: (shell.directory / "up").exists() and (program is not HOLDING or (shell.directory / "up").read_text())
    )
    with relight.open(shell.address) as rl:
        begun = time.monotonic()
        made = rl.admin.pause(by="ada", reason="the bill")
        taken = time.monotonic() - begun
        info = rl.sessions.get("busy")
    assert (made.ended, made.running) == ([info.id], [])
    assert taken < allowed(MAX_SECONDS)
    assert (info.status, info.reason) == ("terminated", "paused")
    assert not marked("RELIGHT_SESSION", info.id), "no process of it is left"
    if program is HOLDING:  # the pause has killed the supervisor, and its new parent may have waited for it already
        assert not alive(int((shell.directory / "up").read_text()))
    if program is not STUBBORN:
        return
    for words in (("resume", "busy"), ("run", "--", "true"), ("resume", "--all", "--yes")):
        refused = shell.run(*words)
        assert refused.returncode == 4, (words, refused.stderr)
        assert "paused since" in refused.stderr and "the bill" in refused.stderr and "relight unpause" in refused.stderr
    planned = shell.json("can-resume", "busy")
    assert "paused" in {reason["code"] for reason in planned["reasons"]}
    assert "paused by ada" in shell.run().stdout
    over = shell.run("unpause")
    assert over.returncode == 0 and "1 session to resume" in over.stderr + over.stdout
    assert shell.run("run", "--", "true").returncode == 0


def test_a_program_that_relight_did_not_start_is_named_and_goes_on(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl, rl.session("mine") as s:
        made = rl.admin.pause(by="ada")
        assert (made.ended, made.running) == ([], [s.id])
        s.append({"role": "user", "content": "still here"})


def test_workers_take_nothing_during_a_pause_and_go_on_after_it() -> None:
    world = Simulation()
    worker = SimulatedWorker(world)
    worker.rl.admin.pause(by="ada")
    waiting = existing(world, worker.rl)
    worker.step(5)
    assert not worker.loop.running and worker.rl.sessions.get(waiting).status == "queued"
    ended = worker.rl.admin.unpause()
    assert ended is not None and ended.by == "ada" and worker.rl.admin.unpause() is None
    worker.step(3)
    assert worker.loop.running == (waiting,)


def test_a_wait_for_a_limit_does_not_end_during_a_pause() -> None:
    world = Simulation()
    worker = SimulatedWorker(world)
    session = existing(world, worker.rl)
    worker.rl.admin.pause(by="ada")
    tries = iter([False] * 5 + [True])
    context = worker.rl._context
    assert wait(context, session, world.time.now_us() - 1, stop=lambda: next(tries)) == "stopped"
    worker.rl.admin.unpause()
    assert wait(context, session, world.time.now_us() - 1, stop=lambda: False) == "now"


def test_a_pause_holds_in_every_process_and_keeps_its_first_reason(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        rl.admin.pause(by="ada", reason="the bill")
    with relight.open(tmp_path / "r.db") as rl:
        again = rl.admin.pause(by="bob").pause
        assert (again.by, again.reason) == ("ada", "the bill")
        with pytest.raises(Refused, match=r"paused since .* by ada"):
            rl.runs.start(["true"], RunOptions(directory=str(tmp_path), agent="true"))
        assert not list(rl.sessions.list())


def test_a_pause_waits_by_the_clock_however_long_each_look_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Simulation()
    worker = SimulatedWorker(world)
    session = existing(world, worker.rl)
    worker.step(3)
    assert worker.loop.running == (session,), "and nobody ends it"
    person = world.start()
    store, looked = person._context.store, 0

    def slowly(name: str, find: Callable[[str], object] = store.find) -> object:
        nonlocal looked
        looked += 1
        world.time.advance(0.3)
        return find(name)

    monkeypatch.setattr(store, "find", slowly)
    begun_us = world.time.instant().us
    assert person.admin.pause(by="ada").running == [session]
    seconds = (world.time.instant().us - begun_us) / 1e6
    # Two waits, each of which may end one look too late, and a few looks between and after them.
    assert looked < 20 and seconds < _ASK_SECONDS + _KILL_SECONDS + 6 * 0.35, (seconds, looked)


def test_a_pause_stays_after_a_reboot_for_every_kind_of_start(tmp_path: Path) -> None:
    world = Simulation(tmp_path / "r.db")
    worker = SimulatedWorker(world)
    session = existing(world, worker.rl)
    worker.rl.admin.pause(by="ada", reason="the bill")
    world.reboot()
    again = SimulatedWorker(world, "w2")
    again.step(5)
    assert not again.loop.running and again.rl.sessions.get(session).status == "queued"
    options = RunOptions(directory=str(tmp_path), agent="true")
    for start in (lambda: again.rl.runs.start(["true"], options), lambda: again.rl.runs.supervise(session)):
        with pytest.raises(Refused, match=r"paused since .* by ada \(the bill\)"):
            start()
    again.rl.admin.unpause()
    again.step(3)
    assert again.loop.running == (session,)
    world.close()
