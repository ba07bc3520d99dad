"""`rl.sessions`, `rl.history`, `rl.files`, `rl.runs`, `rl.queues`, `rl.admin`: every verb has its noun."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import msgspec
import pytest

import relight
from relight import aio
from relight.errors import UsageError
from relight.history import listing
from relight.testing import ScriptedModel

NOUNS = ("sessions", "history", "files", "runs", "queues", "admin")
ON_THE_HANDLE = {*NOUNS, "close", "pinned", "session", "store", "unpinned"}


def test_a_handle_has_six_nouns_made_once_and_hardly_a_verb_of_its_own() -> None:
    with relight.open("memory:") as rl:
        assert {name for name in dir(rl) if not name.startswith("_")} == ON_THE_HANDLE
        for noun in NOUNS:
            assert getattr(rl, noun) is getattr(rl, noun)
            verbs = [name for name in dir(getattr(rl, noun)) if not name.startswith("_")]
            assert 5 <= len(verbs) <= 25
            assert all(inspect.getdoc(getattr(getattr(rl, noun), verb)) for verb in verbs)


def test_undo_and_redo_are_two_verbs() -> None:
    with relight.open("memory:") as rl:
        with rl.session("a") as s:
            for text in ("one", "two"):
                s.append({"role": "user", "content": text})
        rl.history.rewind("a@2")
        rl.history.undo("a")
        assert len(rl.history.load("a").messages) == 2
        rl.history.redo("a")
        assert len(rl.history.load("a").messages) == 1
        events = list(rl.history.events("a", after=1, upto=3))
        assert (
            [event.seq for event in events]
            == [2, 3]
            == [one.seq for one in rl.history.checkpoints("a", after=1, upto=3)]
        )


@pytest.mark.parametrize("place", ["a@3", "a@here"])
def test_steps_of_a_checkpoint_are_those_up_to_it(place: str) -> None:
    with relight.open("memory:") as rl:
        with rl.session("a") as s:
            for text in ("one", "two", "three"):
                made = s.append({"role": "user", "content": text})
                if text == "two":
                    rl.history.label(made.id, "here")
        assert [one.seq for one in rl.history.events(place)] == [1, 2, 3]
        assert [one.seq for one in rl.history.checkpoints(place, after=1)] == [2, 3]
        assert [one.seq for one in rl.history.events(place, upto=2)] == [1, 2]
        assert [one.seq for one in rl.history.events(place, upto=9)] == [1, 2, 3]
        with pytest.raises(UsageError, match="name the session"):
            rl.history.events(place, follow=True)

        async def awaited() -> list[int]:
            async with aio.open(rl.store) as arl:
                assert [one.seq async for one in arl.history.events(place)] == [1, 2, 3]
                with pytest.raises(UsageError, match="name the session"):
                    async for _ in arl.history.events(place, follow=True):
                        raise AssertionError("nothing is followed")
                return [one.seq for one in await arl.history.checkpoints(place)]

        assert asyncio.run(awaited()) == [1, 2, 3]


@pytest.mark.parametrize("place", ["a@2", "a@here"])
def test_what_is_done_to_a_whole_session_is_refused_for_a_checkpoint_and_changes_nothing(place: str) -> None:
    with relight.open("memory:") as rl:
        with rl.session("a") as s:
            made = s.append({"role": "user", "content": "one"})
            s.append({"role": "user", "content": "two"})
            rl.history.label(made.id, "here")
        before = rl.sessions.get("a")
        for done in (
            lambda: rl.sessions.remove(place),
            lambda: rl.sessions.remove(place, dry_run=True),
            lambda: rl.sessions.archive(place),
            lambda: rl.sessions.update(place, name="b"),
            lambda: rl.sessions.acknowledge(place),
            lambda: rl.sessions.remind(place),
            lambda: rl.runs.send(place, "go on"),
            lambda: rl.runs.stop(place),
            lambda: rl.runs.stop(place, tree=True),
            lambda: rl.runs.approve(place),
            lambda: rl.runs.deny(place),
            lambda: rl.runs.settle(place, "c1", retry=True),
            lambda: rl.history.undo(place),
            lambda: rl.history.redo(place),
            lambda: rl.admin.release(place),
        ):
            with pytest.raises(UsageError, match="is a checkpoint") as refused:
                done()
            assert refused.value.hints == ("the session is a",)
        assert msgspec.structs.replace(rl.sessions.get("a"), evidence=before.evidence) == before
        assert rl.history.search("a@2", "two").count == 0 and rl.history.search("a", "two").count == 1


def test_files_list_names_what_a_checkpoint_holds(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "sub" / "a.txt").write_text("one")
    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("a", workspace=work) as s:
            s.append({"role": "user", "content": "x"})
        (held,) = rl.files.list("a")
        assert (held.root, held.path, held.kind, held.size_bytes) == ("main", "sub/a.txt", "file", 3)
        assert rl.files.read("a", held.path) == b"one"


def test_a_handle_and_its_nouns_say_what_they_are() -> None:
    with relight.open("memory:") as rl:
        assert repr(rl) == "<relight store memory:>"
        assert repr(rl.history) == "<relight history of memory:>"
        with rl.session("a") as s:
            s.append({"role": "user", "content": "x"})
            assert repr(s) == "<relight session a at @2, working>"
        assert repr(rl.history.load("a")).endswith("@3: 1 messages, 0 calls>")


def test_no_object_that_a_program_is_given_is_named_by_its_address_in_memory(tmp_path: Path) -> None:
    given: list[object] = []

    async def awaited() -> None:
        given.append(aio.open("memory:"))
        async with aio.open(tmp_path / "r.db") as rl:
            given.extend([rl, rl.store, rl.sessions, rl.session("b")])
            async with rl.session("b") as s:
                given.extend([s, s.stream(), s.batch(), s.spawn("child")])

    with relight.open("memory:") as rl, rl.session("a") as s:
        given.extend([rl.store, s, s.state, s.stream(), s.batch("first"), s.turns([])])
        model = ScriptedModel([{"look": {}}, "Done."])
        for turn in s.turns({"look": lambda: "seen"}, prompt="Look"):
            reply = turn.reply(model(s.messages))
            given.extend([turn, reply, *reply.calls, model])
    asyncio.run(awaited())
    shown = [repr(one) for one in given]
    assert [text for text in shown if " at 0x" in text] == []
    assert {"<relight turn 1 of a>", "<relight batch first of a>", "<MemoryStore memory:>"} <= set(shown)


def test_a_session_that_is_not_awaited_yet_says_so() -> None:
    opening = aio.session("a")
    assert repr(opening) == "<relight session a, not opened yet: use async with, or await it>"
    with pytest.raises(
        AttributeError, match=r"session a, not opened yet: use async with, or await it>, has no 'append'"
    ):
        opening.append({"role": "user", "content": "x"})  # type: ignore[attr-defined]
    assert not hasattr(opening, "messages")


def test_a_list_in_an_order_is_as_long_as_asked_though_many_are_shown_with_another_status(tmp_path: Path) -> None:
    """What the store has as working may be shown as terminated: its first page held none of those asked for."""
    with relight.open(str(tmp_path / "relight.db")) as rl:
        at_work = [rl.session(f"a{number:03}") for number in range(210)]
        for name in ("b", "c", "d"):
            with rl.session(name):
                pass
        for sort, found in {"name": "bcd", "-name": "dcb", "created": "bcd", "updated": "bcd"}.items():
            page = list(rl.sessions.list(status="terminated", sort=sort, limit=2))
            last = listing.place_of(page[-1], sort)
            page += rl.sessions.list(status="terminated", sort=sort, limit=2, before=last)
            assert [one.name for one in page] == list(found), sort
        for one in at_work:
            one.close()
