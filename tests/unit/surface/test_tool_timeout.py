"""`timeout=` and `retries=`: the caller continues, nothing runs twice that must not, and what is not known is told."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import relight
import relight.aio
from relight.errors import LeaseHeld, UsageError
from tests.support.calls import call
from tests.support.simulation import Simulation

BOUND_SECONDS = 30.0
SHORT = 0.02


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.002)


def ended(rl: Any, tool: Any) -> Any:
    """The call of this tool, as it ended."""
    with rl.session("a") as s:
        s.append(call("c1", tool.name))
        return s.run_tool(s.pending_calls()[0], [tool])


def ended_awaited(tool: Any) -> Any:
    async def main() -> Any:
        async with relight.aio.open("memory:") as rl, await rl.session("a") as s:
            await s.append(call("c1", tool.name))
            return await s.run_tool((await s.pending_calls())[0], [tool])

    return asyncio.run(asyncio.wait_for(main(), BOUND_SECONDS))


def test_a_block_that_is_left_after_close_keeps_the_lease_until_its_tools_have_ended() -> None:
    """The second of the two gave it away, and the tool ran beside the next attempt."""
    go = threading.Event()

    @relight.tool(timeout=SHORT)
    def hangs() -> None:
        go.wait(BOUND_SECONDS)

    with relight.open("memory:") as rl:
        with rl.session("a") as s:
            s.append(call("c1", "hangs"))
            s.run_tool(s.pending_calls()[0], [hangs])
            s.close()
        s.close()
        with pytest.raises(LeaseHeld, match="until c1 has ended"):
            rl.session("a")
        go.set()
        wait_for(lambda: rl.sessions.get("a").status == "terminated")
        rl.session("a").close()


@pytest.mark.parametrize(("effect", "text"), [("once", "outcome unknown"), ("pure", "TimeoutError: it did not end")])
@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_function_that_hangs_lets_its_caller_continue_and_keeps_the_lease_until_it_ends(
    effect: Any, text: str, form: str
) -> None:
    go, ran = threading.Event(), []

    @relight.tool(effect=effect, timeout=SHORT, retries=0 if effect == "once" else 3)
    def hangs() -> str:
        ran.append(1)
        go.wait(BOUND_SECONDS)
        return "late"

    with relight.open("memory:") as rl:
        if form == "sync":
            with rl.session("a") as s:
                s.append(call("c1", "hangs"))
                done = s.run_tool(s.pending_calls()[0], [hangs])
                s.append({"role": "assistant", "content": "I go on"})
            with pytest.raises(LeaseHeld, match="until c1 has ended"):
                rl.session("a")
            go.set()
            wait_for(lambda: rl.sessions.get("a").status == "terminated")
            assert [one.result for one in rl.history.load("a").calls] == [done.result], "a late result changes nothing"
        else:
            threading.Timer(0.3, go.set).start()
            done = ended_awaited(hangs)
    assert (done.success, text in done.result, len(ran)) == (False, True, 1)


@pytest.mark.parametrize("effect", ["once", "idempotent"])
def test_a_coroutine_is_cancelled_and_awaited_when_its_time_is_over(effect: Any) -> None:
    order: list[str] = []

    @relight.tool(effect=effect, timeout=SHORT)
    async def hangs() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            order.append("cancelled")

    result = ended_awaited(hangs).result
    assert order == ["cancelled"]
    assert ("outcome unknown" in result, "within 0.02 seconds" in result) == (effect == "once", True)


def test_a_result_in_time_and_an_error_of_its_own_are_as_without_a_timeout() -> None:
    @relight.tool(timeout=BOUND_SECONDS)
    def fine() -> str:
        return threading.current_thread().name

    @relight.tool(timeout=BOUND_SECONDS)
    def broken() -> None:
        raise TimeoutError("of its own")

    assert ended(relight.open("memory:"), fine).result == "relight-call"
    assert ended(relight.open("memory:"), broken).result == "TimeoutError: of its own"
    assert ended_awaited(broken).result == "TimeoutError: of its own"


class Flaky:
    """Fails so many times; each try counts, and may take effect before it fails."""

    def __init__(self, failures: int, *, takes_effect: bool = False) -> None:
        self.failures, self.takes_effect = failures, takes_effect
        self.tries: list[str] = []

    def run(self, idempotency_key: str) -> str:
        self.tries.append(idempotency_key)
        if len(self.tries) <= self.failures:
            raise ConnectionError("flaky")
        return "done"

    def seen(self, idempotency_key: str) -> str | None:
        return "seen" if self.takes_effect else None


def test_what_may_run_again_is_tried_again_with_growing_pauses_under_one_key() -> None:
    world, flaky = Simulation(), Flaky(2)
    before = world.time.now_us()
    tool = relight.tool(effect="idempotent", retries=2, name="t")(flaky.run)
    assert ended(world.start(), tool).result == "done"
    assert (len(flaky.tries), len(set(flaky.tries))) == (3, 1)
    assert world.time.now_us() - before > 1_000_000
    flaky = Flaky(3)
    tool = relight.tool(effect="pure", retries=2, name="t")(flaky.run)
    assert (ended(Simulation().start(), tool).result, len(flaky.tries)) == ("ConnectionError: flaky", 3)


def test_a_probe_is_asked_before_each_further_try() -> None:
    for takes_effect, expected in ((False, ("done", 2)), (True, ("seen", 1))):
        flaky = Flaky(1, takes_effect=takes_effect)
        tool = relight.tool(effect="probe", probe=flaky.seen, retries=1, name="t")(flaky.run)
        assert (ended(Simulation().start(), tool).result, len(flaky.tries)) == expected


@pytest.mark.parametrize(
    "options", [{"retries": 1}, {"retries": -1}, {"timeout": 0}, {"timeout": "1"}, {"retries": True}], ids=str
)
def test_what_is_not_safe_is_refused_where_it_is_declared(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        relight.tool(**options)
