"""The drill: real workers on a real PostgreSQL, killed and put to sleep while the server restarts.

Every session completes, every step once, every `once` effect at most once, every doubt told, nothing stranded; and what
a lost worker had is back in line after lease and sweep.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from relight.errors import RelightError
from tests.conftest import PROOF
from tests.support.figures import Figure
from tests.support.fleet import Fleet, Judged, RunningWorker, wait_until
from tests.support.postgres_server import Server, running

LEASE, SWEEP = 4.0, 3.0
SETTINGS = {"RELIGHT_LEASE_SECONDS": f"{LEASE:g}", "RELIGHT_SWEEP_SECONDS": f"{SWEEP:g}"}
SLACK_SECONDS = 15.0
"""for a machine that does many other things: processes wait for their turn; the default lease is 30 s"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(own=True) as one:
        yield one


@pytest.fixture
def fleet(server: Server, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path, server.database(), **SETTINGS)
    yield made
    made.close()


class Chaos:
    """Hurts one worker after another, and knows what it had in its hands."""

    def __init__(self, fleet: Fleet, server: Server, seed: int) -> None:
        self.fleet, self.server, self.random = fleet, server, Random(seed)
        self.asleep: RunningWorker | None = None
        self.hurt: list[tuple[str, int, int]] = []
        """session, its seq and the time when its worker was lost"""
        self.hits = self.kills = self.stops = self.restarts = self._told = 0

    def hurt_one(self) -> None:
        """Kill a worker with everything that it started, or let its machine sleep past its leases."""
        alive = [one for one in self.fleet.workers.values() if one.process.poll() is None and one is not self.asleep]
        if len(alive) < 2:
            return
        at_work = [one for one in alive if one.programs()]  # else there would be nothing to recover
        worker = self.random.choice(at_work or alive)
        self.hits += 1
        if self.hits % 3 == 0:
            self.wake()
        if self.hits % 3 == 1 and self.asleep is None:
            worker.signal_all(signal.SIGSTOP)
            self.asleep, self.stops = worker, self.stops + 1
            self._note(worker, "stopped")
            return
        self._note(worker, "killed", worker.kill)
        self.kills += 1
        self.fleet.start("--concurrency", "4")

    def replace(self) -> None:
        """As an init system does: a worker that could not start because the server was away is started again."""
        if not any(one.process.poll() is None for one in self.fleet.workers.values() if one is not self.asleep):
            self.fleet.start("--concurrency", "4")

    def wake(self) -> None:
        """The machine that slept goes on, with everything it believes to own."""
        if self.asleep is not None:
            self.asleep.signal_all(signal.SIGCONT)
            self.asleep = None

    def _note(self, worker: RunningWorker, how: str, act: Any = None) -> None:
        """What it had at work, and where each of them stood."""
        pids = set(worker.tree())
        if act is not None:
            act()
        at_us = time.time_ns() // 1000
        try:
            for info in self.fleet.rl.sessions.list():
                record = self.fleet.rl.store.find(info.id)
                head = record.head if record is not None else None
                if head is not None and head.lease is not None and head.lease.owner.pid in pids:
                    self.hurt.append((info.id, head.seq, at_us))
        except RelightError:
            return  # the server restarts at this moment

    def is_recovering(self, part: int) -> bool:
        """Is something being put back in line at this moment, in a part of the run that had no restart yet?"""
        reported = sum(one.log.read_text().count("taken over") for one in self.fleet.workers.values())
        new, self._told = reported > self._told, reported
        return new and part >= self.restarts

    def restart(self) -> None:
        """The database is gone for a moment, in the middle of everything."""
        self.server.crash()
        self.server.start()
        self.restarts += 1

    def takeovers(self) -> list[float]:
        """Seconds from each loss to the step that put its session back in line."""
        found = []
        for session, seq, at_us in self.hurt:
            rows = self.fleet.rl.store.checkpoints(session, after=seq)
            later = [row.at_us for row in rows if row.kind == "status" and row.at_us > at_us]
            if later:
                found.append((later[0] - at_us) / 1e6)
        return found


@pytest.mark.long
@pytest.mark.crash
@pytest.mark.timeout(3000)
@pytest.mark.guarantee("G8")
@pytest.mark.guarantee("G10")
@pytest.mark.guarantee("G12")
def test_a_fleet_under_fire_completes_everything_once(
    fleet: Fleet, server: Server, sample: Any, figure: Figure
) -> None:
    workers, sessions, turns = sample(3, proof=4), sample(6, proof=200), sample(5, proof=10)
    hits, restarts, every = sample(2, proof=10_000), sample(1, proof=2), 3.0
    chaos = Chaos(fleet, server, seed=7)
    for _ in range(workers):
        fleet.start("--concurrency", "4")
    submit = partial(fleet.submit, sessions, turns=turns, seconds=0.25 if not PROOF else 0.1)
    ids, begun = submit(), time.monotonic()

    def done() -> int:
        counts = fleet.count()
        assert not counts["failed"] + counts["terminated"] + counts["halted"], fleet.bad() + fleet.logs()
        return counts["completed"]

    wait_until("the first step", lambda: fleet.effects.stat().st_size > 0)
    next_hit, hit = time.monotonic() + 0.5, 0
    while (done() < len(ids) or chaos.restarts < restarts) and time.monotonic() - begun < 2400:
        if done() == len(ids):  # all was done before anything had to be recovered, as on a busy machine: once more
            ids, hits, next_hit = [*ids, *submit()], hits + 2, time.monotonic() + 0.5
        if time.monotonic() >= next_hit and hit < hits:
            hit += 1
            chaos.hurt_one()
            next_hit = time.monotonic() + every
        if chaos.restarts < restarts and chaos.is_recovering(done() * (restarts + 1) // len(ids)):
            chaos.restart()
        time.sleep(0.05)
        chaos.replace()
        if hit >= hits and time.monotonic() >= next_hit + LEASE:
            chaos.wake()  # past its lease: what it believes to own is somebody else's
    chaos.wake()
    wait_until("every session", lambda: done() == len(ids), bound_seconds=180)
    judged = Judged(fleet, ids, turns=turns)
    judged.check(fleet)
    takeovers = chaos.takeovers()
    worst = max(takeovers, default=0.0)
    assert worst <= LEASE + SWEEP + SLACK_SECONDS, sorted(takeovers)[-5:]
    seconds = time.monotonic() - begun
    did = f"{workers} workers, {len(ids)} sessions, {chaos.kills} SIGKILLs, {chaos.stops} SIGSTOPs, {restarts} restarts"
    assert chaos.restarts == restarts, "there was something to recover"
    figure(
        "G12",
        f"{did} of PostgreSQL during recoveries: all completed in {seconds:.0f} s, {judged.attempts} attempts,"
        " 0 stranded",
    )
    figure(
        "G8",
        f"the same: every step once; worst takeover {worst:.1f} s of {len(takeovers)} (lease {LEASE:g} + sweep"
        f" {SWEEP:g} s)",
    )
    figure("G10", f"the same: {len(ids) * turns} `once` effects, 0 twice, {judged.reported} in doubt, all of them told")
