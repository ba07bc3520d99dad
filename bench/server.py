"""The server under load: 10,000 sessions and 1,000,000 steps in SQLite, and a thousand listeners on one process.

The store is generated once (bench/large_store.py) and kept in the build directory. The server is a process of its own,
asked over real sockets; times are medians of what a client waits, listeners are counted from the commit.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import relight
from bench import large_store
from tests.support.event_stream import Listener

SESSIONS: Final = 10_000
STEPS: Final = 100
LISTENERS: Final = 1000
TELLINGS: Final = 20
ROUNDS: Final = 15


@contextmanager
def serving(store: Path) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """`relight serve` over it: the process, its port, its token."""
    environment = {**os.environ, "RELIGHT_STORE": str(store)}
    words = ["serve", "--port", "0", "--no-open", "--no-sweep"]
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "relight.cli", *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    try:
        port = int(server.stdout.readline().partition("/login")[0].rpartition(":")[2])
        token = (Path(f"{store}.run") / "server" / "token").read_text().strip()
        yield server, port, token
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()


def asked(port: int, token: str, path: str, *, html: bool = False) -> tuple[float, int]:
    """Median milliseconds of a GET, and the bytes of its answer."""
    times, size = [], 0
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/html" if html else "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for _ in range(ROUNDS):
        began = time.perf_counter()
        connection.request("GET", path, headers=headers)
        answered = connection.getresponse()
        size = len(answered.read())
        times.append((time.perf_counter() - began) * 1e3)
        if answered.status != 200:
            raise SystemExit(f"{path}: {answered.status}")
    connection.close()
    return median(times), size


async def listened(port: int, token: str, session: relight.Session, listeners: int) -> list[float]:
    """Seconds from a commit to each listener, all together."""
    late: list[float] = []
    path = f"/api/sessions/{session.id}/events"
    async with AsyncExitStack() as held:
        every: list[Listener] = []
        for first in range(0, listeners, 100):
            opening = [Listener.open(port, path, token) for _ in range(min(100, listeners - first))]
            every += await asyncio.gather(*(held.enter_async_context(one) for one in opening))
        for number in range(TELLINGS):
            await asyncio.to_thread(session.append, {"role": "user", "content": f"telling {number} " + "x" * 300})
            saved = time.monotonic()
            heard = await asyncio.gather(*(one.take(1, 60) for one in every))
            late += [one[0].at - saved for one in heard]
    return late


def _rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def addresses(middle: str, longest: str) -> dict[str, tuple[str, bool]]:
    """What is measured: each address with whether it is a page; middle and longest are session ids."""
    return {
        "first page": ("/", True),
        "session page": (f"/sessions/{middle}", True),
        "session page of 10,000 messages": (f"/sessions/{longest}", True),
        "list of 100": ("/api/sessions", False),
        "list, failed": ("/api/sessions?status=failed", False),
        "search": ("/api/sessions?q=fix-login-4998", False),
        "search without a hit": ("/api/sessions?q=nobody-has-this", False),
        "attention": ("/api/attention", False),
        "one session": (f"/api/sessions/{middle}", False),
        "its plan": (f"/api/sessions/{middle}/can-resume", False),
        "100 steps": (f"/api/sessions/{middle}/steps", False),
        "metrics": ("/metrics", False),
    }


def measure(build: Path) -> dict[str, Any]:
    """Pages, then listeners."""
    began = time.perf_counter()
    store = large_store.generated(build / "bench-server" / "p.db", SESSIONS, STEPS)
    made = time.perf_counter() - began
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65_536, most), most))
    with serving(store) as (server, port, token):
        paths = addresses(large_store.session_id(SESSIONS // 2), large_store.session_id(SESSIONS))
        times = {what: asked(port, token, path, html=html) for what, (path, html) in paths.items()}
        before = _rss_mb(server.pid)
        with relight.open(store) as rl, rl.session(f"bench-{os.getpid()}") as session:
            session.append({"role": "user", "content": "hello"})
            late = asyncio.run(listened(port, token, session, LISTENERS))
            after = _rss_mb(server.pid)
            session.complete()
            made_id = session.id
    with relight.open(store) as rl:  # after the server has ended: a reader would keep the bytes in the log
        rl.sessions.remove(made_id)
    return {
        "generated_seconds": made,
        "pages": {what: {"ms": ms, "bytes": size} for what, (ms, size) in times.items()},
        "listeners": LISTENERS,
        "late_p50": median(late),
        "late_max": max(late),
        "rss_before_mb": before,
        "rss_after_mb": after,
    }


def goals(found: dict[str, Any]) -> list[tuple[str, float, str, bool]]:
    """What has to hold."""
    pages = found["pages"]
    first, session = pages["first page"]["ms"], pages["session page"]["ms"]
    grown = (found["rss_after_mb"] - found["rss_before_mb"]) * 1024 / found["listeners"]
    return [
        ("first page of 10,000 sessions, ms", first, "<= 200", first <= 200),
        ("session page, ms", session, "<= 300", session <= 300),
        ("search among 10,000 sessions, ms", pages["search"]["ms"], "<= 200", pages["search"]["ms"] <= 200),
        ("first page, kB", pages["first page"]["bytes"] / 1e3, "<= 120", pages["first page"]["bytes"] <= 120_000),
        (f"{found['listeners']} listeners, last to hear, s", found["late_max"], "<= 1", found["late_max"] <= 1.0),
        ("memory a listener, kB", grown, "<= 200", grown <= 200),
    ]
