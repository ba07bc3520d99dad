"""`python -m bench scale`: every place that could grow with the store, on 100,000 sessions with 10,000,000 steps.

    python -m bench scale [--sessions 100000] [--steps 100] [--store DIRECTORY] [--rounds 7] [--strict]

The store is generated in the directory if it is not there (a few minutes, about 4 GB), and is kept: remove it yourself.
Pages and the interface are asked for over a socket, as a browser does it, gzip included; the library in this process; a
command in a process of its own. Times are what a client waits at least, and in the middle of all rounds, after one
request that is not counted: on a machine with other work the least is the program's own, as is its time of CPU.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from urllib.parse import quote_plus

import msgspec

import relight
from bench import large_store
from bench.server import serving

FIRST_BYTE_MS, FIRST_BYTES, SEARCH_MS, WORD_MS = 150.0, 100_000, 200.0, 50.0


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """What one request took."""

    what: str
    first_ms: float
    """until the first byte, the least"""
    whole_ms: float
    """until the last one, the median"""
    cpu_ms: float
    """of the server, the command or this process, in all"""
    bytes: int
    bound_ms: float | None = None
    """for the first byte"""
    bound_bytes: int | None = None

    @property
    def held(self) -> bool:
        """Whether it is within its bounds."""
        fits = self.bound_bytes is None or self.bytes <= self.bound_bytes
        return fits and (self.bound_ms is None or self.first_ms <= self.bound_ms)


def main(words: list[str]) -> int:
    """Generate, measure, print."""
    options = argparse.ArgumentParser(prog="bench scale", description=__doc__)
    options.add_argument("--sessions", type=int, default=large_store.SESSIONS)
    options.add_argument("--steps", type=int, default=large_store.STEPS)
    options.add_argument("--store", type=Path, default=Path("build") / "bench-scale")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--strict", action="store_true", help="exit 1 where a bound is missed")
    given = options.parse_args(words)
    began = time.perf_counter()
    store = large_store.generated(given.store / f"{given.sessions}x{given.steps}" / "p.db", given.sessions, given.steps)
    size, took = store.stat().st_size, time.perf_counter() - began
    steps = given.sessions * given.steps + large_store.LONG
    print(
        f"{given.sessions + 1:,} sessions, {steps:,} steps, {size / 1e9:.2f} GB (generated in {took:.0f} s)", flush=True
    )
    found: list[Figure] = []

    def show(figure: Figure) -> None:
        found.append(figure)
        bounds = f"<= {figure.bound_ms:g} ms" if figure.bound_ms is not None else ""
        bounds += f", <= {figure.bound_bytes / 1e3:g} kB" if figure.bound_bytes is not None else ""
        times = f"{figure.first_ms:>9.1f} {figure.whole_ms:>9.1f} ms {figure.cpu_ms:>8.1f} ms of CPU"
        times += f" {figure.bytes / 1e3:>8.1f} kB"
        print(f"{'ok  ' if figure.held else 'MISS'}  {figure.what:<46} {times}  {bounds}", flush=True)

    with serving(store) as (server, port, token):
        for what, path, html, bound in addresses(given.sessions):
            show(asked(server.pid, port, token, what, path, html, bound, given.rounds))
    with relight.open(store) as rl:
        for what, call, most in calls(rl):
            show(called(what, call, most, given.rounds))
    for what, command in commands(given.sessions):
        show(ran(what, command, store, given.rounds))
    missed = [one.what for one in found if not one.held]
    document = {"sessions": given.sessions, "steps": steps, "bytes": size, "figures": msgspec.to_builtins(found)}
    (given.store / f"{given.sessions}x{given.steps}.json").write_text(json.dumps(document))
    print(f"\n{len(missed)} of {sum(one.bound_ms is not None for one in found)} bounds missed {', '.join(missed)}")
    return 1 if missed and given.strict else 0


def asked(
    pid: int,
    port: int,
    token: str,
    what: str,
    path: str,
    html: bool,
    bounds: tuple[float | None, int | None],
    rounds: int,
) -> Figure:
    """GET, gzip accepted."""
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "text/html" if html else "application/json",
        "Accept-Encoding": "gzip",
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    first, whole, size, cpu = [], [], 0, 0.0
    for number in range(rounds + 1):
        if number == 1:
            cpu = _cpu_seconds(pid)
        began = time.perf_counter()
        connection.request("GET", path, headers=headers)
        answered = connection.getresponse()
        answered.read(1)
        first_byte = time.perf_counter() - began
        size = len(answered.read()) + 1
        if answered.status != 200:
            raise SystemExit(f"{path}: {answered.status}")
        took = time.perf_counter() - began
        if number:
            first.append(first_byte * 1e3)
            whole.append(took * 1e3)
        if took > 3 and number:
            break  # far beyond any bound: once is enough
    connection.close()
    return Figure(
        what=what,
        first_ms=min(first),
        whole_ms=median(whole),
        cpu_ms=(_cpu_seconds(pid) - cpu) / len(whole) * 1e3,
        bytes=size,
        bound_ms=bounds[0],
        bound_bytes=bounds[1],
    )


def _cpu_seconds(pid: int) -> float:
    """Of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def called(what: str, call: Callable[[], object], bound: float | None, rounds: int) -> Figure:
    """The library, in this process."""
    call()
    times, before = [], time.process_time()
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1e3)
    cpu = (time.process_time() - before) / rounds * 1e3
    return Figure(what=what, first_ms=min(times), whole_ms=median(times), cpu_ms=cpu, bytes=0, bound_ms=bound)


def ran(what: str, words: list[str], store: Path, rounds: int) -> Figure:
    """A command, from its start to its end."""
    times, size, before = [], 0, _cpu_of_children()
    for _ in range(rounds):
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "relight.cli", "--store", str(store), *words],
            capture_output=True, check=False, timeout=300,
        )  # fmt: skip
        times.append((time.perf_counter() - began) * 1e3)
        size = len(done.stdout)
        if done.returncode not in (0, 1) or done.stderr.startswith(b"Traceback"):
            raise SystemExit(f"{words}: {done.returncode} {done.stderr.decode()[-500:]}")
    cpu = (_cpu_of_children() - before) / rounds * 1e3
    return Figure(what=what, first_ms=min(times), whole_ms=median(times), cpu_ms=cpu, bytes=size)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


_PAGE = (FIRST_BYTE_MS, FIRST_BYTES)
_SEARCH = (SEARCH_MS, None)
_NONE = (None, None)


def words_to_find() -> dict[str, str]:
    """What is searched for."""
    return {
        "a rare word": large_store.RARE,
        "a frequent word": large_store.APART[0],
        "no such word": "nothinglikethis",
        "two frequent words that never meet": " ".join(large_store.APART),
        "the beginning of words": "light*",
        "a phrase that is nowhere": f'"{large_store.APART[1]} {large_store.RARE}"',
    }


def addresses(sessions: int) -> list[tuple[str, str, bool, tuple[float | None, int | None]]]:
    """What, where, whether it is a page, and its bounds."""
    middle, long = large_store.session_id(sessions // 2), large_store.session_id(sessions)
    found: list[tuple[str, str, bool, tuple[float | None, int | None]]] = [("first page", "/", True, _PAGE)]
    for query in (
        *(f"sort={one}{way}" for one in ("name", "updated", "steps", "cost") for way in ("", "&reversed=1")),
        *(f"status={one}" for one in ("failed", "waiting", "terminated", "completed", "working", "queued")),
        "since=1h", "since=30d", "since=30d&sort=cost", "label=team%3Dt3", "label=branch%3Db33", "label=team%3Dnobody",
        "agent=codex", "agent=nobody", "provider=nobody", "directory=/src/project-7", "directory=/nowhere",
        "q=fix-login-49994", "q=nobody-has-this", "archived=1", "status=failed&sort=cost",
        "label=branch%3Db33&sort=steps",
    ):  # fmt: skip
        found.append((f"list {query}", f"/?{query}", True, _PAGE))
    found += [
        ("session", f"/sessions/{middle}", True, _NONE),
        ("session of 10,000 steps", f"/sessions/{long}", True, _NONE),
        ("session of 10,000 steps, in its middle", f"/sessions/{long}?at=@5000", True, _NONE),
        ("session of 10,000 steps, history", f"/sessions/{long}?tab=history", True, _NONE),
        ("costs, 30 days", "/costs", True, _NONE),
        ("costs, 90 days", "/costs?days=90", True, _NONE),
        ("operations", "/operations", True, _NONE),
        ("operations, resumes", "/operations?resumes=1", True, _NONE),
        ("operations, due for the sweep", "/operations/sweep", True, _NONE),
        ("digest", "/digest", True, _NONE),
        ("metrics", "/metrics", False, _NONE),
        ("api/sessions", "/api/sessions", False, _NONE),
    ]
    for query in ("sort=updated", "sort=-cost", "status=failed,halted", "since=30d", "until=30d", "label=team%3Dt3"):
        found.append((f"api/sessions?{query}", f"/api/sessions?{query}", False, _NONE))
    found += [(f"api/{one}", f"/api/{one}", False, _NONE) for one in ("attention", "leases", "stats", "store", "costs")]
    for what, text in words_to_find().items():
        found.append((f"search page, {what}", f"/search?q={quote_plus(text)}", True, _SEARCH))
        found.append((f"api/search, {what}", f"/api/search?q={quote_plus(text)}", False, _SEARCH))
    return found


def calls(rl: relight.Relight) -> list[tuple[str, Callable[[], object], float | None]]:
    """The library."""
    found: list[tuple[str, Callable[[], object], float | None]] = []
    for what, text in words_to_find().items():
        bound = WORD_MS if len(text.split()) == 1 else SEARCH_MS
        found.append((f"rl.sessions.search, {what}", partial(rl.sessions.search, text), bound))
    found.append(("rl.sessions.needing", lambda: rl.sessions.needing(most=5), None))
    found.append(("rl.sessions.list, 100", lambda: list(rl.sessions.list(limit=100)), None))
    return found


def commands(sessions: int) -> list[tuple[str, list[str]]]:
    """Commands, each in a process of its own."""
    middle, long = large_store.session_id(sessions // 2), large_store.session_id(sessions)
    found = [(f"relight search, {what}", ["search", text]) for what, text in words_to_find().items()]
    return [
        ("relight --version", ["--version"]),
        ("relight", []),
        ("relight list", ["list"]),
        ("relight list --all", ["list", "--all"]),
        ("relight show", ["show", middle]),
        ("relight show, 10,000 steps", ["show", long]),
        ("relight show, by name", ["show", "long"]),
        *found,
    ]
