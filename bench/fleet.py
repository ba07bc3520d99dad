"""`python -m bench fleet`: many sessions on PostgreSQL beside raw INSERTs, a queue drained, how long takeovers take.

    python -m bench fleet [--sessions 1000] [--workers 4] [--takeovers 20] [--build build]

All in one run on one server of its own, with fsync on. Writes build/fleet.json and build/takeover.svg. It is no part of
`make bench`: draining a thousand sessions means two thousand processes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

import relight
from bench.plot import histogram
from tests.fleet.stage import Fleet, Judged, wait_until
from tests.stores.postgres_server import Server, running

CONNECTIONS = 32
PROCESSES = 4
SAVES = 150
"""of each session"""
BODY = {"role": "user", "content": "x" * 400}
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
        document["throughput"] = throughput(server)
        document["takeovers"] = takeovers(server, Path(scratch), given.takeovers)
        if given.sessions:
            document["drain"] = drain(server, Path(scratch), given.sessions, given.workers)
    (given.build / "fleet.json").write_text(json.dumps(document))
    (given.build / "takeover.svg").write_text(histogram(document["takeovers"], bound=LEASE + SWEEP))
    print(f"\n{given.build}/fleet.json, {given.build}/takeover.svg")
    return 0


# -- saves ----------------------------------------------------------------------------------------------------------


def throughput(server: Server) -> dict[str, float]:
    """Saves a second of 32 and of 256 sessions, beside raw INSERTs on 32 connections; four processes each, since in a
    fleet every session has one of its own, and one interpreter would be all that is measured."""
    url = server.database()
    relight.open(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE floor (id bigserial PRIMARY KEY, session int, seq int, body bytea)")
    found = {"raw": _rate(_inserting, url, CONNECTIONS, SAVES)}
    found["32"] = _rate(_saving, url, 32, SAVES)
    found["256"] = _rate(_saving, url, 256, SAVES // 4)
    found["raw"] = max(found["raw"], _rate(_inserting, url, CONNECTIONS, SAVES))
    for sessions in ("32", "256"):
        ratio = found[sessions] / found["raw"]
        print(f"{sessions} sessions: {found[sessions]:,.0f} saves/s, {ratio:.2f} x {found['raw']:,.0f} raw INSERTs/s")
    return found


Part = Callable[[str, int, int, Any], None]
"""url, how many, how often, the gate to wait at: one process's share"""


def _rate(part: Part, url: str, many: int, often: int) -> float:
    """Writes a second of four processes that begin at one moment."""
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(PROCESSES + 1)
    children = [context.Process(target=part, args=(url, many // PROCESSES, often, gate)) for _ in range(PROCESSES)]
    for child in children:
        child.start()
    gate.wait()
    begun = time.perf_counter()
    for child in children:
        child.join()
    assert not any(child.exitcode for child in children), "a write failed"
    return many * often / (time.perf_counter() - begun)


def _inserting(url: str, many: int, often: int, gate: Any) -> None:
    connections = [psycopg.connect(url, autocommit=True) for _ in range(many)]
    body = json.dumps(BODY).encode()

    def insert(connection: psycopg.Connection[Any]) -> None:
        for seq in range(often):
            connection.execute("INSERT INTO floor (session, seq, body) VALUES (%s, %s, %b)", (1, seq, body))

    _in_threads([lambda one=one: insert(one) for one in connections], gate)  # type: ignore[misc]


def _saving(url: str, many: int, often: int, gate: Any) -> None:
    rl = relight.open(url)
    opened = [rl.session(f"s{os.getpid()}-{n}") for n in range(many)]

    def save(session: Any) -> None:
        for _ in range(often):
            session.append(BODY)

    _in_threads([lambda one=one: save(one) for one in opened], gate)  # type: ignore[misc]


def _in_threads(tasks: list[Callable[[], None]], gate: Any) -> None:
    done: list[bool] = []

    def run(task: Callable[[], None]) -> None:
        task()
        done.append(True)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    gate.wait()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os._exit(len(done) != len(tasks))  # what is open goes with the process: closing is not what is measured


# -- the fleet ------------------------------------------------------------------------------------------------------


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
    wait_until("the heir", lambda: heir.name in {one.worker.name for one in fleet.rl.workers()})
    victim.signal_all(signal.SIGSTOP)
    begun = time.perf_counter()
    wait_until("the takeover", lambda: fleet.rl.get(session).attempt == 2)
    seconds = time.perf_counter() - begun
    victim.close()
    heir.close()
    return seconds


def _sub(scratch: Path, name: str) -> Path:
    made = scratch / name
    made.mkdir()
    return made
