"""Commits of many tasks in one thread: none is acknowledged and lost, none is written twice, none waits for ever."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import relight
import relight.aio
from relight.aio import AsyncRelight, AsyncSession
from relight.errors import RelightError
from relight.ports import faults
from relight.sessions.session import writer_of
from relight.stores.sqlite.store import SqliteStore

BOUND_SECONDS = 60.0
TASKS = 200


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    faults.disarm()


@pytest.fixture(params=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else str(tmp_path / "relight.db")


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def opened(rl: AsyncRelight, count: int) -> list[AsyncSession]:
    return [await rl.session(f"s{number}") for number in range(count)]


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while not true():
            await asyncio.sleep(0.002)


class Gate:
    """Holds the first writer inside its transaction."""

    def __init__(self) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        faults.arm("commit.written", self)

    def __call__(self, name: str) -> None:
        if not self.inside.is_set():
            self.inside.set()
            assert self.go.wait(BOUND_SECONDS)


def test_the_steps_of_many_tasks_share_transactions_and_threads(tmp_path: Path) -> None:
    async def main() -> None:
        async with relight.aio.open(tmp_path / "relight.db") as rl:
            sessions = await opened(rl, TASKS)
            store = rl.store
            assert isinstance(store, SqliteStore)
            before, threads, gate = store._writer.transactions, threading.active_count(), Gate()
            tasks = [asyncio.create_task(one.append(user("x"))) for one in sessions]
            await until(gate.inside.is_set)
            gate.go.set()
            async with asyncio.timeout(BOUND_SECONDS):
                await asyncio.gather(*tasks)
            assert store._writer.transactions - before <= 8, "each task has had a transaction of its own"
            assert threading.active_count() - threads <= 8, "each task has had a thread of its own"
            for one in sessions:
                assert [message["content"] for message in one.messages] == ["x"]
                await one.complete()

    asyncio.run(main())


def test_a_call_that_has_begun_is_awaited_and_one_that_has_not_is_not_made(address: str) -> None:
    async def main() -> None:
        async with relight.aio.open(address) as rl:
            first, second = await opened(rl, 2)
            gate = Gate()
            begun = asyncio.create_task(first.append(user("begun")))
            await until(gate.inside.is_set)
            held = writer_of(second._sync).recorder.lock
            waiting = asyncio.create_task(second.append(user("not begun")))
            await asyncio.sleep(0)  # it has asked
            begun.cancel()
            waiting.cancel()
            await asyncio.sleep(0)
            assert not begun.done(), "its caller must know what was written"
            gate.go.set()
            ended = await asyncio.wait_for(asyncio.gather(begun, waiting, return_exceptions=True), BOUND_SECONDS)
            assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
            assert held.acquire(timeout=BOUND_SECONDS)
            held.release()
            assert [message["content"] for message in first.messages] == ["begun"]
            await second.append(user("after"))
            assert [message["content"] for message in second.messages][-1:] == ["after"]
            assert (await rl.history.load("s1")).messages == second.messages

    asyncio.run(main())


def test_a_session_that_another_thread_holds_keeps_no_other_waiting(address: str) -> None:
    async def main() -> None:
        async with relight.aio.open(address) as rl:
            held, *others = await opened(rl, 8)
            taken, release = threading.Event(), threading.Event()

            def hold() -> None:
                with writer_of(held._sync).recorder.lock:
                    taken.set()
                    assert release.wait(BOUND_SECONDS)

            thread = threading.Thread(target=hold)
            thread.start()
            try:
                await until(taken.is_set)
                late = [asyncio.create_task(held.append(user(str(number)))) for number in range(3)]
                async with asyncio.timeout(BOUND_SECONDS):
                    await asyncio.gather(*(one.append(user("x")) for one in others))
                assert not any(one.done() for one in late)
            finally:
                release.set()
                thread.join()
            async with asyncio.timeout(BOUND_SECONDS):
                await asyncio.gather(*late)
            assert Counter(message["content"] for message in held.messages) == Counter("012")

    asyncio.run(main())


def test_an_event_loop_that_reads_the_conversation_does_not_wait_for_a_step_that_is_committed(address: str) -> None:
    async def main() -> None:
        async with relight.aio.open(address) as rl:
            (s,) = await opened(rl, 1)
            await s.append(user("before"))
            gate = Gate()
            # Ends a test that would hang: the loop itself could not.
            timer = threading.Timer(BOUND_SECONDS / 2, gate.go.set)
            timer.start()
            try:
                task = asyncio.create_task(s.append(user("committed")))
                await until(gate.inside.is_set)
                assert [message["content"] for message in s.messages] == ["before"]
                assert not gate.go.is_set(), "the loop stood still until the step was committed"
            finally:
                timer.cancel()
                gate.go.set()
            await asyncio.wait_for(task, BOUND_SECONDS)
            assert [message["content"] for message in s.messages] == ["before", "committed"]

    asyncio.run(main())


def test_calls_of_one_session_at_once_are_each_written_once(address: str) -> None:
    async def main() -> None:
        async with relight.aio.open(address) as rl:
            (s,) = await opened(rl, 1)
            async with asyncio.timeout(BOUND_SECONDS):
                await asyncio.gather(*(s.append(user(str(number))) for number in range(TASKS)))
            told = (await rl.history.load("s0")).messages
            assert Counter(one["content"] for one in told) == Counter(map(str, range(TASKS)))
            assert told == s.messages

    asyncio.run(main())


def test_a_refusal_is_told_to_its_task_alone(address: str) -> None:
    async def main() -> None:
        async with relight.aio.open(address) as rl:
            sessions = await opened(rl, 8)
            await sessions[3].complete()
            ended = await asyncio.gather(*(one.append(user("x")) for one in sessions), return_exceptions=True)
            assert [isinstance(one, RelightError) for one in ended] == [number == 3 for number in range(8)]

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(6))
def test_none_is_acknowledged_and_lost_and_none_is_written_twice(address: str, seed: int) -> None:
    """Tasks that append side by side, some of them cancelled at any moment, some commits failing before, inside and
    after the transaction; some programs try again."""
    chance = random.Random(seed)
    acknowledged: list[list[str]] = [[] for _ in range(30)]
    lock = threading.Lock()

    def fail(name: str) -> None:
        with lock:
            is_hit = chance.random() < 0.05
        if is_hit:
            raise faults.InjectedFault(name)

    async def work(s: AsyncSession, number: int) -> None:
        for index in range(10):
            text = f"{number}.{index}"
            for _ in range(20):
                try:
                    await s.append(user(text))
                except faults.InjectedFault:
                    continue  # the same change again: it is not written twice
                acknowledged[number].append(text)
                break

    async def main() -> None:
        async with relight.aio.open(address) as rl:
            sessions = await opened(rl, len(acknowledged))
            for point in ("commit.enter", "commit.begun", "commit.written", "commit.committed"):
                faults.arm(point, fail)
            tasks = [asyncio.create_task(work(one, number)) for number, one in enumerate(sessions)]
            for task in chance.sample(tasks, 10):
                await asyncio.sleep(chance.random() * 0.01)
                task.cancel()
            async with asyncio.timeout(BOUND_SECONDS):
                await asyncio.wait(tasks)
            faults.disarm()
            for number, one in enumerate(sessions):
                await one.append(user("last"))
                there = [message["content"] for message in (await rl.history.load(f"s{number}")).messages]
                assert there == [message["content"] for message in one.messages], "the fold is not what is stored"
                assert max(Counter(there).values()) == 1, "written twice"
                assert [text for text in there if text in acknowledged[number]] == acknowledged[number], "lost"

    asyncio.run(main())


PROGRAM = """
import asyncio, os, sys, relight, relight.aio
async def work(s, number):
    for index in range(1000):
        await s.append({"role": "user", "content": f"{number}.{index}"})
        os.write(1, f"{number}.{index}\\n".encode())
async def main():
    async with relight.aio.open(sys.argv[1]) as rl:
        sessions = [await rl.session(f"s{number}") for number in range(20)]
        await asyncio.gather(*(work(s, number) for number, s in enumerate(sessions)))
asyncio.run(main())
"""


@pytest.mark.parametrize("point", ["commit.begun", "commit.written", "commit.committed", "commit.told"])
def test_after_a_kill_everything_acknowledged_is_there_once(tmp_path: Path, point: str) -> None:
    path = tmp_path / "relight.db"
    environment = {**os.environ, "RELIGHT_FAULT": f"{point}:120:kill"}
    command = [sys.executable, "-c", PROGRAM, str(path)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False)
    assert ended.returncode == -9, ended.stderr
    acknowledged = ended.stdout.split()
    assert acknowledged
    with relight.open(path) as rl:
        there = [one["content"] for number in range(20) for one in rl.history.load(f"s{number}").messages]
    assert set(acknowledged) <= set(there)
    assert len(there) == len(set(there))


def test_a_warning_about_usage_names_the_line_of_the_program() -> None:
    with relight.open("memory:") as rl, rl.session("a") as s, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        s.append({"role": "assistant", "content": "x"}, {"input_tokens": 1, "output_tokens": 1, "strange": 3})
    assert [one.filename for one in told] == [__file__]
