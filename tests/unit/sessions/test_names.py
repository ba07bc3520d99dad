"""Names, ids and prefixes: what opens a session, what only finds it, and who may have a name."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

import relight
from relight.errors import (
    Ambiguous,
    Conflict,
    InvalidName,
    NotFound,
    NotResumable,
    RelightError,
    StoreFull,
    UsageError,
)
from relight.testing.clock import SeededEntropy
from relight.values.session import Head, Identity
from tests.support.simulation import Simulation
from tests.unit.sessions.test_branching import user, write

SECRET = "sk-ant-api03-" + "Ab1" * 30


class Alike(SeededEntropy):
    """Ids that all begin with the same nine characters."""

    def session_id(self) -> str:
        return "abcdabcda" + super().session_id()[9:]


def test_an_id_or_eight_characters_of_it_open_the_session_and_an_ambiguous_prefix_is_refused(world: Simulation) -> None:
    rl = world.start()
    known = write(rl, "first", "1")
    for ref in (known, known[:8], known[:31], "first"):
        with rl.session(ref) as s:
            assert s.id == known, ref
    with rl.session(known[:7]) as s:
        assert s.id != known and s.name == known[:7], "fewer characters are a name"
    world.chance = Alike()
    rl = world.start()
    ids = {write(rl, f"s{number}", "1") for number in range(2)}
    with pytest.raises(Ambiguous):
        rl.session("abcdabcd")
    with pytest.raises(Ambiguous):
        rl.sessions.get("abcdabcd")
    assert rl.sessions.find("abcdabcd") is None
    assert {info.id for info in rl.sessions.list()} > ids and len(list(rl.sessions.list())) == 4, "nothing was begun"


def test_begun_anew_under_a_prefix_the_other_session_keeps_its_name(world: Simulation) -> None:
    rl = world.start()
    known = write(rl, "first", "1")
    with rl.session(known[:8], resume=False) as s:
        assert s.id != known
    assert rl.sessions.get("first").id == known


@pytest.mark.parametrize("end", ["left", "completed", "archived"])
@pytest.mark.parametrize("ref", ["job", "job@2", "anew", "other"])
def test_an_opening_that_is_refused_leaves_everything_as_it_was(tmp_path: Path, end: str, ref: str) -> None:
    with relight.open(tmp_path / "relight.db") as rl:
        with rl.session("job") as s:
            s.append(user("1"))
            if end != "left":
                s.complete("done")
        if end == "archived":
            rl.sessions.archive("job")
        before = list(rl.sessions.list())
        with pytest.raises(RelightError) as caught:
            rl.session(ref.replace("anew", "job"), resume=ref != "anew", key=f"order {SECRET}")
        assert SECRET not in str(caught.value)
        assert list(rl.sessions.list()) == before


@pytest.mark.parametrize("archived", [False, True])
def test_a_session_has_its_name_again_where_the_one_begun_anew_cannot_be_created(
    tmp_path: Path, archived: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with relight.open(tmp_path / "relight.db") as rl:
        with rl.session("job") as s:
            s.complete()
        if archived:
            rl.sessions.archive("job")
        before = list(rl.sessions.list())

        def refuse(*_: object) -> None:
            raise StoreFull("the disk")

        with monkeypatch.context() as full, pytest.raises(StoreFull):
            full.setattr(rl.store, "create", refuse)
            rl.session("job", resume=False)
        assert list(rl.sessions.list()) == before
        with rl.session("job", resume=False) as new:
            assert rl.sessions.get("job").id == new.id


def test_a_child_that_is_refused_is_not_recorded_as_spawned(world: Simulation) -> None:
    rl = world.start()
    with rl.session("parent") as s:
        before = s.head
        with pytest.raises(UsageError, match="secret"):
            s.spawn("kid", key=SECRET)
        assert s.head == before and s.children() == []


def test_an_archived_name_is_free_and_an_unarchived_one_is_not(world: Simulation) -> None:
    rl = world.start()
    write(rl, "job", "1")
    with pytest.raises(Conflict):
        rl.history.fork("job", name="job")
    rl.sessions.archive("job")
    first = rl.sessions.get("job").id
    with pytest.raises(NotResumable):
        rl.session("job")
    second = rl.history.fork("job", name="job").id
    assert (
        rl.sessions.get("job").id == second
        and rl.sessions.get(first).status == "archived"
        and rl.sessions.get(first).name is None
    )
    with rl.session("job") as s:
        assert s.id == second
        s.complete()
    rl.sessions.archive("job")
    with rl.session("job", resume=False) as s:
        s.append(user("3"))
    assert len({first, second, rl.sessions.get("job").id}) == 3
    rl.sessions.remove("job")
    with pytest.raises(Ambiguous) as caught:
        rl.sessions.remove("job")
    assert set(caught.value.candidates) == {first, second} and rl.sessions.find("job") is None
    rl.sessions.remove(second)
    assert rl.sessions.get("job").id == first, "found by its former name"


def test_the_last_archived_session_of_a_name_is_not_meant_more_than_those_before(world: Simulation) -> None:
    rl = world.start()
    ids = set()
    for _ in range(2):
        with rl.session("job", resume=False) as s:
            s.append(user("1"))
            s.complete()
        ids.add(s.id)
        rl.sessions.archive("job")
    for do in (rl.sessions.get, rl.sessions.remove, rl.history.load, rl.runs.plan):
        with pytest.raises(Ambiguous) as caught:
            do("job")
        assert set(caught.value.candidates) == ids
    assert {info.id for info in rl.sessions.list()} == ids
    rl.sessions.remove(ids.pop())
    assert rl.sessions.get("job").id in ids


def test_an_id_from_elsewhere_never_stands_before_a_name(world: Simulation) -> None:
    rl = world.start()
    mine = write(rl, "nightly", "1")
    rl.store.create(Identity(id="nightly", created_us=1), Head(session="nightly"))  # as an older bundle could bring it
    assert rl.sessions.get("nightly").id == mine
    with rl.session("nightly") as s:
        assert s.id == mine
    rl.sessions.remove("nightly")
    assert rl.sessions.get("nightly").id == "nightly"


ANY_SCRIPT = ["修复-登录", "عاجل.٢", "הדפסה_1", "मरम्मत", "ремонт", "Zoë", "می‌خواهم", "ねこ.7"]


def test_a_name_may_be_in_any_script_and_is_one_name_however_it_is_spelled(world: Simulation) -> None:
    rl = world.start()
    for name in ANY_SCRIPT:
        known = write(rl, name, "1")
        spelled = unicodedata.normalize("NFD", name)
        with rl.session(spelled) as s:
            assert (s.id, s.name) == (known, name)
            s.append({"role": "user", "content": name})
        assert rl.sessions.get(spelled).id == known
        for part in (name, spelled, name.upper()):
            assert known in [one.id for one in rl.sessions.list(search=part)], ascii(part)
            assert [hit.text for hit in rl.history.search(known, part).hits] == [f"user {name}"], ascii(part)
    with pytest.raises(Conflict):
        rl.history.fork("ремонт", name=unicodedata.normalize("NFD", "Zoë"))


@pytest.mark.parametrize(
    "name",
    [
        "",
        " a",
        "a b",
        "-a",
        "a/б",
        "a\u202eб",
        "\u200bб",
        "б\u200d",
        "б\u2066",
        "́б",
        "é" + "́" * 5,
        "б" * 101,
        "б\n",
        "😀",
        "\ud800б",
    ],
)
def test_a_name_that_cannot_be_read_or_typed_is_refused(world: Simulation, name: str) -> None:
    rl = world.start()
    with pytest.raises(InvalidName, match="not a valid session name"):
        rl.session(name)
    assert not list(rl.sessions.list())


def test_a_label_may_be_several_words_of_any_script(world: Simulation) -> None:
    rl = world.start()
    write(rl, "job", "1", "2")
    for label in ("before the move", "перед переездом", "引っ越し 前"):
        rl.history.label("job@2", label)
        assert rl.history.load(f"job@{unicodedata.normalize('NFD', label)}").seq == 2
    for label in ("two  spaces", " lead", "trail ", "tab\tbed", "12"):
        with pytest.raises(InvalidName):
            rl.history.label("job@2", label)


def test_an_error_shows_a_name_in_its_own_script_and_offers_a_valid_one() -> None:
    with relight.open("memory:") as rl:
        with pytest.raises(InvalidName) as refused:
            rl.session("שלום עולם")
        assert str(refused.value) == "not a valid session name: 'שלום עולם'"
        assert refused.value.hints == ("a valid name like it: שלום-עולם",)
        with pytest.raises(NotFound, match="no session matches '日本語'"):
            rl.sessions.get("日本語")
        with pytest.raises(InvalidName) as nothing_like_it:
            rl.session("🚀")
        assert nothing_like_it.value.hints == ()
        with pytest.raises(InvalidName, match=r"'a\\u202eb'"):  # a mark that changes the direction of text
            rl.session("a\u202eb")


def test_a_new_name_with_an_at_sign_is_told_why_it_is_no_name() -> None:
    with relight.open("memory:") as rl:
        with pytest.raises(NotFound) as unknown:
            rl.session("ada@example.com")
        rl.session("job").close()
        with pytest.raises(NotFound) as beyond:
            rl.session("job@99")
    for error in (unknown.value, beyond.value):
        assert "has no @" in error.hints[-1]
    assert beyond.value.evidence == ("it has @1 to @2",), "what a checkpoint is found among"
