"""`rl.sessions.search`: the content of all sessions on every store, from the commit on; nothing of what was removed."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

import relight
from relight.history import search as searching
from relight.journal.search import blocks
from relight.journal.search.query import excerpt, parse
from relight.ports.search import IndexedStore
from tests.integration.acceptance.conftest import Addresses

KINDS = ("memory", "sqlite", "postgres", "redis")
INDEXED = ("sqlite", "postgres")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def refs(rl: relight.Relight, text: str, **more: Any) -> list[str]:
    return [hit.ref for hit in rl.sessions.search(text, **more).hits]


def index_of(rl: relight.Relight) -> IndexedStore:
    return cast(IndexedStore, rl.store)


def add_piece(rl: relight.Relight, most: int = 512) -> bool:
    index = index_of(rl)
    return index.index_steps([searching._words(one) for one in index.list_unindexed(most)])


@pytest.mark.parametrize("kind", KINDS)
def test_what_any_session_says_is_found_in_its_own_session(kind: str, address_of: Addresses, tmp_path: Path) -> None:
    with relight.open(address_of(kind, tmp_path)) as rl:
        with rl.session("first", task="Paint the shed für Ada", labels={"team": "blue", "où": "Orléans"}) as s:
            s.append(user("deploy to Zürich"))
            target = s.append(user("a step that stays"))
            s.append(user("abandoned idea"))
            s.state["plan"] = "measure twice"
        rl.history.rewind(f"first@{target.seq}")
        rl.history.fork(f"first@{target.seq}", name="second")
        with rl.session("second") as s:
            s.append(user("deploy to Bergen"))
            with pytest.raises(relight.Waiting):
                s.ask("May I continue?")
        assert refs(rl, "zurich") == ["first@2"]
        assert refs(rl, "deploy") == ["second@" + refs(rl, "bergen")[0].partition("@")[2], "first@2"]
        assert refs(rl, '"may i continue"') and refs(rl, "measure twice")
        for asked in ("shed", "blue", "für", "fur ada", "orleans", "ORLÉANS", "ou"):
            assert refs(rl, asked) == ["second", "first"], "a fork has the task and the labels too"
        (hit,) = rl.sessions.search("abandoned").hits
        assert hit.abandoned and not rl.sessions.search("zurich").hits[0].abandoned
        assert refs(rl, "zurich", session="second") == ["first@2"], "with what it inherited"
        assert refs(rl, "deploy", most=1, since_us=round(hit.at.timestamp() * 1e6) + 1) == refs(rl, "bergen")
        assert rl.sessions.search("zurich").complete


@pytest.mark.parametrize("kind", INDEXED)
def test_a_search_of_common_words_is_bounded_and_continues_where_it_ended(
    kind: str, address_of: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BITS", 2)
    monkeypatch.setattr(blocks, "BLOCK_STEPS", 4)
    monkeypatch.setattr(searching, "_WINDOW", 2)
    monkeypatch.setattr(searching, "MAX_LOOKED", 8)
    monkeypatch.setattr(searching, "_WORTH_ADDING", 1)
    with relight.open(address_of(kind, tmp_path)) as rl:
        with rl.session("a") as s:
            for number in range(60):
                s.append(user("needle red blue" if number == 7 else ("red one", "blue two")[number % 2]))
        found, rounds = rl.sessions.search("red blue", most=1), 0
        while not found.hits and found.next is not None:
            found, rounds = rl.sessions.search("red blue", most=1, before=found.next), rounds + 1
        assert [hit.text for hit in found.hits] == ["needle red blue"] and 2 <= rounds <= 30
        rest = rl.sessions.search("red blue", before=found.next) if found.next is not None else None
        while rest is not None and rest.next is not None:
            assert rest.hits == []
            rest = rl.sessions.search("red blue", before=rest.next)


@pytest.mark.parametrize("kind", INDEXED)
def test_the_index_finds_what_reading_finds_at_every_moment(kind: str, address_of: Addresses, tmp_path: Path) -> None:
    chance = random.Random(17)
    said: list[tuple[str, str]] = []
    with relight.open(address_of(kind, tmp_path)) as rl:
        for name in ("a", "b", "c"):
            with rl.session(name) as s:
                for _ in range(40):
                    text = " ".join(chance.choices(["red", "green", "blue", "redder", "x1", "x2"], k=3))
                    said.append((f"{name}@{s.append(user(text)).seq}", text))
            add_piece(rl, 25)
        for asked in ("red", "red green", '"green blue"', "red*", "x1 x2", '"red red"', "x*", "none"):
            query = parse(asked)
            expected = [ref for ref, text in reversed(said) if excerpt(query, text) is not None]
            paged, before = [], None
            while True:
                page = rl.sessions.search(asked, most=7, before=before, seconds=0)
                paged += [hit.ref for hit in page.hits]
                if (before := page.next) is None:
                    break
            assert paged == expected, asked
        assert rl.admin.migrate() == 0 and refs(rl, "x1", most=500) == [
            r for r, t in reversed(said) if "x1" in t.split()
        ]


@pytest.mark.parametrize("kind", INDEXED)
def test_a_removed_session_leaves_no_word(kind: str, address_of: Addresses, tmp_path: Path) -> None:
    url = address_of(kind, tmp_path)
    with relight.open(url) as rl:
        for name, word in (("keep", "staying"), ("go", "vanishing"), ("late", "unindexedword")):
            with rl.session(name) as s:
                for number in range(30):
                    s.append(user(f"{word} shared common{number}"))
            if name != "late":
                assert rl.admin.migrate() == 0
        rl.sessions.remove("go")
        rl.sessions.remove("late")
        assert refs(rl, "vanishing") == refs(rl, "unindexedword") == []
        assert len(refs(rl, "shared staying", most=100)) == 30
        index = index_of(rl)
        assert index.find_words("vanishing", "vanishing", range(10)) == []
        with rl.session("new") as s:  # its bodies may get the numbers of those that went
            s.append(user("newcomer"))
        assert refs(rl, "newcomer") == ["new@2"] and rl.admin.migrate() == 0 and refs(rl, "newcomer") == ["new@2"]
        assert rl.store.check() == []
    if kind == "sqlite":
        data = b"".join(path.read_bytes() for path in (tmp_path / "store").glob("relight.db*") if path.is_file())
        assert b"staying" in data and b"vanishing" not in data and b"unindexedword" not in data


def test_steps_committed_before_bodies_named_them_are_found_indexed_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with relight.open(path) as rl:
        for name in ("keep", "go"):
            with rl.session(name) as s:
                s.append(user(f"{name}ing older"))
    with closing(apsw.Connection(str(path))) as connection:
        for statement in (
            "ALTER TABLE bodies DROP COLUMN step",
            "DROP TABLE older_bodies",
            "CREATE INDEX steps_body ON steps (body)",
            "PRAGMA user_version = 5",
        ):
            connection.execute(statement)
    with relight.open(path) as rl:
        with rl.session("keep") as s:
            s.append(user("keeping newer"))
        assert refs(rl, "older") == ["go@2", "keep@2"] and refs(rl, "keeping") == ["keep@5", "keep@2"]
        assert index_of(rl).count_unindexed() == 9 and rl.admin.migrate() == 0
        assert refs(rl, "older") == ["go@2", "keep@2"] and refs(rl, "keeping") == ["keep@5", "keep@2"]
        rl.sessions.remove("go")
        assert refs(rl, "older") == ["keep@2"] and refs(rl, "going") == []
        assert rl.store.check() == []
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.execute("SELECT count(*) FROM older_bodies").get == 3, "the session's own rows are gone"


@pytest.mark.parametrize("kind", INDEXED)
def test_a_session_removed_between_reading_and_adding_is_not_added(
    kind: str, address_of: Addresses, tmp_path: Path
) -> None:
    with relight.open(address_of(kind, tmp_path)) as rl:
        for name in ("go", "keep"):
            with rl.session(name) as s:
                s.append(user(f"{name}ing"))
        index = index_of(rl)
        read = [searching._words(one) for one in index.list_unindexed(100)]
        rl.sessions.remove("go")
        assert not index.index_steps(read), "read again"
        assert index.find_words("going", "going", range(3)) == []
        assert rl.admin.migrate() == 0 and refs(rl, "keeping") == ["keep@2"]
        assert not index.index_steps(read), "and nothing twice"


def test_what_is_not_searched_is_said(address_of: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "TAIL_STEPS", 10)
    monkeypatch.setattr(searching, "MAX_SCANNED", 10)
    for kind, said in (("sqlite", "not in the index yet"), ("redis", "no index of words")):
        with relight.open(address_of(kind, tmp_path)) as rl:
            with rl.session("one") as s:
                for number in range(70):
                    s.append(user(f"word{number}"))
            found = rl.sessions.search("word69 OR", seconds=0)
            assert not found.complete and said in found.note
            found = rl.sessions.search("word69", session="one")
            assert found.complete and len(found.hits) == 1


def test_what_was_redacted_is_in_no_index(tmp_path: Path) -> None:
    key = "sk-ant-" + "api03-" + "Q7x" * 20
    with relight.open(tmp_path / "r.db") as rl:
        with rl.session("one", redact=True) as s:
            s.append(user(f"the key is {key} indeed"))
        assert rl.admin.migrate() == 0
        (hit,) = rl.sessions.search("indeed").hits
        assert key not in hit.text and refs(rl, key) == []


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_steps_of_a_branch_that_was_returned_to_are_not_marked_as_rewound(
    kind: str, address_of: Addresses, tmp_path: Path
) -> None:
    with relight.open(address_of(kind, tmp_path)) as rl:
        with rl.session("one") as s:
            seqs = [s.append(user(f"step{number}")).seq for number in range(4)]
        rl.history.rewind(f"one@{seqs[1]}")
        with rl.session("one") as s:
            s.append(user("step4"))
        marks = [rl.sessions.search(f"step{number}").hits[0].abandoned for number in range(5)]
        assert marks == [False, False, True, True, False]
        rl.history.rewind(f"one@{seqs[3]}")
        with rl.session("one") as s:
            s.append(user("step5"))
        marks = [rl.sessions.search(f"step{number}").hits[0].abandoned for number in range(6)]
        assert marks == [False, False, False, False, True, False]
