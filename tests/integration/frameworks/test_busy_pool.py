"""Sync tools and nodes run in the event loop's own pool: where they hang there, no step of ours waits for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import relight
from relight.library.facade import Relight

BOUND_SECONDS = 30.0


async def openai_agents(rl: Relight) -> Any:
    from relight.frameworks.openai_agents import RelightSession

    session = RelightSession("a", rl)
    await session.add_items([{"role": "user", "content": "x"}])
    return len(await session.get_items())


async def langgraph(rl: Relight) -> Any:
    from relight.frameworks.langgraph import RelightSaver

    saver = RelightSaver(rl)
    return 1 if await saver.aget_tuple({"configurable": {"thread_id": "a"}}) is None else 0


@pytest.mark.parametrize("use", [openai_agents, langgraph])
def test_hanging_threads_of_the_loops_own_pool_keep_no_step_waiting(use: Callable[[Relight], Awaitable[Any]]) -> None:
    go = threading.Event()

    async def main(rl: Relight) -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(max_workers=1))
        hanging = loop.run_in_executor(None, go.wait, BOUND_SECONDS)
        try:
            async with asyncio.timeout(BOUND_SECONDS / 2):
                assert await use(rl) == 1
        finally:
            go.set()
            await hanging

    with relight.open("memory:") as rl:
        asyncio.run(main(rl))
