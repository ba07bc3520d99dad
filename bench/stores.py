"""The stores on servers beside what raw clients do: PostgreSQL and INSERT, Redis and RPUSH, in one run, alternating.

Each server is a real one of the benchmark's own, with fsync on; what is raw is one statement a message, as durable.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, NoReturn

import psycopg
import redis

import relight
from bench.workload import Transcript
from tests.support.postgres_server import Server, running
from tests.support.redis_server import RedisServer, redis_program

TURNS = 400
WINDOW = 200
CONNECTIONS = 32
SAVES = 150
"""of each of many sessions"""
PROCESSES = (1, 4)
"""in a fleet every session has one of its own; in a service one process may have them all"""
FSYNC = ("always", "everysec")
BODY = {"role": "user", "content": "x" * 400}
_TABLE = "CREATE TABLE floor (id bigserial PRIMARY KEY, session int, seq int, body bytea)"
_INSERT = b"INSERT INTO floor (session, seq, body) VALUES (%s, %s, %b)"


def measure() -> dict[str, Any]:
    """Saves of one session, and of many at once."""
    found: dict[str, Any] = {"redis": {}}
    with running(own=True, max_connections="300") as server:
        url = server.database()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_TABLE)
            found["postgres"] = growing(url, lambda body: connection.execute(_INSERT, (1, 1, body)))
        found["throughput"] = throughput(server)
    for fsync in FSYNC:
        one = RedisServer(redis_program(_named), {"appendonly": "yes", "appendfsync": fsync})
        try:
            with closing(redis.Redis.from_url(one.url)) as client:
                found["redis"][fsync] = growing(one.url, partial(client.rpush, "floor"))
        finally:
            one.stop()
    return found


def _named(program: str) -> NoReturn:
    raise SystemExit(f"{program} is missing; install it: tools/system-packages")


def growing(url: str, raw: Callable[[bytes], Any]) -> dict[str, float]:
    """A conversation saved with both, message by message."""
    transcript = Transcript()
    ours: list[float] = []
    floor: list[float] = []
    with relight.open(url) as rl, rl.session("grow", agent="bench") as session:
        for _ in range(TURNS):
            for message in transcript.turn():
                floor.append(_seconds(lambda one: raw(json.dumps(one).encode()), message))
                ours.append(_seconds(session.append, message))
    start, end = statistics.median(ours[:WINDOW]), statistics.median(ours[-WINDOW:])
    raw_start, raw_end = statistics.median(floor[:WINDOW]), statistics.median(floor[-WINDOW:])
    return {
        "ms": statistics.median(ours) * 1e3,
        "raw_ms": statistics.median(floor) * 1e3,
        "ratio": statistics.median(ours) / statistics.median(floor),
        "growth": (end / start) / (raw_end / raw_start),
    }


def _seconds(save: Callable[[Any], Any], message: Any) -> float:
    started = time.perf_counter()
    save(message)
    return time.perf_counter() - started


def goals(found: dict[str, Any]) -> list[tuple[str, float, str, bool]]:
    """(what, value, goal, held)"""
    one, many = found["postgres"], found["throughput"]
    rows = [
        ("PostgreSQL: save p50 / raw INSERT", one["ratio"], "<= 2", one["ratio"] <= 2),
        (f"PostgreSQL: save p50, end / start of N = {TURNS}, over raw", one["growth"], "<= 1.2", one["growth"] <= 1.2),
    ]
    for processes in PROCESSES:
        rate = many[f"32 in {processes}"]
        ratio = rate / many[f"raw in {processes}"]
        what = f"PostgreSQL: 32 sessions in {processes}, {rate:,.0f} saves/s / raw"
        rows.append((what, ratio, ">= 0.5 or 3,000/s", ratio >= 0.5 or rate >= 3000))
    for fsync, each in found["redis"].items():
        rows.append((f"Redis, appendfsync {fsync}: save p50 / raw RPUSH", each["ratio"], "<= 2", each["ratio"] <= 2))
    return rows


# -- many sessions --------------------------------------------------------------------------------------------------

Part = Callable[[str, int, int, Any], None]
"""url, how many, how often, the gate to wait at: one process's share"""


def throughput(server: Server) -> dict[str, float]:
    """Saves a second of 32 and of 256 sessions, beside raw INSERTs on 32 connections from as many processes."""
    url = server.database()
    relight.open(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLE)
    found: dict[str, float] = {}
    for processes in PROCESSES:
        before = _rate(_inserting, url, CONNECTIONS, SAVES, processes)
        found[f"32 in {processes}"] = _rate(_saving, url, 32, SAVES, processes)
        found[f"256 in {processes}"] = _rate(_saving, url, 256, SAVES // 4, processes)
        found[f"raw in {processes}"] = max(before, _rate(_inserting, url, CONNECTIONS, SAVES, processes))
    return found


def _rate(part: Part, url: str, many: int, often: int, processes: int) -> float:
    """Writes a second of processes that begin at one moment."""
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(processes + 1)
    children = [context.Process(target=part, args=(url, many // processes, often, gate)) for _ in range(processes)]
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
            connection.execute(_INSERT, (1, seq, body))

    _in_threads([lambda one=one: insert(one) for one in connections], gate)  # type: ignore[misc]


def _saving(url: str, many: int, often: int, gate: Any) -> None:
    rl = relight.open(url)
    opened = [rl.session(f"s{os.getpid()}-{n}") for n in range(many)]

    def save(session: Any) -> None:
        for _ in range(often):
            session.append(BODY)

    _in_threads([lambda one=one: save(one) for one in opened], gate)  # type: ignore[misc]


def _in_threads(tasks: list[Callable[[], None]], gate: Any) -> NoReturn:
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
