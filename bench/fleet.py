"""`python -m bench fleet`: a queue drained by workers on PostgreSQL, and how long takeovers take.

    python -m bench fleet [--sessions 1000] [--workers 4] [--takeovers 20] [--build build]

All in one run on one server of its own, with fsync on. Writes build/fleet.json and build/takeover.svg. It is no part of
`make bench`: draining a thousand sessions means two thousand processes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.plot import histogram
from tests.support.fleet import Fleet, Judged, wait_until
from tests.support.postgres_server import Server, running

LEASE, SWEEP = 5.0, 2.0
SETTINGS = {"RELIGHT_LEASE_SECONDS": f"{LEASE:g}", "RELIGHT_SWEEP_SECONDS": f"{SWEEP:g}"}


def main(words: list[str]) -> int:
    """Measure, print, write."""
    options = argparse.ArgumentParser(prog="bench fleet", description=__doc__)
    options.add_argument("--sessions", type=int, default=1000)
    options.add_argument("--workers", type=int, default=4)
    options.add_argument("--takeovers", type=int, default=20)
    options.add_argument("--build", type=Path, default=Path("build"))
    given = options.parse_args(words)
    given.build.mkdir(exist_ok=True)
    document: dict[str, Any] = {}
    with (
        running(own=True, max_connections="300") as server,
        tempfile.TemporaryDirectory(prefix="relight-fleet-") as scratch,
    ):
        document["takeovers"] = takeovers(server, Path(scratch), given.takeovers)
        if given.sessions:
            document["drain"] = drain(server, Path(scratch), given.sessions, given.workers)
    (given.build / "fleet.json").write_text(json.dumps(document))
    (given.build / "takeover.svg").write_text(histogram(document["takeovers"], bound=LEASE + SWEEP))
    print(f"\n{given.build}/fleet.json, {given.build}/takeover.svg")
    return 0


def drain(server: Server, scratch: Path, sessions: int, workers: int) -> dict[str, float]:
    """So many sessions of one turn, two processes each, by so many workers: seconds, and nothing twice."""
    fleet = Fleet(_sub(scratch, "drain"), server.database(), **SETTINGS)
    try:
        ids = fleet.submit(sessions, turns=1)
        begun = time.perf_counter()
        for _ in range(workers):
            fleet.start("--concurrency", str(max(2, (os.cpu_count() or 2))))
        bound = 60 + sessions * 3.0
        wait_until("the end", lambda: fleet.count()["completed"] == sessions, bound_seconds=bound)
        seconds = time.perf_counter() - begun
        judged = Judged(fleet, ids, turns=1)
        judged.check(fleet)
        print(f"drain: {sessions} sessions by {workers} workers in {seconds:.0f} s, {sessions / seconds:.1f} a second;")
        print(f"  {judged.attempts} attempts, 0 steps twice, 0 effects twice")
        return {"sessions": sessions, "workers": workers, "seconds": seconds, "attempts": judged.attempts}
    finally:
        fleet.close()


def takeovers(server: Server, scratch: Path, rounds: int) -> list[float]:
    """A worker's machine sleeps for good, again and again: seconds until another worker has claimed what it had."""
    fleet = Fleet(_sub(scratch, "takeover"), server.database(), **SETTINGS)
    found: list[float] = []
    try:
        fleet.start("--concurrency", "2", name="steady")
        found = [_taken_over(fleet, number) for number in range(rounds)]
    finally:
        fleet.close()
    worst, middle = max(found), statistics.median(found)
    print(f"takeover of a machine that stopped: median {middle:.1f} s, worst {worst:.1f} s of {rounds}")
    print(f"  (lease {LEASE:g} + sweep {SWEEP:g} s)")
    return found


def _taken_over(fleet: Fleet, number: int) -> float:
    label = f"v{number}"
    victim = fleet.start("--concurrency", "1", "--labels", label, name=f"victim{number}")
    (session,) = fleet.submit(1, turns=400, seconds=0.05, wants=[label])
    wait_until("a step", lambda: session in fleet.effects.read_text())
    heir = fleet.start("--concurrency", "1", "--labels", label, name=f"heir{number}")
    wait_until("the heir", lambda: heir.name in {one.worker.name for one in fleet.rl.queues.workers()})
    victim.signal_all(signal.SIGSTOP)
    begun = time.perf_counter()
    wait_until("the takeover", lambda: fleet.rl.sessions.get(session).attempt == 2)
    seconds = time.perf_counter() - begun
    victim.close()
    heir.close()
    return seconds


def _sub(scratch: Path, name: str) -> Path:
    made = scratch / name
    made.mkdir()
    return made
