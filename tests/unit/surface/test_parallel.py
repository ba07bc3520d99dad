"""`parallel=`: calls of one reply run side by side, each told truly, with their results in the order asked."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import relight
import relight.aio
from relight.errors import UsageError, Waiting

BOUND_SECONDS = 30.0


def reply(*names: str) -> dict[str, Any]:
    """A reply that asks for these calls, with the ids c0, c1, ..."""
    blocks = [{"type": "tool_use", "id": f"c{n}", "name": name, "input": {}} for n, name in enumerate(names)]
    return {"role": "assistant", "content": blocks}


def model(*names: str) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
        done = {"role": "assistant", "content": [{"type": "text", "text": "done"}]}
        return reply(*names) if len(messages) == 1 else done

    return ask


def run(rl: Any, tools: Any, *names: str, **options: Any) -> Any:
    with rl.session("a", provider="anthropic") as s:
        return s.run(model(*names), tools=tools, prompt="go", **options)


def results(rl: Any) -> list[tuple[str, Any]]:
    """(id, text) of each result, as the provider gets them."""
    messages = rl.history.load("a").messages
    return [
        (block["tool_use_id"], block["content"])
        for message in messages
        if message["role"] == "user" and isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.002)


def test_calls_of_one_reply_overlap_and_their_results_are_one_message_in_the_order_asked() -> None:
    together = threading.Barrier(4)
    order: list[int] = []

    def recorded() -> int:
        return sum(call.result_seq is not None for call in rl.history.load("a").calls)

    def tool(number: int) -> Callable[[], str]:
        def call() -> str:
            together.wait(BOUND_SECONDS)
            wait_for(
                lambda: recorded() == 3 - number
            )  # they end in the reverse order, each when the one before is committed
            order.append(number)
            return f"result {number}"

        return call

    tools = {f"t{number}": tool(number) for number in range(4)}
    with relight.open("memory:") as rl:
        assert run(rl, tools, *tools) == "done"
        assert results(rl) == [(f"c{number}", f"result {number}") for number in range(4)]
        calls = rl.history.load("a").calls
        assert order == [3, 2, 1, 0]
        assert sorted(call.result_seq or 0 for call in calls) == [call.result_seq for call in reversed(calls)]
        assert len({call.intent_seq for call in calls}) == 4


def test_coroutines_and_plain_functions_overlap_on_an_event_loop() -> None:
    begun: list[str] = []

    async def on_the_loop() -> str:
        begun.append("task")
        while len(begun) < 4:
            await asyncio.sleep(0.001)
        return "task"

    def in_a_thread() -> str:
        begun.append("thread")
        wait_for(lambda: len(begun) == 4)
        return "thread"

    async def main() -> Any:
        tools = {"task": on_the_loop, "thread": in_a_thread}
        async with relight.aio.open("memory:") as rl, await rl.session("a", provider="anthropic") as s:
            names = ("task", "thread", "task", "thread")
            return await s.run(model(*names), tools=tools, prompt="go"), await rl.history.load("a")

    said, loaded = asyncio.run(asyncio.wait_for(main(), BOUND_SECONDS))
    assert said == "done"
    assert [call.result for call in loaded.calls] == ["task", "thread", "task", "thread"]


@pytest.mark.parametrize("how", ["parallel", "alone"])
def test_calls_that_must_not_overlap_run_one_by_one_in_the_callers_thread(how: str) -> None:
    active: list[int] = []
    seen: list[tuple[int, str]] = []

    @relight.tool(name="t", alone=how == "alone")
    def tool() -> None:
        active.append(1)
        seen.append((len(active), threading.current_thread().name))
        active.pop()

    with relight.open("memory:") as rl:
        run(rl, [tool], "t", "t", "t", **({"parallel": 1} if how == "parallel" else {}))
    assert seen == [(1, threading.current_thread().name)] * 3


def test_at_most_so_many_run_at_a_time_and_context_variables_are_the_callers() -> None:
    from contextvars import ContextVar

    active, most, lock = 0, 0, threading.Lock()
    user: ContextVar[str] = ContextVar("user")
    users: set[str] = set()

    def tool() -> None:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        users.add(user.get())
        time.sleep(0.005)
        with lock:
            active -= 1

    user.set("ada")
    with relight.open("memory:") as rl:
        run(rl, {"t": tool}, *["t"] * 12, parallel=3)
        with pytest.raises(UsageError, match="parallel"):
            run(rl, {"t": tool}, parallel=0)
    assert (most <= 3, users) == (True, {"ada"})


def test_an_error_of_one_does_not_lose_the_others_and_an_exit_of_one_is_in_doubt() -> None:
    ran: list[str] = []

    def fine() -> str:
        ran.append("fine")
        return "fine"

    def broken() -> None:
        ran.append("broken")
        raise ValueError("broken")

    def leaves() -> None:
        wait_for(lambda: len(ran) == 2)
        ran.append("leaves")
        sys.exit(3)

    with relight.open("memory:") as rl:
        tools = {"fine": fine, "broken": broken, "leaves": leaves}
        with pytest.raises(SystemExit):
            run(rl, tools, "leaves", "broken", "fine")
        calls = rl.history.load("a").calls
        assert [(call.success, call.in_doubt) for call in calls] == [(None, True), (False, False), (True, False)]
        run(rl, tools, "leaves", "broken", "fine")
        assert [text for _, text in results(rl)][1:] == ["ValueError: broken", "fine"]
        assert "outcome unknown" in results(rl)[0][1]
    assert sorted(ran) == ["broken", "fine", "leaves"]


def test_a_call_that_waits_for_approval_lets_the_others_finish() -> None:
    ran: list[str] = []

    @relight.tool(approve=True)
    def pay() -> str:
        ran.append("pay")
        return "paid"

    @relight.tool
    def look() -> str:
        ran.append("look")
        return "seen"

    names = ("pay", "look", "pay", "look")
    with relight.open("memory:") as rl:
        for decided in range(2):
            with pytest.raises(Waiting):
                run(rl, [pay, look], *names)
            assert (rl.sessions.get("a").status, sorted(ran)) == ("waiting", sorted(["look"] * 2 + ["pay"] * decided))
            assert rl.sessions.get("a").in_doubt == 0
            rl.runs.approve("a")
        assert run(rl, [pay, look], *names) == "done"
        assert [text for _, text in results(rl)] == ["paid", "seen", "paid", "seen"]
    assert sorted(ran) == ["look", "look", "pay", "pay"]


def test_ctrl_c_tells_each_call_truly_and_begins_no_other(tmp_path: Path) -> None:
    go, begun = threading.Event(), []

    def slow() -> str:
        begun.append(1)
        go.wait(BOUND_SECONDS)
        return "ended"

    def interrupting() -> None:
        wait_for(lambda: len(begun) == 2)
        os.kill(os.getpid(), signal.SIGINT)
        go.wait(BOUND_SECONDS)

    with relight.open(str(tmp_path / "r.db")) as rl:
        with pytest.raises(KeyboardInterrupt):
            run(rl, {"slow": slow, "interrupting": interrupting}, "slow", "slow", "interrupting", "slow", parallel=3)
        assert rl.sessions.get("a").status == "working", "the lease is kept while they run"
        go.set()
        wait_for(lambda: rl.sessions.get("a").status == "terminated")
        calls = rl.history.load("a").calls
        assert [(call.result, call.in_doubt, call.intent_seq is None) for call in calls] == [
            ("ended", False, False),
            ("ended", False, False),
            (None, False, False),
            (None, False, True),
        ]
    assert len(begun) == 2


def test_a_cancelled_run_cancels_each_of_its_calls_and_waits_for_them() -> None:
    begun, ended = [], []

    async def slow() -> None:
        begun.append(1)
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(1)

    async def main() -> None:
        async with relight.aio.open("memory:") as rl:
            async with await rl.session("a", provider="anthropic") as s:
                before = asyncio.all_tasks()
                going = s.run(model(*["slow"] * 4), tools={"slow": slow}, prompt="go", parallel=3)
                task = asyncio.ensure_future(going)
                while len(begun) < 3:
                    await asyncio.sleep(0.001)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (len(ended), asyncio.all_tasks()) == (3, before)
            loaded = await rl.history.load("a")
            assert [call.in_doubt for call in loaded.calls] == [True, True, True, False]

    asyncio.run(asyncio.wait_for(main(), BOUND_SECONDS))


PROGRAM = """
import asyncio, sys, time, pathlib
import relight, relight.aio
from tests.unit.surface.test_parallel import model
store, outside, form = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]

def count(name):
    with (outside / name).open("a") as file:
        file.write("x")

def quick0(): count("quick0"); return "done"
def quick1(): count("quick1"); return "done"
def hang0(): count("hang0"); time.sleep(60)
def hang1(): count("hang1"); time.sleep(60)
async def awaited_hang0(): count("hang0"); await asyncio.sleep(60)
async def awaited_quick0(): count("quick0"); return "done"

async def main(tools):
    async with relight.aio.open(store) as rl, await rl.session("a", provider="anthropic") as s:
        await s.run(model(*tools), tools=tools, prompt="go")

tools = {"hang0": hang0, "quick0": quick0, "hang1": hang1, "quick1": quick1}
if form == "async":
    asyncio.run(main({**tools, "hang0": awaited_hang0, "quick0": awaited_quick0}))
else:
    with relight.open(store) as rl, rl.session("a", provider="anthropic") as s:
        s.run(model(*tools), tools=tools, prompt="go")
"""


@pytest.mark.crash
@pytest.mark.parametrize("form", ["sync", "async"])
def test_killed_in_the_middle_each_of_four_is_told_truly_and_none_runs_again(tmp_path: Path, form: str) -> None:
    store, outside = str(tmp_path / "r.db"), tmp_path / "outside"
    outside.mkdir()
    arguments = [sys.executable, "-c", PROGRAM, store, str(outside), form]
    with subprocess.Popen(arguments, cwd=Path(__file__).parents[3]) as child, relight.open(store) as rl:
        try:
            wait_for(lambda: [path.read_text() for path in outside.iterdir()] == ["x"] * 4)
            wait_for(lambda: sum(call.success is True for call in rl.history.load("a").calls) == 2)
        finally:
            os.kill(child.pid, signal.SIGKILL)
            child.wait(BOUND_SECONDS)
        told = [(call.name, call.success, call.in_doubt) for call in rl.history.load("a").calls]
        assert told == [("hang0", None, True), ("quick0", True, False), ("hang1", None, True), ("quick1", True, False)]

        def never() -> None:
            raise AssertionError("it ran again")

        tools = dict.fromkeys(("hang0", "quick0", "hang1", "quick1"), never)
        assert run(rl, tools, *tools) == "done"
        assert ["outcome unknown" in text for _, text in results(rl)] == [True, False, True, False]
    assert {path.name: path.read_text() for path in outside.iterdir()} == dict.fromkeys(tools, "x")
