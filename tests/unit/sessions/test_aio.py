"""Async: coroutines run on the caller's loop, a cancelled one ends, and nothing that began is begun a second time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import relight
import relight.aio
from relight import event_loop
from relight.aio import AsyncRelight
from relight.errors import InDoubt, LeaseHeld, UsageError
from tests.support.calls import call
from tests.support.figures import Figure

Sample = Callable[..., int]
BOUND_SECONDS = 30.0
HANG = 3600.0
FEW = 8


@pytest.fixture(params=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else str(tmp_path / "relight.db")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """After every test only idle threads of the pool are left."""
    yield
    wait_for(lambda: not [one for one in threading.enumerate() if one.name in ("relight-call", "relight-verb")])


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.005)


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            found = true()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.005)


async def no_task_left() -> None:
    await until(lambda: len(asyncio.all_tasks()) == 1)


def asking(name: str) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    """A model that calls this tool, and then says that it is done."""

    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if messages[-1]["role"] == "user":
            return call("c1", name)
        return {"role": "assistant", "content": f"done: {messages[-1]['content']}"}

    return model


class Bank:
    """The outside world: transfers by key, and a tool that is slow about them. `go` lets it go on."""

    def __init__(self) -> None:
        self.transfers: list[str] = []
        self.begun = 0
        self.cancelled = 0
        self.go = threading.Event()

    def was_paid(self, idempotency_key: str) -> str | None:
        return "paid" if idempotency_key in self.transfers else None

    @relight.tool(effect="probe", probe=was_paid)
    async def pay(self, idempotency_key: str) -> str:
        self.begun += 1
        try:
            while not self.go.is_set():
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.transfers.append(idempotency_key)
        return "paid"

    @relight.tool(effect="probe", probe=was_paid, name="pay")
    def pay_in_thread(self, idempotency_key: str) -> str:
        self.begun += 1
        assert self.go.wait(BOUND_SECONDS)
        self.transfers.append(idempotency_key)
        return "paid"


async def turn(rl: AsyncRelight, tool: Any) -> Any:
    async with await rl.session("pay") as s:
        return await s.run(asking("pay"), tools=[tool], prompt="pay")


async def begun_and_cancelled(rl: AsyncRelight, bank: Bank, tool: Any) -> None:
    """A turn that is cancelled in the middle of its tool."""
    before = bank.begun
    task = asyncio.create_task(turn(rl, tool))
    await until(lambda: bank.begun > before)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_coroutine_ends_and_a_retry_pays_once(address: str) -> None:
    bank = Bank()

    async def main() -> None:
        async with relight.aio.open(address) as rl:
            await begun_and_cancelled(rl, bank, bank.pay)
            assert (bank.cancelled, len(bank.transfers)) == (1, 0)
            info = await rl.sessions.get("pay")
            assert (info.status, info.in_doubt) == ("terminated", 1)
            bank.go.set()
            assert await turn(rl, bank.pay) == "done: paid"
            await no_task_left()

    asyncio.run(main())
    assert len(bank.transfers) == 1


def test_a_tool_in_a_thread_keeps_the_lease_until_it_has_ended(address: str) -> None:
    bank = Bank()

    async def main() -> None:
        async with relight.aio.open(address) as rl:
            await begun_and_cancelled(rl, bank, bank.pay_in_thread)
            with pytest.raises(LeaseHeld, match="until c1 has ended in this process") as refused:
                await turn(rl, bank.pay_in_thread)
            assert "a tool of it still runs" in refused.value.hints[0], "there is no block to leave"
            bank.go.set()
            await until(lambda: _status(rl, "pay", "terminated"))
            assert (await rl.sessions.get("pay")).in_doubt == 0, "its outcome was not recorded"
            assert await turn(rl, bank.pay_in_thread) == "done: paid"

    asyncio.run(main())
    assert (len(bank.transfers), bank.begun) == (1, 1)


async def _status(rl: AsyncRelight, name: str, status: str) -> bool:
    info = await rl.sessions.get(name)
    return info.status == status and not info.evidence


@pytest.mark.parametrize("verdict", ["fail", "halt", "complete"])
def test_a_verdict_beside_a_running_tool_keeps_the_lease_too(verdict: str) -> None:
    bank = Bank()

    async def main() -> None:
        async with relight.aio.open("memory:") as rl:
            async with await rl.session("pay") as s:
                agent = s.run(asking("pay"), tools=[bank.pay_in_thread], prompt="pay")
                task = asyncio.ensure_future(agent)
                await until(lambda: bank.begun)
                task.cancel()
                await asyncio.wait({task})
                await getattr(s, verdict)("why")
            info = await rl.sessions.get("pay")
            assert info.evidence, "the lease was given back while the tool ran"
            assert info.status == {"fail": "failed", "halt": "halted", "complete": "completed"}[verdict]
            bank.go.set()
            await until(lambda: _status(rl, "pay", info.status))
            assert [one.result for one in (await rl.history.load("pay")).calls] == ["paid"]

    asyncio.run(main())
    assert len(bank.transfers) == 1


def test_once_is_in_doubt_after_a_cancelled_coroutine_and_known_after_a_thread(address: str) -> None:
    bank = Bank()

    async def hang() -> None:
        bank.begun += 1
        await asyncio.sleep(HANG)

    def slow() -> str:
        bank.begun += 1
        assert bank.go.wait(BOUND_SECONDS)
        return "sent"

    async def main() -> None:
        async with relight.aio.open(address) as rl:
            async with await rl.session("a") as s:
                for key, function in (("k1", hang), ("k2", slow)):
                    before = bank.begun
                    task = asyncio.create_task(s.once(key, function))
                    await until(lambda: bank.begun > before)  # noqa: B023
                    task.cancel()
                    await asyncio.wait({task})
                    assert task.cancelled()
                with pytest.raises(InDoubt):
                    await s.once("k1", hang)
                with pytest.raises(UsageError, match="still running"):
                    await s.once("k2", slow)
                with pytest.raises(UsageError, match="still running"):
                    await s.settle("k2", retry=True)
            bank.go.set()
            await until(lambda: _status(rl, "a", "terminated"))
            async with await rl.session("a") as s:
                assert await s.once("k2", slow) == "sent"

    asyncio.run(main())
    assert bank.begun == 2


def test_a_second_loop_in_the_same_block_waits_for_what_the_first_began() -> None:
    bank = Bank()

    async def main() -> None:
        async with relight.aio.open("memory:") as rl, await rl.session("pay") as s:
            tools = [bank.pay_in_thread]
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await s.run(asking("pay"), tools=tools, prompt="pay")
            asyncio.get_running_loop().call_later(0.1, bank.go.set)
            assert await s.run(asking("pay"), tools=tools, prompt="pay") == "done: paid"

    asyncio.run(main())
    assert (bank.begun, len(bank.transfers)) == (1, 1)


def test_a_coroutine_that_ends_in_spite_of_its_cancellation_has_its_outcome_recorded() -> None:
    begun = asyncio.Event()

    @relight.tool
    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.sleep(HANG)
        except asyncio.CancelledError:
            return "done in spite of it"
        return "never"

    async def main() -> None:
        async with relight.aio.open("memory:") as rl:

            async def work() -> None:
                async with await rl.session("a") as s:
                    await s.run(asking("stubborn"), tools=[stubborn], prompt="x")

            task = asyncio.create_task(work())
            await begun.wait()
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled(), "the loop went on after it was cancelled"
            assert [one.result for one in (await rl.history.load("a")).calls] == ["done in spite of it"]
            assert (await rl.sessions.get("a")).in_doubt == 0

    asyncio.run(main())


def test_hanging_models_time_out_and_leave_nothing(tmp_path: Path, figure: Figure, sample: Sample) -> None:
    count = sample(60, proof=200)
    cancelled, effects = 0, []

    @relight.tool
    async def note(n: int) -> str:
        effects.append(n)
        return "noted"

    async def model(messages: list[dict[str, Any]]) -> Any:
        nonlocal cancelled
        if messages[-1]["role"] == "user":
            return call("c1", "note", f'{{"n": {messages[-1]["content"]}}}')
        try:
            await asyncio.sleep(HANG)
        except asyncio.CancelledError:
            cancelled += 1
            raise

    async def one(rl: AsyncRelight, number: int) -> None:
        async with asyncio.timeout(1), await rl.session(f"s{number}") as s:
            await s.run(model, tools=[note], prompt=str(number))

    async def main() -> float:
        async with relight.aio.open(tmp_path / "relight.db") as rl:
            begun = time.monotonic()
            ends = await asyncio.gather(*(one(rl, number) for number in range(count)), return_exceptions=True)
            took = time.monotonic() - begun
            assert {type(end) for end in ends} == {TimeoutError}
            await no_task_left()
            assert [info async for info in rl.sessions.list() if info.evidence] == [], "a lease is held"
            return took

    took = asyncio.run(main())
    assert took < count * 0.75, "they waited for one another"
    assert len(effects) == len(set(effects))
    figure("G10", f"{count} async agents timed out in their models, 0 tasks and 0 leases left, 0 effects twice")


def test_hanging_threads_keep_neither_a_store_call_nor_a_close_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, begun = threading.Event(), []

    @relight.tool
    def hang() -> str:
        begun.append(1)
        assert go.wait(BOUND_SECONDS)
        return "ended"

    def sync_model(messages: list[dict[str, Any]]) -> Any:
        begun.append(1)
        assert go.wait(BOUND_SECONDS)
        return {"role": "assistant", "content": "late"}

    async def one(rl: AsyncRelight, number: int) -> None:
        model = sync_model if number % 2 else asking("hang")
        async with await rl.session(f"s{number}") as s:
            await s.run(model, tools=[hang], prompt="x")

    # Fewer threads for store calls than there are hanging models, and than there are hanging tools.
    monkeypatch.setattr(event_loop._threads, "stores", ThreadPoolExecutor(max_workers=FEW))
    count = 2 * (FEW + 4)

    async def main() -> None:
        async with relight.aio.open(tmp_path / "relight.db") as rl:
            tasks = [asyncio.create_task(one(rl, number)) for number in range(count)]
            await until(lambda: len(begun) == count)
            async with asyncio.timeout(BOUND_SECONDS):
                assert sum((await rl.sessions.counts()).values()) == count
            for task in tasks:
                task.cancel()
            async with asyncio.timeout(BOUND_SECONDS):
                await asyncio.wait(tasks)
        assert not go.is_set()

    asyncio.run(main())
    go.set()
    wait_for(lambda: not [one for one in threading.enumerate() if one.name == "relight-call"])
    with relight.open(tmp_path / "relight.db") as rl:
        infos = list(rl.sessions.list())
        assert [info.name for info in infos if info.evidence or info.in_doubt] == []
        assert {one.result for info in infos for one in rl.history.load(info.id).calls} == {"ended"}


def test_an_opening_that_is_cancelled_holds_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with relight.aio.open(tmp_path / "relight.db") as rl:
            for delay in range(12):
                task = asyncio.ensure_future(rl.session("a"))
                await asyncio.sleep(delay / 4000)
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    await task.result().close()
                found = await rl.sessions.find("a")
                assert found is None or not found.evidence, "the lease of a session that nobody has"
            await no_task_left()

    asyncio.run(main())


def test_a_failing_sibling_in_a_task_group_cancels_the_tool() -> None:
    bank = Bank()

    async def fail() -> None:
        await until(lambda: bank.begun)
        raise ValueError("the sibling")

    async def main() -> None:
        async with relight.aio.open("memory:") as rl:
            with pytest.raises(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    group.create_task(turn(rl, bank.pay))
                    group.create_task(fail())
            assert bank.cancelled == 1
            info = await rl.sessions.get("pay")
            assert (info.status, info.in_doubt, info.evidence) == ("terminated", 1, [])

    asyncio.run(main())


ENDING = """
import asyncio, os, signal, sys, time, threading
import relight, relight.aio, relight.event_loop
from tests.support.calls import call
relight.event_loop.EXIT_SECONDS = 0.3
how, path = sys.argv[1:]

@relight.tool(name="work")
async def coroutine():
    begun.set(); await asyncio.sleep(3600)

@relight.tool(name="work")
def hangs():
    begun.set(); time.sleep(3600)

@relight.tool(name="work")
def ends():
    begun.set(); time.sleep(0.2); return "ended"

tool = {"interrupt": coroutine, "hangs": hangs, "ends": ends}[how]
begun = threading.Event()

async def agent(rl):
    async with await rl.session("a") as s:
        await s.run(lambda messages: call("c1", "work"), tools=[tool], prompt="x")

async def main():
    rl = await relight.aio.open(path)
    task = asyncio.create_task(agent(rl))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    if how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
        await task

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(("how", "in_doubt"), [("interrupt", 1), ("hangs", 1), ("ends", 0)])
def test_a_process_that_ends_does_not_hang_on_its_tool(tmp_path: Path, how: str, in_doubt: int) -> None:
    path = tmp_path / "relight.db"
    command = [sys.executable, "-c", ENDING, how, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    with relight.open(path) as rl:
        info = rl.sessions.get("a")
        assert (info.status, info.in_doubt) == ("terminated", in_doubt)
        with rl.session("a") as s:
            assert [one.in_doubt for one in s.pending_calls()] == [True] * in_doubt


def test_leaving_the_block_beside_a_thread_keeps_the_lease_until_its_tool_has_ended(tmp_path: Path) -> None:
    bank = Bank()
    with relight.open(tmp_path / "relight.db") as rl:
        with rl.session("a") as s:
            s.append({"role": "user", "content": "pay"})
            s.append(call("c1", "pay"))
            worker = threading.Thread(target=s.run_tool, args=(s.pending_calls()[0], [bank.pay_in_thread]))
            worker.start()
            wait_for(lambda: bank.begun == 1)
        with pytest.raises(LeaseHeld):
            rl.session("a")
        with pytest.raises(UsageError, match="left"):
            s.append({"role": "user", "content": "more"})
    bank.go.set()
    worker.join()
    with relight.open(tmp_path / "relight.db") as rl:
        assert (rl.sessions.get("a").status, rl.sessions.get("a").evidence) == ("terminated", [])
        assert [one.result for one in rl.history.load("a").calls] == ["paid"]


def test_interrupting_a_tool_leaves_its_call_in_doubt_in_the_same_block() -> None:
    runs = []

    @relight.tool
    def interrupted() -> str:
        runs.append(1)
        raise KeyboardInterrupt

    with relight.open("memory:") as rl, rl.session("a") as s:
        s.append({"role": "user", "content": "x"})
        s.append(call("c1", "interrupted"))
        with pytest.raises(KeyboardInterrupt):
            s.run_tool(s.pending_calls()[0], [interrupted])
        (pending,) = s.pending_calls()
        assert pending.in_doubt
        assert str(s.run_tool(pending, [interrupted]).result).startswith("outcome unknown")
    assert len(runs) == 1


def test_a_coroutine_function_is_refused_before_anything_begins_where_nothing_awaits_it() -> None:
    async def coroutine(*args: Any) -> str:
        return "never"

    with relight.open("memory:") as rl, rl.session("a") as s:
        s.append({"role": "user", "content": "x"})
        s.append(call("c1", "coroutine"))
        for act in (
            lambda: s.run_tool(s.pending_calls()[0], {"coroutine": coroutine}),
            lambda: s.once("k", coroutine),
            lambda: s.run(coroutine, prompt="x"),
        ):
            with pytest.raises(UsageError, match="is a coroutine function"):
                act()
        assert [one.in_doubt for one in s.pending_calls()] == [False]


def test_functions_that_only_return_coroutines_and_async_objects_are_awaited() -> None:
    class Model:
        async def __call__(self, messages: list[dict[str, Any]]) -> Any:
            return asking("t")(messages)

    async def answer() -> str:
        assert threading.current_thread() is threading.main_thread()
        return "ok"

    async def main() -> None:
        async with relight.aio.open("memory:") as rl, await rl.session("a") as s:
            assert await s.once("k", answer) == "ok"
            tools = {"t": lambda *_: answer()}
            assert await s.run(Model(), tools=tools, prompt="x") == "done: ok"

    asyncio.run(main())


def test_following_stops_with_its_caller() -> None:
    async def main() -> None:
        async with relight.aio.open("memory:") as rl, await rl.session("a") as s:
            await s.append({"role": "user", "content": "x"})
            seen: list[str] = []

            async def follow() -> None:
                async for event in rl.history.events("a", follow=True):
                    seen.append(event.kind)

            task = asyncio.create_task(follow())
            await until(lambda: "message" in seen)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
            assert [event.kind async for event in rl.history.events("a")] == seen

    asyncio.run(main())
