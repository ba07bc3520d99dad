"""A worker's loop, round by round: what it takes, what it hands over, what it puts back, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import relight
from relight.cli.maintenance.doctor.server import check_engine
from relight.errors import Corrupt, Refused, UsageError
from relight.fleet.engines.embedded import POLL_SECONDS, EmbeddedEngine
from relight.fleet.worker import WorkerOptions
from relight.journal.queues.takeover import BY_A_PERSON, MAX_STARTS
from relight.ports import faults
from relight.values.policy import RunPolicy
from relight.values.status import StatusChange
from relight.values.step import Changes
from relight.wiring import work_loop
from tests.integration.fleet.loops import LEASE, SimulatedWorker, existing
from tests.support.figures import Figure
from tests.support.simulation import Simulation


@pytest.fixture
def world() -> Simulation:
    return Simulation()


def test_the_first_of_its_lines_are_taken_up_to_its_concurrency(world: Simulation) -> None:
    worker = SimulatedWorker(world, labels=("eu", "gpu"))
    first, second = existing(world, worker.rl, priority=5), existing(world, worker.rl, wants=("gpu",), priority=1)
    third = existing(world, worker.rl)
    others = [existing(world, worker.rl, queue="other"), existing(world, worker.rl, wants=("arm",), priority=99)]
    later = existing(world, worker.rl, priority=50, wake_us=world.time.now_us() + 60_000_000)
    worker.step(3)
    assert worker.loop.running == (first, second)
    worker.attendants.of(first).complete()
    worker.step(2)
    assert worker.loop.running == (second, third)
    worker.attendants.of(second).complete()
    world.time.advance(61)
    worker.step(2)
    assert worker.loop.running == (third, later)
    assert all(worker.rl.sessions.get(one).status == "queued" for one in others)
    reported = [fields for what, fields in worker.lines if what == "start"]
    assert reported[0] == {"session": first, "attempt": 1, "from_seq": 0, "reason": "first"}


def test_a_question_with_a_time_is_woken_when_it_is_over_and_one_without_is_not(world: Simulation) -> None:
    worker = SimulatedWorker(world)
    asking, patient = existing(world, worker.rl), existing(world, worker.rl)
    worker.step(3)
    for session, seconds in ((asking, 60), (patient, None)):
        attendant = worker.attendants.of(session)
        with pytest.raises(relight.Waiting):
            attendant.take_over().ask("go on?", timeout=seconds)
        attendant.end()
    worker.step(3)
    assert not list(worker.loop.running)
    world.time.advance(61)
    worker.step(3)
    assert worker.loop.running == (asking,)
    assert worker.rl.sessions.get(patient).status == "waiting"


def test_a_session_that_sleeps_goes_back_into_its_own_queue_and_is_woken(world: Simulation) -> None:
    worker = SimulatedWorker(world)
    session = existing(world, worker.rl)
    worker.step(3)
    attendant = worker.attendants.of(session)
    with pytest.raises(relight.Waiting, match="sleeping until"):
        attendant.take_over().sleep(600)
    attendant.end()
    before = worker.rl.sessions.get(session)
    assert (before.status, before.queue, before.attention) == ("queued", "q", None)
    worker.step(3)
    assert not list(worker.loop.running)
    world.time.advance(601)
    worker.step(3)
    assert worker.loop.running == (session,)


def test_a_lease_that_is_being_handed_over_is_renewed_until_it_is_taken(world: Simulation) -> None:
    worker, other = SimulatedWorker(world), SimulatedWorker(world, "w2")
    session = existing(world, worker.rl)
    worker.step()
    for _ in range(5):  # its process takes five leases to start
        worker.pass_time(LEASE)
        other.step()
    info = worker.rl.sessions.get(session)
    assert (info.status, info.attempt) == ("spawning", 1)
    attendant = worker.attendants.of(session)
    attendant.take_over()
    attendant.complete()
    worker.step()
    assert worker.rl.sessions.get(session).status == "completed"


@pytest.mark.guarantee("G12")
@pytest.mark.parametrize("point", ["worker.planned", "worker.claimed", "recover.planned", "recover.written"])
def test_a_worker_killed_at_any_point_strands_nothing(world: Simulation, point: str, figure: Figure) -> None:
    worker, other = SimulatedWorker(world), SimulatedWorker(world, "w2")
    session = existing(world, worker.rl)
    if point.startswith("recover"):
        worker.step()
        worker.attendants.of(session).take_over()
        worker.die()
        worker = SimulatedWorker(world, "w3")
    faults.arm_from(f"{point}:1:raise")
    try:
        with pytest.raises(faults.InjectedFault):
            worker.pass_time(2 * LEASE)
    finally:
        faults.disarm()
    worker.die()
    other.pass_time(LEASE + 10)
    other.attendants.of(session).complete()
    other.step()
    info = other.rl.sessions.get(session)
    assert info.status == "completed"
    figure("G12", f"a worker killed at {point}: the session completed with attempt {info.attempt}")


def test_of_two_sweepers_one_puts_a_lost_session_back(world: Simulation) -> None:
    worker = SimulatedWorker(world)
    sweepers = [SimulatedWorker(world, f"s{n}", queues=("none",)) for n in range(2)]
    session = existing(world, worker.rl)
    worker.step()
    worker.attendants.of(session).take_over().append({"role": "user", "content": "one"})
    before = worker.rl.sessions.get(session)
    worker.die()
    for one in sweepers:
        one.step(2)
    reported = [fields for one in sweepers for what, fields in one.lines if what == "taken over"]
    assert len(reported) == 1
    assert reported[0]["from_seq"] == before.seq
    assert reported[0]["reason"].startswith("its process died")
    info = worker.rl.sessions.get(session)
    assert (info.status, info.seq) == ("queued", before.seq + 1)


def test_a_session_whose_attendant_never_starts_goes_back_and_fails_in_the_end(world: Simulation) -> None:
    worker = SimulatedWorker(world)
    session = existing(world, worker.rl)
    for _ in range(MAX_STARTS):
        worker.pass_time(6)
        for one in worker.attendants.alive:
            one.end(1)
    worker.pass_time(6)
    info = worker.rl.sessions.get(session)
    assert info.status == "failed"
    assert info.reason is not None
    assert "without a new step" in info.reason
    assert len(worker.attendants.all) == MAX_STARTS


def test_a_machine_that_cannot_start_processes_hands_back_what_it_claimed(world: Simulation) -> None:
    worker, other = SimulatedWorker(world), SimulatedWorker(world, "w2")
    session = existing(world, worker.rl)
    worker.attendants.fail = OSError("no more processes")
    worker.step()
    info = worker.rl.sessions.get(session)
    assert (info.status, info.reason) == ("queued", "its worker could not start it: no more processes")
    other.pass_time(4)
    assert other.loop.running == (session,)


@pytest.mark.parametrize(("retries", "status"), [(None, "queued"), (0, "terminated"), (3, "queued")])
def test_a_plain_program_that_was_lost_is_started_again_unless_somebody_said_no(
    world: Simulation, retries: int | None, status: str
) -> None:
    worker, other = SimulatedWorker(world), SimulatedWorker(world, "w2", queues=("none",))
    session = existing(world, worker.rl, policy=RunPolicy(retries=retries))
    worker.step()
    opened = worker.attendants.of(session).take_over()
    shown = Changes(status=StatusChange(status="working"))  # as a supervisor says of a program that does not speak
    opened._recorder.commit("status", shown)
    worker.die()
    other.step(2)
    assert other.rl.sessions.get(session).status == status


def test_a_drain_asks_everybody_takes_nothing_more_and_ends(world: Simulation) -> None:
    worker = SimulatedWorker(world)
    for _ in range(3):
        existing(world, worker.rl)
    worker.step(2)
    running = worker.attendants.alive
    worker.loop.stop()
    worker.step(2)
    assert [one.drained for one in running] == [1, 1]
    assert worker.rl.queues.workers()[0].worker.draining
    worker.loop.stop()
    worker.step()
    assert [one.drained for one in running] == [2, 2]
    for one in running:
        one.end()
    worker.loop.run()
    assert len(worker.attendants.all) == 2
    assert worker.rl.queues.workers() == []
    assert worker.rl.sessions.counts() == {"queued": 3}


def test_a_queue_has_one_limit_for_all_workers(world: Simulation) -> None:
    workers = [SimulatedWorker(world, f"w{n}", concurrency=5) for n in range(2)]
    rl = workers[0].rl
    rl.queues.set("q", concurrency=3)
    for _ in range(8):
        existing(world, rl)
    for worker in workers * 3:
        worker.step()
    running = [one for worker in workers for one in worker.attendants.alive]
    assert len(running) == 3
    running[0].complete()
    for worker in workers:
        worker.pass_time(2.5)
    assert sum(len(worker.attendants.alive) for worker in workers) == 3
    rl.queues.set("q", concurrency=0)
    for worker in workers:
        worker.pass_time(2.5)
    assert sum(len(worker.attendants.alive) for worker in workers) == 7


def test_a_queue_starts_no_more_in_a_while_than_its_rate(world: Simulation) -> None:
    worker = SimulatedWorker(world, concurrency=50)
    worker.rl.queues.set("q", rate="2/min")
    for _ in range(5):
        existing(world, worker.rl)
    worker.pass_time(30)
    assert len(worker.attendants.all) == 2
    worker.pass_time(33)
    assert len(worker.attendants.all) == 4


def test_a_queue_says_how_many_deaths_its_sessions_survive(world: Simulation) -> None:
    worker = SimulatedWorker(world)
    worker.rl.queues.set("q", retries=3)
    plain, own = existing(world, worker.rl), existing(world, worker.rl, policy=RunPolicy(retries=1))
    worker.step(2)
    assert [worker.attendants.of(one).retries for one in (plain, own)] == [3, 1]


def test_a_person_stops_what_stands_in_line_and_what_runs_elsewhere(world: Simulation) -> None:
    worker, sweeper = SimulatedWorker(world, concurrency=1), SimulatedWorker(world, "w2", queues=("none",))
    running, waiting = existing(world, worker.rl), existing(world, worker.rl)
    worker.step()
    worker.attendants.of(running).take_over()
    person = world.start()
    person.runs.stop(waiting)
    info = person.sessions.get(waiting)
    assert (info.status, info.reason) == ("terminated", BY_A_PERSON)
    cannot_see(person)
    with pytest.raises(Refused, match="was asked to stop and has not done so yet"):
        person.runs.stop(running)
    worker.die()  # before it looked: the sweep obeys in its place
    sweeper.pass_time(8)
    info = person.sessions.get(running)
    assert (info.status, info.reason) == ("terminated", BY_A_PERSON)


def cannot_see(rl: Any) -> None:
    """From another machine: whether a process lives cannot be seen."""
    rl._context.host.is_gone = lambda owner: None


def test_a_limit_that_was_met_is_waited_for_in_line(world: Simulation) -> None:
    worker = SimulatedWorker(world)
    session = existing(world, worker.rl)
    worker.step()
    opened = worker.attendants.of(session).take_over()
    wake_us = world.time.now_us() + 3_600_000_000
    change = StatusChange(status="queued", reason="usage limit", wake_us=wake_us)
    opened._recorder.commit("status", Changes(status=change), release=True)
    worker.attendants.of(session).end()
    worker.pass_time(60)
    assert not worker.loop.running
    world.time.advance(3_600)
    worker.pass_time(3)
    assert worker.loop.running == (session,)
    resumed = [fields for what, fields in worker.lines if what == "resume"]
    assert resumed[0]["reason"] == "queued: usage limit"


def test_workers_are_listed_and_the_silent_ones_told(world: Simulation) -> None:
    worker, other = SimulatedWorker(world, labels=("gpu",)), SimulatedWorker(world, "w2")
    session = existing(world, worker.rl)
    worker.step(2)
    worker.pass_time(4)
    listed = {one.worker.name: one for one in other.rl.queues.workers()}
    assert listed["w1"].worker.running == (session,)
    assert (listed["w1"].worker.labels, listed["w1"].alive) == (("gpu",), True)
    worker.die()
    other.pass_time(40)
    assert {one.worker.name: one.alive for one in other.rl.queues.workers()} == {"w1": False, "w2": True}
    world.time.advance(4000)
    other.pass_time(6)
    assert [one.worker.name for one in other.rl.queues.workers()] == ["w2"]


def test_retention_runs_once_a_day_in_one_of_the_workers(world: Simulation) -> None:
    workers = [SimulatedWorker(world, f"w{n}") for n in range(2)]
    for worker in workers:
        worker.pass_time(8)
    assert sum(worker.attendants.tidied for worker in workers) == 0, "nobody set a policy"
    workers[0].rl.admin.set_retention(7.0)
    for worker in workers:
        worker.pass_time(8)
    assert sum(worker.attendants.tidied for worker in workers) == 1
    world.time.advance(86_400)
    for worker in workers:
        worker.pass_time(8)
    assert sum(worker.attendants.tidied for worker in workers) == 2


def test_a_worker_that_slept_lets_the_owners_that_slept_too_go_on(world: Simulation) -> None:
    """A closed lid: leases ran out while nobody could renew them, and nobody is dead."""
    worker, other = SimulatedWorker(world), SimulatedWorker(world, "w2", queues=("none",))
    session = existing(world, worker.rl)
    worker.step()
    attendant = worker.attendants.of(session)
    attendant.take_over()
    other.step()
    world.time.advance(10 * LEASE)
    other.loop.step()
    attendant.say("awake")
    other.pass_time(8)
    info = worker.rl.sessions.get(session)
    assert (info.status, info.attempt) == ("working", 1)


def test_an_owner_that_sleeps_alone_is_taken_over_after_lease_and_sweep(world: Simulation) -> None:
    worker, other = SimulatedWorker(world), SimulatedWorker(world, "w2")
    session = existing(world, worker.rl)
    worker.step()
    worker.attendants.of(session).take_over()
    begun_us = world.time.instant().us
    while other.loop.running != (session,):
        other.step()
        assert world.time.instant().us - begun_us < 2 * LEASE * 1e6
    assert (world.time.instant().us - begun_us) / 1e6 <= LEASE + 5.0


def test_a_worker_rests_between_its_rounds_whatever_its_store_and_its_hands_hold(world: Simulation) -> None:
    """Nothing to do, full hands, others who write all the time: no reason to turn round and round."""
    worker = SimulatedWorker(world, concurrency=1)
    worker.loop._engine = EmbeddedEngine(worker.rl.store, world.time)

    def rested(rounds: int, between: Callable[[], None] = lambda: None) -> float:
        begun_us = world.time.instant().us
        for _ in range(rounds):
            worker.step()
            between()
        return (world.time.instant().us - begun_us) / 1e6

    world.time.advance(5)
    assert rested(50) >= 50 * POLL_SECONDS
    session = existing(world, worker.rl)
    assert rested(5) < 1.0
    assert worker.loop.running == (session,)
    attendant = worker.attendants.of(session)
    attendant.take_over()
    assert rested(50, lambda: attendant.say("on and on")) >= 50 * POLL_SECONDS
    attendant.complete()
    second = existing(world, worker.rl)
    assert rested(5) < 1.0
    assert worker.loop.running == (second,)


def test_a_damaged_session_keeps_nobody_else_from_being_put_back(tmp_path: Path) -> None:
    """Nobody can say what becomes of what cannot be read; the others do not wait for that."""
    world = Simulation(tmp_path / "relight.db")
    worker, other = SimulatedWorker(world, concurrency=3), SimulatedWorker(world, "w2", queues=("none",))
    ids = [existing(world, worker.rl) for _ in range(3)]
    worker.step()
    for one in ids:
        worker.attendants.of(one).take_over()
    with apsw.Connection(str(tmp_path / "relight.db")) as file:
        file.execute("UPDATE sessions SET record = x'00' WHERE id = ?", (ids[2],))
    for one in (ids[2], ids[0]):
        worker.attendants.of(one).end(1)
    worker.step()
    worker.step()
    assert worker.loop.running == (ids[1], ids[0])
    worker.die()
    other.step(2)
    assert [other.rl.sessions.get(one).status for one in ids[:2]] == ["queued", "queued"]
    with pytest.raises(Corrupt):
        other.rl.sessions.get(ids[2])
    assert not [line for line in (*worker.lines, *other.lines) if line[0] == "store away"]
    world.close()


def test_a_machine_that_cannot_start_the_daily_sweep_goes_on(world: Simulation) -> None:
    worker = SimulatedWorker(world)
    worker.rl.admin.set_retention(7.0)
    worker.attendants.fail = OSError("no more processes")
    worker.step()
    assert ("not started", {"what": "retention", "error": "no more processes"}) in worker.lines
    worker.attendants.fail = None
    session = existing(world, worker.rl)
    worker.step(2)
    assert worker.loop.running == (session,)


def test_a_program_that_died_a_moment_ago_is_left_to_whoever_attends_to_it(world: Simulation) -> None:
    """He counts its deaths, and starts it again: another worker on the same machine does not step in between."""
    rl = world.start()
    session = existing(world, rl)
    first = SimulatedWorker(world, "first")
    first.step()
    first.attendants.of(session).take_over()
    other = SimulatedWorker(world, "other")
    program = first.attendants.of(session).pid
    other.step()
    world.machine.alive.discard(program)
    other.loop._sweep_us = 0
    other.step()
    assert rl.sessions.get(session).attempt == 1
    assert ("taken over" in {what for what, _ in other.lines}) is False
    other.pass_time(3.0)  # nobody said anything: then it is lost
    assert [what for what, _ in other.lines].count("taken over") == 1
    assert rl.sessions.get(session).attempt == 2


def test_who_waits_for_a_label_that_no_worker_has_is_told(world: Simulation) -> None:
    rl = world.start()
    existing(world, rl, wants=("gpu",))
    worker = SimulatedWorker(world)
    worker.step()
    (found,) = check_engine(rl, [])
    assert not found.fine
    assert found.text.endswith("no worker serves q with gpu")
    assert found.cure == "relight worker --queue q --labels gpu"
    SimulatedWorker(world, "able", labels=("eu", "gpu")).step()
    (found,) = check_engine(rl, [])
    assert found.fine


def test_a_store_that_lives_in_one_process_has_no_workers() -> None:
    with relight.open("memory:") as rl, pytest.raises(UsageError, match="a store that it can open too"):
        work_loop(rl, WorkerOptions(name="w", queues=("q",)), lambda what, fields: None)
