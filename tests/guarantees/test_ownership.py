"""G8: one live owner. G9: clocks that jump lose nothing and give nobody a lease.

Real processes are stopped past their lease and taken over; and seeded schedules of claims, expiries and zombies run
over the memory store, where every write is recorded with the epoch that the store itself had at that moment.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

import relight
from relight.errors import InDoubt, LeaseHeld, LeaseLost, NotResumable, RelightError
from relight.sessions.session import Session
from relight.values.policy import Retention
from tests.support.child_processes import Child, ForkServer, lines_of, wait_until
from tests.support.figures import Figure
from tests.support.simulation import Simulation

LEASE_SECONDS = 0.3


class Writer:
    """A process that appends when told to."""

    def __init__(
        self, fork_server: ForkServer, directory: Path, name: str, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self.reported, self.orders = directory / f"{name}.told", directory / f"{name}.orders"
        os.mkfifo(self.orders)
        store = str(directory / "relight.db")
        options: dict[str, Any] = {"orders": self.orders, "reported": self.reported, "lease_seconds": lease_seconds}
        self.child: Child = fork_server.run("writer", store=store, session="a", **options)
        wait_until("the writer to open", lambda: lines_of(self.reported))
        self.pipe = open(self.orders, "w", encoding="utf-8")  # noqa: SIM115

    def order(self, text: str) -> None:
        self.pipe.write(text + "\n")
        self.pipe.flush()

    def answer(self, number: int) -> str:
        return str(wait_until("an answer", lambda: (lines_of(self.reported)[number:] or [""])[0]))

    def close(self) -> None:
        self.pipe.close()
        self.child.wait()


@pytest.mark.crash
@pytest.mark.guarantee("G8")
def test_a_stopped_writer_that_was_taken_over_is_refused_at_its_first_write(
    fork_server: ForkServer, tmp_path: Path, sample: Any, figure: Figure
) -> None:
    zombies = sample(5, proof=1_000, teeth=1)
    with relight.open(tmp_path / "relight.db") as rl:
        for number in range(zombies):
            writer = Writer(fork_server, tmp_path, f"z{number}")
            writer.order("before")
            assert writer.answer(1).startswith("ok")
            writer.child.signal(signal.SIGSTOP)
            s = wait_until("the lease to end", lambda: _try_to_open(rl))
            writer.order("zombie")
            writer.child.signal(signal.SIGCONT)
            assert writer.answer(2).startswith("LeaseLost")
            s.append({"role": "user", "content": "successor"})
            s.close()
            writer.close()
            assert os.WEXITSTATUS(writer.child.wait()) == LeaseLost.exit_code
        contents = [message["content"] for message in rl.history.load("a").messages]
        assert contents == ["before", "successor"] * zombies
        assert rl.history.verify().ok
    figure("G8", f"{zombies} writers stopped past their lease and taken over, 0 writes of theirs afterwards")


def _try_to_open(rl: relight.Relight) -> Session | None:
    try:
        return rl.session("a")
    except LeaseHeld:
        return None


@pytest.mark.crash
def test_a_dead_owner_is_taken_over_within_a_second(fork_server: ForkServer, tmp_path: Path, figure: Figure) -> None:
    """By evidence about its process, whose lease was good for ten minutes; also where there is no /proc."""
    store, taken = tmp_path / "relight.db", []
    for number in range(3):
        reported = tmp_path / f"reported{number}"
        child = fork_server.run("appender", store=str(store), session="a", reported=reported)
        wait_until("its first step", lambda: lines_of(reported))  # noqa: B023
        child.kill()
        assert child.was_killed, child.said
        began = time.monotonic()
        with relight.open(store) as rl, rl.session("a") as s:
            s.append({"role": "user", "content": "taken over"})
            taken.append(time.monotonic() - began)
    assert min(taken) < 1.0
    figure("G12", f"3 owners killed with leases of ten minutes, taken over within {max(taken):.2f} s")


@pytest.mark.crash
@pytest.mark.parametrize("door", ["run", "once"])
def test_who_loses_the_lease_while_an_effect_runs_is_told_that_it_ran(door: str, tmp_path: Path) -> None:
    """Nothing of it lands, the new owner does not repeat it, and both know why."""
    ran: list[str] = []
    taken: list[Session] = []

    def pay() -> str:
        ran.append("pay")
        other.admin.release("job", why="its host is gone", who="somebody")
        taken.append(other.session("job"))
        return "paid"

    asking = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "pay", "arguments": "{}"}}]}
    with relight.open(tmp_path / "r.db") as rl, relight.open(tmp_path / "r.db") as other:
        with pytest.raises(LeaseLost) as lost, rl.session("job") as s:
            if door == "run":
                s.run(lambda _: asking, tools=[relight.tool(effect="once")(pay)], prompt="go")
            else:
                s.once("pay", pay)
        assert lost.value.evidence == (
            "pay has run, and its result could not be recorded: the new owner cannot know it",
        )
        (theirs,) = taken
        assert "result" not in {one.kind for one in other.store.steps(theirs.id)}
        if door == "run":
            assert theirs.pending_calls()[0].in_doubt
            answer = {"role": "assistant", "content": "done"}
            theirs.run(lambda _: answer, tools=[relight.tool(effect="once")(pay)])
        else:
            with pytest.raises(InDoubt):
                theirs.once("pay", pay)
        theirs.close()
        assert ran == ["pay"]


def test_a_stopped_writer_that_nobody_took_over_goes_on(fork_server: ForkServer, tmp_path: Path) -> None:
    writer = Writer(fork_server, tmp_path, "lid")
    writer.child.signal(signal.SIGSTOP)
    with relight.open(tmp_path / "relight.db") as rl:
        head = rl.store.find(rl.sessions.get("a").id)
        assert head is not None and head.head is not None and head.head.lease is not None
        lease = head.head.lease
        wait_until("the lease to end", lambda: lease.expired(rl.store.instant()))
        writer.order("after the lid")
        writer.child.signal(signal.SIGCONT)
        assert writer.answer(1).startswith("ok")
        writer.close()
        assert [message["content"] for message in rl.history.load("a").messages] == ["after the lid"]


@pytest.mark.crash
def test_a_second_process_is_told_who_owns_the_session_and_until_when(fork_server: ForkServer, tmp_path: Path) -> None:
    writer = Writer(fork_server, tmp_path, "first", lease_seconds=60)
    second = fork_server.run(
        "writer",
        store=str(tmp_path / "relight.db"),
        session="a",
        orders="/dev/null",
        reported=tmp_path / "second",
        lease_seconds=60,
    )
    assert os.WEXITSTATUS(second.wait()) == LeaseHeld.exit_code == 4
    (said,) = lines_of(tmp_path / "second")
    assert said.startswith(f"LeaseHeld a: lease held by pid {writer.child.pid} on ")
    assert " until " in said
    writer.order("undisturbed")
    assert writer.answer(1).startswith("ok")
    writer.close()


class Schedule:
    """Many processes, one session, and somebody who moves time."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = Simulation(seed=seed)
        self.holders: list[tuple[Session, int]] = []
        self.expected: list[str] = []
        self.writes = self.refused = self.claims = 0

    def run(self, moves: int) -> None:
        for number in range(moves):
            self.rng.choice((self.open, self.write, self.write, self.write, self.wait, self.kill, self.clear))(number)
        self.check()

    def open(self, number: int) -> None:
        rl = self.world.start()
        try:
            s = rl.session("a", lease_seconds=self.rng.choice([1, 10]))
        except (LeaseHeld, NotResumable):
            return
        self.claims += 1
        self.holders.append((s, rl._context.host.pid))  # type: ignore[attr-defined]

    def write(self, number: int) -> None:
        if not self.holders:
            return
        s, pid = self.rng.choice(self.holders)
        if pid not in self.world.machine.alive:
            return
        newest = max(one._recorder.epoch for one, _ in self.holders)
        record = self.world.open_store().find(s.id)
        assert record is not None and record.head is not None
        try:
            s.append({"role": "user", "content": str(number)})
        except RelightError:
            self.refused += 1
            return
        self.writes += 1
        self.expected.append(str(number))
        assert s._recorder.epoch == newest == record.head.epoch, "written under an epoch that had passed"

    def wait(self, number: int) -> None:
        self.world.time.advance(self.rng.choice([0.1, 2, 11]))
        if self.rng.random() < 0.3:
            self.world.time.set_wall(self.world.time.now_us() + self.rng.choice([-3600, 3600, 8 * 86400]) * 1_000_000)

    def kill(self, number: int) -> None:
        if self.holders and self.rng.random() < 0.5:
            self.world.machine.alive.discard(self.rng.choice(self.holders)[1])

    def clear(self, number: int) -> None:
        if self.rng.random() < 0.1 and self.holders:
            try:
                self.world.start().admin.release("a")
            except RelightError:
                return  # nobody holds it

    def check(self) -> None:
        rl = self.world.start()
        if rl.sessions.find("a") is None:
            return
        assert [message["content"] for message in rl.history.load("a").messages] == self.expected
        assert rl.history.verify().ok


def test_no_schedule_of_claims_and_zombies_has_two_writers(sample: Any, figure: Figure) -> None:
    writes = refused = claims = 0
    schedules = sample(200, proof=100_000, teeth=100)
    for seed in range(schedules):
        schedule = Schedule(seed)
        try:
            schedule.run(40)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None
        writes, refused, claims = writes + schedule.writes, refused + schedule.refused, claims + schedule.claims
    figure("G8", f"{schedules} schedules, {claims} claims, {writes} writes, {refused} refused, 0 under a passed epoch")


JUMPS = (-8 * 86400, -3600, -1, 1, 3600, 8 * 86400, 400 * 86400)
STOPPED = ("waiting", "working", "left", "queued", "interrupted")


def stop(rl: relight.Relight, how: str) -> str:
    """A session that is not finished, stopped in one of the ways there are; its id."""
    s = rl.session(how, resume=False)
    s.append({"role": "user", "content": how})
    if how == "waiting":
        with pytest.raises(relight.Waiting), s:
            s.ask("?")
    elif how == "interrupted":
        with pytest.raises(KeyboardInterrupt), s:
            raise KeyboardInterrupt
    elif how != "working":  # which ends as if its process had died: nothing more is written
        s.close()
    if how == "queued":
        rl.runs.send(how, "more")
    return s.id


@pytest.mark.guarantee("G9")
def test_a_wall_clock_that_jumps_gives_nobody_a_lease_and_loses_no_session(world: Simulation, figure: Figure) -> None:
    first, second = world.start(), world.start()
    kept: dict[str, str] = {}
    for jump in JUMPS:
        s = first.session("held", lease_seconds=10)
        kept |= {stop(first, how): how for how in STOPPED}
        world.time.set_wall(world.time.now_us() + jump * 1_000_000)
        with pytest.raises(LeaseHeld):
            second.session("held")
        s.append({"role": "user", "content": "still mine"})
        world.time.set_wall(world.time.now_us() - jump * 1_000_000)
        s.append({"role": "user", "content": "and now"})
        world.time.set_wall(world.time.now_us() + jump * 1_000_000)
        assert second.admin.sweep(Retention(finished_days=7)).sessions == []
        for session, how in kept.items():
            assert second.history.load(session).messages[0]["content"] == how
        times = [checkpoint.created_at for checkpoint in second.history.checkpoints("held")]
        assert times == sorted(times), "steps are told in another order than they happened"
        s.close()
    figure(
        "G9",
        f"{len(JUMPS)} jumps from -8 to +400 days, 0 leases won or lost, 0 of {len(kept)} unfinished sessions gone",
    )
