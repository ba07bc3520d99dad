"""Many async sessions at once in one process: each commits its own steps, and none of them costs a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import relight
import relight.aio
from relight.aio import AsyncRelight
from relight.event_loop import STORE_THREADS
from tests.support.figures import Figure

BOUND_SECONDS = 120.0
SAVES = 3
OWN_THREADS = 1
"""the heartbeat"""


def test_async_sessions_share_a_bounded_pool_of_threads(
    tmp_path: Path, sample: Callable[..., int], figure: Figure
) -> None:
    count = sample(STORE_THREADS + 32, proof=1_000)
    before = threading.active_count()
    peak = 0

    async def one(rl: AsyncRelight, number: int) -> None:
        nonlocal peak
        async with await rl.session(f"s{number}") as s:
            for save in range(SAVES):
                await s.append({"role": "user", "content": f"{number}.{save}"})
                peak = max(peak, threading.active_count())

    async def main() -> None:
        async with relight.aio.open(tmp_path / "relight.db") as rl, asyncio.timeout(BOUND_SECONDS):
            await asyncio.gather(*(one(rl, number) for number in range(count)))

    asyncio.run(main())
    assert peak - before <= STORE_THREADS + OWN_THREADS < count
    with relight.open(tmp_path / "relight.db") as rl:
        for number in range(0, count, 8):
            told = [message["content"] for message in rl.history.load(f"s{number}").messages]
            assert told == [f"{number}.{save}" for save in range(SAVES)]
    figure("G10", f"{count:,} async sessions at once in one process, at most {peak - before} threads for them")
