"""Conversations that must not touch each other: whatever their ids are, and whatever was forked or deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import relight
from relight.errors import NotFound
from relight.frameworks.openai_agents import RelightSession
from relight.library.facade import Relight


@pytest.fixture
def rl() -> Iterator[Relight]:
    with relight.open("memory:") as one:
        yield one


def user(text: str) -> Any:
    return {"role": "user", "content": text}


async def branched(session_id: str, rl: Relight) -> RelightSession:
    """A conversation of two turns with a branch, which is its current one."""
    session = RelightSession(session_id, rl)
    await session.add_items([user(f"{session_id[-1]}1"), user("2")])
    await session.create_branch_from_turn(2, "branch")
    await session.add_items([user(f"said in the branch of {session_id[-1]}")])
    return session


def names(branches: list[dict[str, Any]]) -> list[str]:
    return [one["branch_id"] for one in branches]


def test_branches_of_long_ids_that_begin_alike_are_apart(rl: Relight) -> None:
    async def both() -> None:
        ids = ["a" * 90 + "1", "a" * 90 + "2", "b" * 500 + "1", "b" * 500 + "2"]
        sessions = [await branched(one, rl) for one in ids]
        for one, session in zip(ids, sessions, strict=True):
            reported = [item["content"] for item in await session.get_items()]  # type: ignore[typeddict-item]
            assert reported == [f"{one[-1]}1", f"said in the branch of {one[-1]}"]

    asyncio.run(both())


@pytest.mark.parametrize(
    "guess",
    [
        lambda rl, one: RelightSession("a/b", rl).ref,
        lambda rl, one: one.ref,
        lambda rl, one: rl.sessions.get(one.ref).id,
    ],
    ids=["the name made from an odd id", "the name of a branch", "the id of its session"],
)
def test_no_id_leads_to_the_conversation_of_another(
    rl: Relight, guess: Callable[[Relight, RelightSession], str]
) -> None:
    async def try_it() -> None:
        await RelightSession("a/b", rl).add_items([user("a secret")])
        one = await branched("victim", rl)
        other = RelightSession(guess(rl, one), rl)
        assert await other.get_items() == []
        await other.add_items([user("mine")])
        assert await other.delete()
        assert len(await RelightSession("a/b", rl).get_items()) == 1
        assert len(await one.get_items()) == 2

    asyncio.run(try_it())


def test_a_fork_has_no_say_over_the_branches_of_its_origin(rl: Relight) -> None:
    async def fork() -> None:
        origin = await branched("origin", rl)
        rl.history.fork("origin", name="copy")
        copy = RelightSession("copy", rl)
        assert names(await copy.list_branches()) == ["main"]
        assert await copy.create_branch_from_turn(2, "branch") == "branch"  # of its own
        assert names(await copy.list_branches()) == ["main", "branch"]
        await copy.clear_session()
        assert names(await origin.list_branches()) == ["main", "branch"]
        assert len(await origin.get_items()) == 2

    asyncio.run(fork())


@pytest.mark.parametrize("first", ["read", "write"])
def test_an_object_on_a_branch_is_back_on_main_when_the_conversation_was_cleared(rl: Relight, first: str) -> None:
    async def clear() -> None:
        one = await branched("talk", rl)
        assert one.branch == "branch"
        await RelightSession("talk", rl).clear_session()
        if first == "read":
            assert await one.get_items() == []
        await one.add_items([user("anew")])
        assert (one.branch, await one.get_items()) == ("main", [user("anew")])
        assert await RelightSession("talk", rl).get_items() == [user("anew")]

    asyncio.run(clear())


def test_a_branch_that_was_deleted_elsewhere_does_not_come_back(rl: Relight) -> None:
    async def late() -> None:
        one = await branched("talk", rl)
        await RelightSession("talk", rl).delete_branch("branch")
        for _ in range(2):
            assert await one.get_items() == []
            with pytest.raises(NotFound):
                await one.add_items([user("late")])
        assert [info.name for info in rl.sessions.list()] == ["talk"]

    asyncio.run(late())


def test_an_item_of_odd_content_spoils_no_search(rl: Relight) -> None:
    async def search() -> None:
        session = RelightSession("odd", rl)
        odd: list[Any] = [5, None, {"a": 1}, ["text", None, 5], [{"text": 5}], True]
        await session.add_items([{"role": "user", "content": one} for one in odd] + [user("a needle")])
        assert [turn["turn"] for turn in await session.find_turns_by_content("needle")] == [len(odd) + 1]

    asyncio.run(search())
