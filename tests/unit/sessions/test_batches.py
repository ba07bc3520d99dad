"""Batches and state beside other tasks and threads: what one does is neither lost nor undone by another."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

import relight
import relight.aio
from relight.aio import AsyncSession
from relight.journal.jsonable import check_json
from relight.ports import faults
from relight.sessions import state

BOUND_SECONDS = 60.0


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def contents(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages]


@pytest.mark.parametrize("raises", [False, True])
def test_a_task_that_outlives_the_batch_it_began_in_commits_on_its_own(raises: bool) -> None:
    async def late(s: AsyncSession, go: asyncio.Event) -> None:
        await go.wait()
        assert contents(s.messages) == ([] if raises else ["inside"])
        assert (await s.append(user("late"))).seq == int(s.head.partition("@")[2])
        await s.partial("late")
        await s.checkpoint("late")
        assert await s.once("late", lambda: "ran") == "ran"

    async def main() -> None:
        async with relight.aio.open("memory:") as rl, rl.session("a") as s:
            go = asyncio.Event()
            try:
                async with s.batch():
                    await s.append(user("inside"))
                    task = asyncio.create_task(late(s, go))
                    if raises:
                        raise KeyError
            except KeyError:
                assert raises
            go.set()
            await asyncio.wait_for(task, BOUND_SECONDS)
            loaded = await rl.history.load("a")
            assert contents(loaded.messages) == (["late"] if raises else ["inside", "late"])
            assert loaded.messages == s.messages
            assert loaded.partials == ["late"]

    asyncio.run(main())


def test_a_thread_with_the_context_of_a_batch_that_is_over_commits_on_its_own() -> None:
    with relight.open("memory:") as rl, rl.session("a") as s:
        with s.batch():
            s.append(user("inside"))
            inherited = contextvars.copy_context()
        thread = threading.Thread(target=inherited.run, args=(s.append, user("late")))
        thread.start()
        thread.join(BOUND_SECONDS)
        assert contents(rl.history.load("a").messages) == ["inside", "late"] == contents(s.messages)


def test_tasks_of_a_batch_add_to_it_until_it_is_left() -> None:
    async def main() -> None:
        async with relight.aio.open("memory:") as rl, rl.session("a") as s:
            async with s.batch():
                await asyncio.gather(*(s.append(user(str(number))) for number in range(30)))
                before = (await rl.history.load("a")).messages
            assert before == []
            assert sorted(contents(s.messages), key=int) == [str(number) for number in range(30)]
            assert [one.kind for one in await rl.history.checkpoints("a")].count("message") == 1

    asyncio.run(main())


def test_a_batch_that_raises_takes_nothing_back_of_what_another_task_saved_or_set() -> None:
    async def failing(s: AsyncSession, began: asyncio.Event, go: asyncio.Event) -> None:
        async with s.batch():
            s.state["mine"] = "half"
            s.state["old"] = "half"
            began.set()
            await go.wait()
            raise KeyError

    async def main() -> None:
        async with relight.aio.open("memory:") as rl, rl.session("a") as s:
            s.state.update(done=[], old="old", gone=1, unsaved=0)
            await s.append(user("0"))
            s.state["unsaved"] = 1
            began, go = asyncio.Event(), asyncio.Event()
            task = asyncio.create_task(failing(s, began, go))
            await began.wait()
            s.state["done"].append("saved")
            del s.state["gone"]
            await s.append(user("1"))
            s.state["set"] = "not saved yet"
            go.set()
            with pytest.raises(KeyError):
                await asyncio.wait_for(task, BOUND_SECONDS)
            s.state["done"].append("after")
            await s.append(user("2"))
            expected = {"done": ["saved", "after"], "unsaved": 1, "set": "not saved yet"}
            saved = (await rl.history.load("a")).state
            assert {key: saved[key] for key in expected} == expected
            assert "gone" not in saved
            assert saved == dict(s.state)

    asyncio.run(main())


def test_a_batch_that_raises_alone_takes_back_all_that_it_changed() -> None:
    with relight.open("memory:") as rl, rl.session("a") as s:
        s.state.update(kept=[1], gone=1, other=1)
        s.append(user("0"))
        kept = s.state["kept"]
        s.state["unsaved"] = [1]
        del s.state["other"]
        with pytest.raises(KeyError), s.batch():
            kept.append(2)
            s.state["unsaved"].append(2)
            s.state["new"] = 1
            s.state["other"] = 2
            del s.state["gone"]
            raise KeyError
        s.append(user("1"))
        assert rl.history.load("a").state == {"kept": [1], "gone": 1, "unsaved": [1]} == dict(s.state)


def test_what_is_deleted_while_the_step_that_saves_it_is_committed_is_deleted_with_the_next() -> None:
    inside, go = threading.Event(), threading.Event()

    def gate(_: str) -> None:
        inside.set()
        assert go.wait(BOUND_SECONDS)

    with relight.open("memory:") as rl, rl.session("a") as s:
        s.state["k"] = 1
        faults.arm("commit.written", gate)
        thread = threading.Thread(target=s.append, args=(user("0"),))
        thread.start()
        try:
            assert inside.wait(BOUND_SECONDS)
            del s.state["k"]
        finally:
            faults.disarm()
            go.set()
            thread.join(BOUND_SECONDS)
        assert "k" not in s.state
        s.append(user("1"))
        assert rl.history.load("a").state == {} == dict(s.state)


def test_state_that_grows_while_it_is_read_for_a_step_fails_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    with relight.open("memory:") as rl, rl.session("a") as s:
        s.state["seen"] = {"a": 1}
        s.state["seen"]["b"] = 2
        left = [1, 2, 3]

        def walked(value: dict[str, Any], **how: Any) -> None:
            for _ in value["seen"]:
                if left:  # another thread adds a key here
                    value["seen"][f"more {left.pop()}"] = 1
            check_json(value, **how)

        monkeypatch.setattr(state, "check_json", walked)
        s.append(user("0"))
        assert len(rl.history.load("a").state["seen"]) == 5
