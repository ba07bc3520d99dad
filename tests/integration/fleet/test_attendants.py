"""Those who attend to sessions, forked or started: they live by themselves, and their worker learns how they ended."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relight.fleet.worker import claim
from relight.processes.attendants import ForkedAttendant, ProcessAttendants, StartedAttendant
from tests.support.fleet import FLEET, Fleet, wait_until
from tests.support.processes import marked, words

Made = ForkedAttendant | StartedAttendant


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path, str(tmp_path / "relight.db"), RELIGHT_LEASE_SECONDS="6", RELIGHT_SWEEP_SECONDS="1")
    yield made
    made.close()


@pytest.fixture(params=[True, False], ids=["forked", "started"])
def attendants(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[ProcessAttendants]:
    run_directory = fleet.rl._context.run_directory
    made = ProcessAttendants(fleet.url, "here", run_directory, fleet.environment, forks=request.param)
    yield made
    made.close()


def attended(fleet: Fleet, attendants: ProcessAttendants, session: str) -> Made:
    """Claimed as a worker does, and handed over."""
    record = fleet.rl.store.find(session)
    assert record is not None and record.head is not None
    claimed = claim(fleet.rl._context, record.identity, record.head, seconds=6)
    assert claimed is not None
    return attendants.start(session, owner=claimed.owner, retries=None)


def code_of(one: Made) -> int:
    wait_until("its end", lambda: one.poll() is not None, bound_seconds=60)
    code = one.poll()
    assert code is not None
    return code


def processes_of(fleet: Fleet) -> list[int]:
    """Everything that was started for this fleet."""
    return marked(FLEET, fleet.environment[FLEET])


def owner_of(fleet: Fleet, session: str) -> int:
    record = fleet.rl.store.find(session)
    assert record is not None and record.head is not None
    return record.head.lease.owner.pid if record.head.lease is not None else 0


def test_their_worker_learns_how_they_ended_and_their_programs_inherit_nothing(
    fleet: Fleet, attendants: ProcessAttendants
) -> None:
    files = (
        "import os, sys\n"
        "def is_open(fd):\n"
        "    try: return bool(os.fstat(fd))\n"
        "    except OSError: return False\n"
        "print(list(filter(is_open, range(256)))); sys.exit(int(sys.argv[1]))"
    )
    for wanted in (0, 3):
        script = [sys.executable, "-c", files, str(wanted)]
        session = fleet.rl.queues.submit(script, directory=str(fleet.directory), queue="default").id
        assert code_of(attended(fleet, attendants, session)) == wanted
        printed = (fleet.rl._context.run_directory(session) / "supervisor.log").read_text()
        assert "[0, 1, 2]" in printed
        assert "Traceback" not in printed
        assert fleet.rl.sessions.get(session).status == ("completed" if not wanted else "failed")
    attendants.close()
    wait_until("nobody is left", lambda: not processes_of(fleet), bound_seconds=60)


def test_a_request_to_stop_that_comes_before_it_listens_is_kept(fleet: Fleet, attendants: ProcessAttendants) -> None:
    (session,) = fleet.submit(1, turns=100, seconds=0.1)
    one = attended(fleet, attendants, session)
    one.drain()
    code_of(one)
    info = fleet.rl.sessions.get(session)
    assert (info.status, info.reason) == ("queued", "its worker here stops")
    one.drain()  # it has ended: nobody is asked


def test_one_that_is_killed_is_told_from_one_that_ended(fleet: Fleet, attendants: ProcessAttendants) -> None:
    session = fleet.rl.queues.submit(["sleep", "30"], directory=str(fleet.directory), queue="default").id
    one = attended(fleet, attendants, session)
    wait_until("it owns the session", lambda: owner_of(fleet, session) not in (0, os.getpid()))
    os.kill(owner_of(fleet, session), signal.SIGKILL)
    assert code_of(one) == -signal.SIGKILL
    for pid in processes_of(fleet):
        if "sleep" in words(pid):
            os.kill(pid, signal.SIGKILL)


def test_whoever_was_forked_outlives_the_fork_server_and_the_next_one_is_made(fleet: Fleet) -> None:
    run_directory = fleet.rl._context.run_directory
    attendants = ProcessAttendants(fleet.url, "here", run_directory, fleet.environment, forks=True)
    first, second = fleet.submit(2, turns=3, seconds=0.1)
    one = attended(fleet, attendants, first)
    wait_until("an effect", fleet.effects.read_text)
    assert attendants._fork_server is not None
    attendants._fork_server._process.kill()
    attendants._fork_server._process.wait()
    other = attended(fleet, attendants, second)
    assert (code_of(one), code_of(other)) == (-signal.SIGKILL, 0)  # nobody was left to say how the first ended
    assert [fleet.rl.sessions.get(session).status for session in (first, second)] == ["completed", "completed"]
    assert [fleet.rl.sessions.get(session).attempt for session in (first, second)] == [1, 1]
    attendants.close()
