"""A long thread is listed from its pages: few steps are read, what is used is verified, and nothing else changes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest
from langgraph.checkpoint.memory import InMemorySaver

import relight
from relight.errors import Corrupt, ThreadGone
from relight.frameworks.langgraph import RelightSaver
from relight.frameworks.langgraph.index import PAGE_RECORDS
from relight.frameworks.langgraph.records import is_paged
from tests.integration.frameworks.conftest import Open
from tests.integration.frameworks.langgraph.graphs import checkpoint, config, put
from tests.support.figures import Figure

LONG = 2 * PAGE_RECORDS + 90
SECRET = "sk-ant-api03-" + "Zq8vN3xK" * 5
KEY = b"0123456789abcdef" * 2


def long_thread(saver: Any, thread: str = "t", checkpoints: int = LONG) -> list[Any]:
    """Checkpoints with a list that grows and a value that seldom changes; their configs."""
    made: list[Any] = []
    at = config(thread)
    words: list[str] = []
    for number in range(1, checkpoints + 1):
        words = [*words, f"word {number}"]
        at = put(saver, at, {"words": words, "tens": number // 10}, number)
        made.append(at)
    saver.close()
    return made


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    path = tmp_path_factory.mktemp("long") / "r.db"
    with relight.open(path) as rl:
        return path, long_thread(RelightSaver(rl))


@pytest.fixture
def made(written: tuple[Path, list[Any]], tmp_path: Path) -> list[Any]:
    """The store of `place` has a long thread; the configs of its checkpoints."""
    shutil.copy(written[0], tmp_path / "r.db")
    return list(written[1])


def outlines(saver: Any, thread: str = "t") -> list[Any]:
    return [(one.config, one.parent_config) for one in saver.list({"configurable": {"thread_id": thread}})]


def words_of(saver: Any, at: Any) -> list[str]:
    found = saver.get_tuple(at)
    assert found is not None
    return list(found.checkpoint["channel_values"]["words"])


def pages_of(rl: Any, thread: str = "t") -> list[int]:
    saver = RelightSaver(rl)
    list(saver.list(config(thread)))
    ledger: Any = saver._thread(thread)._ledger
    return [entry.seq for entry in ledger.read_all().entries if is_paged(entry.data)]


def counted(rl: Any, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> int:
    """The steps that are read from the store meanwhile."""
    steps, read = rl.store.steps, 0

    def counting(*given: Any, **named: Any) -> Any:
        nonlocal read
        for step in steps(*given, **named):
            read += 1
            yield step

    with monkeypatch.context() as patch:
        patch.setattr(rl.store, "steps", counting)
        act()
    return read


# -- the same as without -------------------------------------------------------------------------------------------


def test_a_thread_with_branches_namespaces_and_late_writes_is_the_same_to_who_reads_it_anew(fresh: Open) -> None:
    chance, rl = random.Random(21), fresh()
    ours, plain = RelightSaver(rl), InMemorySaver()
    made: dict[str, list[tuple[Any, list[Any]]]] = {ns: [(config("t", ns=ns), [])] for ns in ("", "child")}
    for number in range(500):
        ns = "child" if chance.random() < 0.2 else ""
        at, before = made[ns][-1] if chance.random() < 0.9 else chance.choice(made[ns])
        cut = chance.randrange(len(before) + 1) if chance.random() < 0.05 else len(before)
        value = [*before[:cut], number]
        one = checkpoint({"list": value, "same": "x", "tens": number // 10}, number + 1)
        new = dict.fromkeys(one["channel_versions"], number + 1)
        late = chance.choice(made[ns][1:] or [(None, [])])[0]
        for saver in (ours, plain):
            saver.put(at, one, {"source": "loop", "step": number}, new)  # type: ignore[arg-type]
            if late is not None and number % 3 == 0:
                saver.put_writes(late, [("list", number), ("__error__", number)], f"task {number % 2}")
        made[ns].append((config("t", one["id"], ns), value))
    ours.close()
    assert pages_of(rl)
    theirs = list(plain.list({"configurable": {"thread_id": "t"}}))
    for reader in (RelightSaver(rl), ours):
        rows = {(row.config["configurable"]["checkpoint_ns"], row.checkpoint["id"]): row for row in
                reader.list({"configurable": {"thread_id": "t"}})}  # fmt: skip
        assert len(rows) == len(theirs) == 500
        for one in chance.sample(theirs, 120):
            row = rows[one.config["configurable"]["checkpoint_ns"], one.checkpoint["id"]]
            whole = reader.get_tuple(one.config)
            assert whole is not None
            for mine in (row, whole):
                assert (mine.config, mine.parent_config, mine.metadata) == (one.config, one.parent_config, one.metadata)
                assert mine.checkpoint == one.checkpoint
                assert sorted(mine.pending_writes or [], key=repr) == sorted(one.pending_writes or [], key=repr)
    backwards = RelightSaver(rl)
    for one in reversed(theirs):
        found = backwards.get_tuple(one.config)
        assert found is not None and found.checkpoint == one.checkpoint


def test_a_list_in_a_new_program_reads_the_pages_and_what_is_behind_the_last(
    location: Open, made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rl = location()
    saver = RelightSaver(rl)
    assert counted(rl, monkeypatch, lambda: outlines(saver)) < PAGE_RECORDS
    assert [one for one, _ in outlines(saver)] == made[::-1]
    assert [one for _, one in outlines(saver)] == [*made[:-1][::-1], None]
    early = counted(rl, monkeypatch, lambda: words_of(saver, made[9]))
    assert 0 < early < PAGE_RECORDS + 10
    assert counted(rl, monkeypatch, lambda: words_of(saver, made[10])) == 0
    assert words_of(saver, config("t")) == [f"word {number}" for number in range(1, LONG + 1)]


def test_pages_grow_with_the_thread_and_not_faster(location: Open, made: list[Any]) -> None:
    rl = location()
    pages = pages_of(rl)
    assert [later - sooner for sooner, later in pairwise(pages)] == [PAGE_RECORDS + 1]
    sizes = {one.seq: one.size_bytes for one in rl.history.checkpoints("t")}
    assert max(sizes[seq] for seq in pages) < 50 * PAGE_RECORDS
    assert len(made) == LONG


def test_a_thread_without_pages_is_read_whole_and_gets_one_with_its_next_checkpoint(
    location: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    rl = location()
    monkeypatch.setattr("relight.frameworks.langgraph.index.PAGE_RECORDS", 10**9)
    made = long_thread(RelightSaver(rl))
    monkeypatch.undo()
    assert pages_of(rl) == []
    assert [one for one, _ in outlines(RelightSaver(rl))] == made[::-1]
    writer = RelightSaver(rl)
    put(writer, made[-1], {"words": ["on"]}, 999)
    writer.close()
    assert len(pages_of(rl)) == 1
    reader = RelightSaver(rl)
    assert counted(rl, monkeypatch, lambda: outlines(reader)) < 100
    assert words_of(reader, made[-1])[-1] == f"word {LONG}"


def test_a_program_that_reads_by_pages_writes_on_and_the_next_reads_by_all_of_them(
    location: Open, made: list[Any]
) -> None:
    for round in range(2):
        saver = RelightSaver(location())
        words = words_of(saver, config("t"))
        saver.put_writes(made[3], [("words", f"late {round}")], f"task {round}")
        for number in range(PAGE_RECORDS):
            words = [*words, f"round {round}"]
            made.append(put(saver, made[-1], {"words": words}, 1000 * (round + 1) + number))
        saver.close()
    rl = location()
    assert len(pages_of(rl)) == 4 - (LONG < 2 * PAGE_RECORDS + 2)
    reader = RelightSaver(rl)
    (early,) = reader.list(made[3])
    assert early.pending_writes == [(f"task {round}", "words", f"late {round}") for round in range(2)]
    assert [one for one, _ in outlines(reader)] == made[::-1]
    assert words_of(reader, config("t")) == words
    assert rl.history.verify("t").ok


# -- rewound, forked, copied, pruned, deleted ----------------------------------------------------------------------


def test_rewound_behind_a_page_and_gone_on_only_what_is_visible_is_listed(location: Open, made: list[Any]) -> None:
    rl = location()
    second = pages_of(rl)[1]
    rl.history.rewind(f"t@{second - 20}")
    kept = made[: len(made) - (LONG + 1 - (second - 20))]
    assert [one for one, _ in outlines(RelightSaver(rl))] == kept[::-1]
    saver = RelightSaver(rl)
    at = kept[-1]
    for number in range(60):
        at = put(saver, at, {"words": [f"other {number}"]}, 5000 + number)
        kept.append(at)
    saver.close()
    assert len(pages_of(rl)) == 2 and pages_of(rl)[1] > second
    reader = RelightSaver(rl)
    assert [one for one, _ in outlines(reader)] == kept[::-1]
    assert len(words_of(reader, kept[PAGE_RECORDS + 50])) == PAGE_RECORDS + 51
    assert words_of(reader, config("t")) == ["other 59"]


@pytest.mark.parametrize("back", [-3, 3])
def test_rewound_across_a_page_or_just_behind_it_nothing_that_was_left_is_seen(fresh: Open, back: int) -> None:
    rl = fresh()
    made = long_thread(RelightSaver(rl), checkpoints=PAGE_RECORDS + 10)
    (page,) = pages_of(rl)
    rl.history.rewind(f"t@{page + back}")
    kept = made[: page + back - 1]
    reader = RelightSaver(rl)
    assert [one for one, _ in outlines(reader)] == kept[::-1]
    assert words_of(reader, config("t"))[-1] == f"word {len(kept)}"


def test_forks_copies_and_what_is_imported_are_whole(location: Open, made: list[Any], tmp_path: Path) -> None:
    rl = location()
    saver = RelightSaver(rl)
    newest = [f"word {number}" for number in range(1, LONG + 1)]
    fork = rl.history.fork("t").id
    saver.copy_thread("t", "copy")
    rl.history.export("t", tmp_path / "bundle", key=KEY)
    with relight.open(tmp_path / "other.db") as other:
        other.history.import_(tmp_path / "bundle", key=KEY)
        assert words_of(RelightSaver(other), config("t")) == newest
    for thread in (fork, "copy"):
        reader = RelightSaver(rl)
        assert len(outlines(reader, thread)) == LONG
        assert words_of(reader, config(thread)) == newest
        at = config(thread, made[-1]["configurable"]["checkpoint_id"])
        put(reader, at, {"words": [*newest, "on"]}, 999)
        reader.close()
        again = RelightSaver(rl)
        assert len(outlines(again, thread)) == LONG + 1
        assert words_of(again, config(thread)) == [*newest, "on"]


def test_a_thread_whose_secret_stayed_behind_is_whole_and_has_pages_again_once_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digests are others now, so that its pages lead nowhere."""
    with relight.open(tmp_path / "r.db") as rl:
        saver = RelightSaver(rl)
        secret = put(saver, config("t"), {"words": [SECRET]})
        made = [secret, *long_thread(saver)]
        exported = rl.history.export("t", tmp_path / "bundle", key=KEY)
        assert exported.redacted == 1
    with relight.open(tmp_path / "other.db") as rl:
        rl.history.import_(tmp_path / "bundle", key=KEY)
        saver = RelightSaver(rl)
        assert [one for one, _ in outlines(saver)] == made[::-1]
        assert len(words_of(saver, config("t"))) == LONG
        made.append(put(saver, made[-1], {"words": ["on"]}, 999))
        saver.close()
        reader = RelightSaver(rl)
        assert counted(rl, monkeypatch, lambda: outlines(reader)) < 100
        assert [one for one, _ in outlines(reader)] == made[::-1]
        assert SECRET not in words_of(reader, secret)


def test_a_copy_is_listed_by_a_page_of_its_own(
    location: Open, made: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rl = location()
    saver = RelightSaver(rl)
    saver.put_writes(made[3], [("words", "late")], "task")
    saver.close()
    RelightSaver(rl).copy_thread("t", "copy")
    reader = RelightSaver(rl)
    assert counted(rl, monkeypatch, lambda: outlines(reader, "copy")) < 100
    found = reader.get_tuple(config("copy", made[3]["configurable"]["checkpoint_id"]))
    assert found is not None and found.pending_writes == [("task", "words", "late")]
    RelightSaver(rl).prune(["copy"])
    left = RelightSaver(rl)
    assert len(outlines(left, "copy")) == 1 and len(words_of(left, config("copy"))) == LONG


def test_rows_that_were_listed_do_not_become_those_of_a_thread_begun_anew(location: Open, made: list[Any]) -> None:
    reader, other = RelightSaver(location()), RelightSaver(location())
    rows = list(reader.list(config("t")))
    other.delete_thread("t")
    long_thread(other, checkpoints=5)
    assert len(outlines(reader)) == 5
    for row in (rows[-3], rows[0]):
        with pytest.raises(ThreadGone):
            row.checkpoint["channel_values"]["words"]
    assert len(rows[0].checkpoint["channel_versions"]) == 2


@pytest.mark.parametrize("how", ["load", "filter", "runs"])
def test_a_thread_that_is_deleted_while_it_is_read_is_not_there(
    location: Open, made: list[Any], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    rl, other = location(), RelightSaver(location())
    reader = RelightSaver(rl)
    assert len(outlines(reader)) == LONG
    steps = rl.store.steps

    def too_late(*given: Any, **named: Any) -> Any:
        other.delete_thread("t")
        return steps(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(rl.store, "steps", too_late)
        if how == "load":
            assert reader.get_tuple(made[5]) is None
        elif how == "filter":
            assert list(reader.list(config("t"), filter={"step": 5})) == []
        else:
            reader.delete_for_runs(["run"])
    assert outlines(reader) == [] and list(rl.sessions.list()) == []


# -- damage --------------------------------------------------------------------------------------------------------


def _flip(path: Path, seq: int, column: str, bit: int) -> Callable[[], None]:
    """Flip a bit of a step; what puts it back."""
    table, key, name = ("bodies", "body", "data") if column == "body" else ("steps", "id", "digest")
    connection = apsw.Connection(str(path))
    row: Any = connection.execute(f"SELECT {key} FROM steps WHERE seq = ?", (seq,)).fetchone()
    found: Any = connection.execute(f"SELECT {name} FROM {table} WHERE id = ?", (row[0],)).fetchone()
    data = bytearray(found[0])
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    write = f"UPDATE {table} SET {name} = ? WHERE id = ?"
    connection.execute(write, (bytes(data), row[0]))

    def back() -> None:
        connection.execute(write, (found[0], row[0]))
        connection.close()

    return back


@pytest.mark.guarantee("G5")
def test_a_flipped_bit_is_named_by_whatever_uses_the_step(
    tmp_path: Path, made: list[Any], figure: Figure, sample: Any
) -> None:
    path, chance = tmp_path / "r.db", random.Random(8)
    with relight.open(path) as rl:
        pages = pages_of(rl)
    last = LONG + 2
    locations = [*pages, *(page + 1 for page in pages), pages[-1] - 1, 2, last - 1]
    locations += [chance.randrange(2, last) for _ in range(sample(12, proof=600, teeth=3))]
    tried = unseen = 0
    for seq in locations:
        for column in ("body", "digest"):
            back = _flip(path, seq, column, chance.randrange(100_000))
            with relight.open(path) as rl:
                saver = RelightSaver(rl)
                try:
                    assert [one for one, _ in outlines(saver)] == made[::-1]
                except Corrupt as error:
                    assert (error.seq, error.offered) == (seq, f"t@{seq - 1}")
                else:
                    assert seq not in pages and seq < pages[-1]
                    unseen += 1
                with pytest.raises(Corrupt) as found:
                    words_of(saver, config("t"))
                assert (found.value.seq, found.value.offered) == (seq, f"t@{seq - 1}")
                assert "saver.recover('t')" in found.value.hints[0]
            back()
            tried += 1
    with relight.open(path) as rl:
        assert len(words_of(RelightSaver(rl), config("t"))) == LONG
    assert 0 < unseen < tried
    figure("G5", f"LangGraph: {tried} flips in a thread with pages, each named by what uses the step")


def test_after_damage_between_pages_the_thread_goes_on_from_before_it(tmp_path: Path, made: list[Any]) -> None:
    path = tmp_path / "r.db"
    with relight.open(path) as rl:
        seq = pages_of(rl)[0] + 40
    _flip(path, seq, "body", 77)
    with relight.open(path) as rl:
        saver = RelightSaver(rl)
        assert len(outlines(saver)) == LONG
        assert saver.recover("t") == made[seq - 3]
        at = made[seq - 3]
        for number in range(PAGE_RECORDS):
            at = put(saver, at, {"words": [str(number)]}, 2000 + number)
        saver.close()
        reader = RelightSaver(rl)
        assert len(outlines(reader)) == seq - 2 + PAGE_RECORDS
        assert words_of(reader, made[seq - 3])[-1] == f"word {seq - 2}"
