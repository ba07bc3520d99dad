"""Reading a long session costs it once, however many read; and who asks a lot does not keep others waiting."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from relight.errors import NotFound
from relight.server.http.guard import ConcurrencyLimit
from relight.server.live.fold_cache import MAX_CACHED, FoldCache
from tests.support.server_harness import ServerHarness


def test_many_who_read_the_same_pages_fold_the_session_once(some: ServerHarness) -> None:
    """S-L7."""
    paths = ["/api/sessions/fix-login/messages?limit=1", "/api/sessions/fix-login/calls"] * 10
    with some.client("read") as client:  # one event loop, as in a server: readers wait for each other in it
        first = client.get("/api/sessions/fix-login/messages?limit=1").json()
        with ThreadPoolExecutor(8) as pool:
            answered = list(pool.map(lambda path: client.get(path).status_code, paths))
        assert set(answered) == {200} and some.service.folds.loads == 1
        following = client.get("/api/sessions/fix-login/messages", params={"limit": 1, "cursor": first["next"]}).json()
        assert following["items"] and following["items"] != first["items"] and some.service.folds.loads == 1
        some.rl.runs.send("fix-login", "yes")
        assert client.get("/api/sessions/fix-login/messages?limit=1").status_code == 200
        assert some.service.folds.loads == 2, "a step later it is another state"


def test_of_many_at_once_one_makes_it_and_an_error_is_everybodys_own(
    some: ServerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    folds = FoldCache(some.rl)
    load = some.rl.history.load

    def slow(ref: str) -> Any:
        begun.set()
        assert go.wait(60)
        return load(ref)

    monkeypatch.setattr(some.rl.history, "load", slow)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(folds.load, "changelog") for _ in range(4)]
        assert begun.wait(60)
        go.set()
        assert len({id(one.result(10)) for one in waiting}) == 1 and folds.loads == 1
    with pytest.raises(NotFound):
        folds.load("nobody")
    assert len(folds._cached) <= MAX_CACHED and not folds._loading


def test_a_caller_that_asks_a_lot_waits_for_itself_alone() -> None:
    async def play() -> tuple[int, int]:
        turns, at_work, most = ConcurrencyLimit(), 0, 0
        hold = asyncio.Event()

        async def read() -> None:
            nonlocal at_work, most
            async with turns.of("ci"):
                at_work += 1
                most = max(most, at_work)
                await hold.wait()
                at_work -= 1

        many = [asyncio.create_task(read()) for _ in range(40)]
        await asyncio.sleep(0)
        async with asyncio.timeout(5), turns.of("owner"):
            seen = most
        hold.set()
        await asyncio.gather(*many)
        return seen, len(turns._slots)

    seen, left = asyncio.run(play())
    assert 0 < seen <= 6 and left == 0
