"""Real workers on SQLite, one machine: what the command line promises of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from relight.journal.queues.takeover import BY_A_PERSON
from tests.support.figures import Figure
from tests.support.fleet import Fleet, Judged, RunningWorker, wait_until
from tests.support.processes import alive


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path, str(tmp_path / "relight.db"), RELIGHT_LEASE_SECONDS="6", RELIGHT_SWEEP_SECONDS="1")
    yield made
    made.close()


def command(fleet: Fleet, *words: str) -> subprocess.CompletedProcess[str]:
    """`relight WORDS`, to its end."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "relight.cli", *words],
        env=dict(fleet.environment),
        cwd=fleet.directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_drained_worker_puts_what_it_runs_back_in_line_and_another_goes_on(fleet: Fleet) -> None:
    (session,) = fleet.submit(1, turns=6, seconds=0.3)
    worker = fleet.start("--concurrency", "1")
    wait_until("two effects", lambda: fleet.effects.read_text().count("\n") >= 2)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(60) == 0
    info = fleet.rl.sessions.get(session)
    assert (info.status, info.reason) == ("queued", f"its worker {worker.name} stops")
    assert worker.tree() == [worker.process.pid]
    fleet.start("--until-empty", name="second")
    wait_until("the end", lambda: fleet.rl.sessions.get(session).status == "completed")
    judged = Judged(fleet, [session], turns=6)
    judged.check(fleet)
    assert {line.split()[2] for line in fleet.effects.read_text().splitlines()} == {"w1", "second"}
    reasons = [
        event.started.get("reason")
        for event in fleet.rl.history.events(session)
        if event.started and event.attempt == 2
    ]
    assert reasons[0] == f"queued: its worker {worker.name} stops"


def test_what_a_killed_worker_was_attending_to_goes_back_in_line_by_itself(fleet: Fleet) -> None:
    """Only the worker dies, not its machine: its attendants see the pipe close, and need no lease to run out."""
    (session,) = fleet.submit(1, turns=30, seconds=0.2)
    worker = fleet.start()
    wait_until("an effect", fleet.effects.read_text)
    worker.process.kill()
    worker.process.wait()
    wait_until("back in line", lambda: fleet.rl.sessions.get(session).status == "queued", bound_seconds=30)
    wait_until("nobody is left", lambda: len(worker.tree()) == 1)
    assert fleet.rl.sessions.get(session).reason == f"its worker {worker.name} stops"


def test_stop_ends_what_a_worker_runs_and_what_stands_in_line(fleet: Fleet) -> None:
    running, waiting = fleet.submit(2, turns=100, seconds=0.2)
    fleet.start("--concurrency", "1")
    wait_until("an effect", fleet.effects.read_text)
    for session in (waiting, running):
        done = command(fleet, "stop", session)
        assert done.returncode == 0, done.stderr
        info = fleet.rl.sessions.get(session)
        assert (info.status, info.reason) == ("terminated", BY_A_PERSON)
    assert wait_until(
        "nothing runs", lambda: not fleet.rl.queues.workers() or not fleet.rl.queues.workers()[0].worker.running
    )


def test_stop_of_a_session_that_is_being_handed_over_ends_that_one_alone(fleet: Fleet) -> None:
    """Its owner is the worker at that moment, and a worker has others in its hands."""
    (beside,) = fleet.submit(1, turns=100, seconds=0.2)
    worker = fleet.start()
    wait_until("an effect", fleet.effects.read_text)
    os.kill(worker.fork_server(), signal.SIGSTOP)
    (session,) = fleet.submit(1, turns=100, seconds=0.2)
    wait_until("claimed", lambda: fleet.rl.sessions.get(session).status == "spawning")
    words = [sys.executable, "-P", "-m", "relight.cli", "stop", session]
    with subprocess.Popen(words, env=dict(fleet.environment), stdout=subprocess.DEVNULL) as stop:
        wait_until("the wish", lambda: _stop_attempt(fleet, session) == 1 or stop.poll() is not None, bound_seconds=60)
        os.kill(worker.fork_server(), signal.SIGCONT)
        assert stop.wait(30) == 0
    info = fleet.rl.sessions.get(session)
    assert (info.status, info.reason) == ("terminated", BY_A_PERSON)
    assert fleet.rl.sessions.get(beside).status == "working"
    assert [one.worker.draining for one in fleet.rl.queues.workers()] == [False]


def _stop_attempt(fleet: Fleet, session: str) -> int | None:
    record = fleet.rl.store.find(session)
    assert record is not None
    return record.identity.stop_attempt


def test_a_service_that_is_stopped_with_all_its_processes_puts_everything_back_in_line(fleet: Fleet) -> None:
    """A service manager sends its signal to everybody at once: that is one request, and no verdict on any session."""
    spoken = fleet.submit(2, turns=100, seconds=0.2)
    plain = fleet.rl.queues.submit(["sleep", "60"], directory=str(fleet.directory), queue="default").id
    worker = fleet.start()
    wait_until("all at work", lambda: all(fleet.rl.sessions.get(one).status == "working" for one in (*spoken, plain)))
    worker.signal_all(signal.SIGTERM)
    assert worker.process.wait(60) == 0
    for one in (*spoken, plain):
        assert fleet.rl.sessions.get(one).status == "queued", fleet.rl.sessions.get(one).reason
    assert worker.tree() == [worker.process.pid]


@pytest.mark.guarantee("G12")
def test_a_worker_killed_between_claim_and_hand_over_strands_nothing(fleet: Fleet, figure: Figure) -> None:
    (session,) = fleet.submit(1, turns=2)
    fleet.environment = {**fleet.environment, "RELIGHT_FAULT": "worker.claimed:1:kill"}
    assert fleet.start().process.wait(60) == -signal.SIGKILL
    assert fleet.rl.sessions.get(session).attempt == 1
    fleet.environment = {**fleet.environment, "RELIGHT_FAULT": ""}
    fleet.start("--until-empty")
    wait_until("the end", lambda: fleet.rl.sessions.get(session).status == "completed")
    Judged(fleet, [session], turns=2).check(fleet)
    figure("G12", "a worker killed with a session claimed and not handed over: another completed it")


def test_a_command_line_puts_in_line_lists_and_sets(fleet: Fleet) -> None:
    program = [sys.executable, "-c", "print('plain')"]
    put = command(
        fleet, "run", "--queue", "night", "--priority", "3", "--wants", "gpu", "--name", "one", "--", *program
    )
    assert put.returncode == 0, put.stderr
    assert put.stdout.split("\t")[1:] == ["one", "night\n"]
    assert "queue       night, priority 3, for a worker with gpu\n" in command(fleet, "show", "one").stdout
    later = command(fleet, "run", "--queue", "night", "--not-before", "+2h", "--name", "two", "--", *program)
    assert later.returncode == 0, later.stderr
    assert command(fleet, "run", "--priority", "1", "--", *program).returncode == 2
    assert command(fleet, "run", "--queue", "no such", "--", *program).returncode == 2
    done = command(fleet, "queue", "set", "night", "--concurrency", "4", "--rate", "10/min", "--retries", "3")
    assert done.returncode == 0, done.stderr
    assert command(fleet, "queue", "set", "night", "--rate", "often").returncode == 2
    (listed,) = json.loads(command(fleet, "queue", "list", "--json").stdout)
    assert (listed["name"], listed["queued"], listed["concurrency"], listed["retries"]) == ("night", 2, 4, 3)
    assert listed["rate"] == {"starts": 10, "seconds": 60.0}
    worker = fleet.start("--queue", "night", "--labels", "gpu,eu")
    wait_until("the end", lambda: fleet.rl.sessions.get("one").status == "completed")
    assert fleet.rl.sessions.get("two").status == "queued"
    (reported,) = json.loads(command(fleet, "worker", "--list", "--json").stdout)
    assert (reported["name"], reported["queues"], reported["labels"], reported["alive"]) == (
        worker.name,
        ["night"],
        ["eu", "gpu"],
        True,
    )
    again = command(fleet, "resume", "one", "--queue", "night")
    assert again.returncode == 4
    assert "completed" in again.stderr
    assert command(fleet, "stop", "two").returncode == 0


def test_a_worker_obeys_who_asks_from_another_machine(fleet: Fleet) -> None:
    (session,) = fleet.submit(1, turns=100, seconds=0.2)
    fleet.start()
    wait_until("an effect", fleet.effects.read_text)
    record = fleet.rl.store.find(session)
    assert record is not None
    # as `stop` does from elsewhere
    fleet.rl.store.update(session, lambda now: msgspec.structs.replace(now, stop_attempt=1))
    wait_until("the end", lambda: fleet.rl.sessions.get(session).reason == BY_A_PERSON, bound_seconds=30)
    assert fleet.rl.sessions.get(session).status == "terminated"
    again = fleet.rl.queues.enqueue(session)  # the request was for that attempt
    assert (again.status, again.queue) == ("queued", "default")
    wait_until(
        "it goes on",
        lambda: fleet.rl.sessions.get(session).attempt == 2 and fleet.rl.sessions.get(session).status == "working",
    )


def test_a_workspace_that_is_not_on_this_machine_is_brought_to_it(fleet: Fleet) -> None:
    program, work = fleet.directory / "files.py", fleet.directory / "work"
    program.write_text(FILES, encoding="utf-8")
    work.mkdir()
    command_ = [sys.executable, "-P", str(program)]
    made = fleet.rl.queues.submit(command_, directory=str(work), workspace=str(work), name="files")
    worker = fleet.start("--queue", "default")
    wait_until("three files", lambda: len(list(work.glob("*.txt"))) >= 3)
    wait_until("three steps", lambda: fleet.rl.sessions.get(made.id).message_count >= 3)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(60) == 0
    shutil.rmtree(work)  # as on another machine
    fleet.start("--until-empty").process.wait(60)
    info = fleet.rl.sessions.get(made.id)
    assert info.status == "completed", (info.reason, fleet.logs())
    assert sorted(path.name for path in work.glob("*.txt")) == [f"{n}.txt" for n in range(6)]


FILES = """
import relight, time
with relight.open() as rl, rl.session("files") as s:
    for n in range(s.state.get("n", 0), 6):
        open(f"{n}.txt", "w").write("x")
        with s.batch():
            s.append({"role": "user", "content": f"file {n}"})
            s.state["n"] = n + 1
        time.sleep(0.3)
    s.complete("six files")
"""


def test_a_store_that_was_away_is_no_verdict_on_a_program(fleet: Fleet) -> None:
    """It could not open it, or could not save: a program of a queue is started again, whoever notices."""
    program = fleet.directory / "away.py"
    program.write_text(AWAY, encoding="utf-8")
    made = fleet.rl.queues.submit([sys.executable, "-P", str(program)], directory=str(fleet.directory), name="away")
    fleet.start("--until-empty").process.wait(60)
    info = fleet.rl.sessions.get(made.id)
    assert (info.status, info.attempt) == ("completed", 3), (info.reason, fleet.logs())
    reasons = [event.started.get("reason") for event in fleet.rl.history.events(made.id) if event.started]
    assert "queued: its store was unavailable when it started" in reasons
    assert "queued: store unavailable: gone" in reasons


AWAY = """
import os, relight
from relight.errors import StoreUnavailable
runs = len([name for name in os.listdir() if name.startswith("run")])
open(f"run{runs}", "w").close()
if runs == 0:
    raise StoreUnavailable("gone")
with relight.open() as rl, rl.session("away") as s:
    if runs == 1:
        raise StoreUnavailable("gone")
    s.complete("done")
"""


def test_a_session_that_cannot_be_started_here_fails_with_its_reason(fleet: Fleet) -> None:
    gone = fleet.rl.queues.submit(
        ["no-such-program-at-all"], queue="default", directory=str(fleet.directory), name="gone"
    )
    fleet.start("--until-empty").process.wait(60)
    info = fleet.rl.sessions.get(gone.id)
    assert info.status == "failed"
    assert "no-such-program-at-all" in (info.reason or "")


def test_a_prompt_and_its_place_are_one_commit(fleet: Fleet) -> None:
    made = fleet.rl.queues.submit(
        [sys.executable, "-c", ""], prompt="hello", directory=str(fleet.directory), priority=2
    )
    assert (made.status, made.queue, made.priority, made.message_count) == ("queued", "default", 2, 1)
    (step,) = fleet.rl.history.events(made.id)
    assert step.kind == "message"


@pytest.mark.guarantee("G8")
def test_a_stopped_machine_that_wakes_up_writes_nothing(fleet: Fleet, figure: Figure) -> None:
    (session,) = fleet.submit(1, turns=8, seconds=0.15)
    first = fleet.start(name="first")
    wait_until("an effect", fleet.effects.read_text)
    wait_until("it sleeps, and holds no lock of the file", lambda: _sleeps_without_a_lock(fleet, first))
    begun = time.monotonic()
    fleet.start(name="second")
    wait_until("the takeover", lambda: fleet.rl.sessions.get(session).attempt == 2, bound_seconds=60)
    seconds = time.monotonic() - begun
    first.signal_all(signal.SIGCONT)
    wait_until("the end", lambda: fleet.rl.sessions.get(session).status == "completed")
    judged = Judged(fleet, [session], turns=8)
    judged.check(fleet)
    left = 2  # the worker, and the process that forks those who attend
    wait_until("the zombie is gone", lambda: len([p for p in first.tree() if alive(p)]) <= left)
    figure(
        "G8", f"a machine stopped past its lease: taken over after {seconds:.1f} s (lease 6 + sweep 1), 0 late writes"
    )


def _sleeps_without_a_lock(fleet: Fleet, worker: RunningWorker) -> bool:
    """A process that stands still in the middle of a commit keeps everybody from the one file there is."""
    worker.signal_all(signal.SIGSTOP)
    with contextlib.closing(apsw.Connection(fleet.url)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            worker.signal_all(signal.SIGCONT)
            return False
    return True


def test_wrong_settings_are_refused_in_words(fleet: Fleet) -> None:
    for name, value in (("RELIGHT_LEASE_SECONDS", "soon"), ("RELIGHT_SWEEP_SECONDS", "-1"), ("RELIGHT_ENGINE", "x")):
        asked: dict[str, Any] = {**fleet.environment, name: value}
        fleet.environment, before = asked, fleet.environment
        done = command(fleet, "worker")
        fleet.environment = before
        assert done.returncode == 2, (name, done.stderr)
        assert value in done.stderr
        assert os.path.exists(fleet.directory)


def test_a_worker_whose_store_is_gone_for_good_still_ends_when_it_is_asked(fleet: Fleet) -> None:
    plain = fleet.rl.queues.submit(["sleep", "60"], directory=str(fleet.directory), queue="default").id
    worker = fleet.start()
    wait_until("at work", lambda: fleet.rl.sessions.get(plain).status == "working")
    for path in fleet.directory.glob("relight.db*"):
        if path.is_file():
            path.unlink()
    wait_until("it has seen it", lambda: "store away" in worker.log.read_text())
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(40) == 0
    wait_until("nobody is left", lambda: len(worker.tree()) == 1, bound_seconds=60)
