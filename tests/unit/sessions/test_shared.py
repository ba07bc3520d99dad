"""A session that several programs write to: their writes are put in a row, and none is lost, doubled or out of date."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import LeaseLost, NotFound, NotResumable, StoreUnavailable
from relight.journal.fold import Fold
from relight.library.facade import Relight
from relight.sessions.shared import SharedSession, Write
from relight.stores.memory import MemoryStore
from relight.testing.clock import ManualClock
from relight.values.status import StatusChange
from relight.values.step import Changes
from tests.guarantees.conftest import fork_server, memory_path
from tests.guarantees.test_unknown_outcome import CutLine
from tests.support.child_processes import ForkServer, lines_of
from tests.support.programs.joiner import AGENT

__all__ = ["fork_server", "memory_path"]

POINTS = ("commit.enter", "commit.begun", "commit.written", "commit.committed", "commit.told")
DONE = StatusChange(status="completed")


@pytest.fixture
def rl() -> Iterator[Relight]:
    with relight.open("memory:") as one:
        yield one


def says(text: str, ends: StatusChange | None = None) -> Callable[[Fold], Write]:
    return lambda fold: Write(changes=Changes(messages=[{"role": "user", "content": text}]), ends=ends)


def texts(rl: Relight, name: str = "talk") -> list[str]:
    return [message["content"] for message in rl.history.load(name).messages]


def test_writers_that_overtake_one_another_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    locations = [relight.open(tmp_path / "r.db") for _ in range(3)]
    writers = [location.sessions.shared("talk", agent=AGENT) for location in locations]
    for number in range(12):
        for me, shared in enumerate(writers):
            shared.write(says(f"{me}.{number}", DONE if number % 3 == me else None))
    assert texts(locations[0]) == [f"{me}.{number}" for number in range(12) for me in range(3)]
    assert locations[0].history.verify("talk").ok
    for location in locations:
        location.close()


def test_every_write_is_decided_on_the_state_it_is_added_to(tmp_path: Path) -> None:
    """Each adds one to the last number it sees; were one decided on an old state, a number would come twice."""
    locations = [relight.open(tmp_path / "r.db") for _ in range(3)]
    begin = threading.Barrier(6)
    failed: list[BaseException] = []

    def count(fold: Fold) -> Write:
        last = int(fold.messages[-1]["content"]) if fold.messages else 0
        return Write(changes=Changes(messages=[{"role": "user", "content": str(last + 1)}]))

    def work(shared: SharedSession) -> None:
        try:
            for _ in range(15):
                begin.wait()  # all at once, each time
                shared.write(count)
        except BaseException as error:
            failed.append(error)
            begin.abort()

    writers = [location.sessions.shared("talk", agent=AGENT) for location in locations]
    threads = [threading.Thread(target=work, args=(shared,)) for shared in writers for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert texts(locations[0]) == [str(number) for number in range(1, 91)]
    for location in locations:
        location.close()


def test_writes_of_one_program_come_in_the_order_they_were_asked_for(rl: Relight) -> None:
    shared = rl.sessions.shared("talk", agent=AGENT)
    asked = [shared.enqueue(says(str(number))) for number in range(20)]
    asked[19].wait()
    assert texts(rl) == [str(number) for number in range(20)]
    assert all(one.wait() is not None for one in asked)


@pytest.mark.crash
@pytest.mark.parametrize("fault", ["session.created:1", *(f"{one}:{nth}" for one in POINTS for nth in (1, 2, 3))])
def test_killed_anywhere_a_write_that_is_given_again_is_there_once(
    fault: str, memory_path: Path, fork_server: ForkServer
) -> None:
    store, reported = memory_path / "r.db", memory_path / "told"
    arguments: dict[str, Any] = {"store": store, "session": "talk", "me": "a", "count": 3, "reported": reported}
    assert fork_server.run("joiner", f"{fault}:kill", **arguments).was_killed
    acknowledged = [line.split()[0] for line in lines_of(reported)]
    with relight.open(store) as rl:
        there = texts(rl) if rl.sessions.find("talk") is not None else []
        assert there[: len(acknowledged)] == acknowledged
    child = fork_server.run("joiner", **arguments)
    assert child.wait() == 0, child.said
    with relight.open(store) as rl:
        assert texts(rl) == ["a.0", "a.1", "a.2"]
        assert rl.history.verify("talk").ok


@pytest.mark.parametrize("plan", ["a", "b", "aa", "ab", "ba", ".a", ".b", ".aa", "..a", "..ba", "aaaa"])
def test_a_write_of_unknown_outcome_that_is_given_again_is_there_once(plan: str) -> None:
    line = CutLine(MemoryStore(ManualClock()), plan)
    with relight.open(line) as rl:
        shared = rl.sessions.shared("talk", agent=AGENT)
        for text in ("one", "one more"):
            for _ in range(10):
                try:
                    shared.write(says(text))
                    break
                except StoreUnavailable:
                    continue
        assert texts(rl) == ["one", "one more"]
    assert line.cuts == len(plan) - plan.count(".")


def test_the_list_shows_who_wrote_last_and_that_a_session_rests(rl: Relight) -> None:
    one, other = rl.sessions.shared("talk", agent=AGENT), rl.sessions.shared("talk", agent=AGENT)
    one.write(says("a"))
    assert rl.sessions.get("talk").status == "working"
    other.write(says("b"))
    one.write(says("c", DONE))
    info = rl.sessions.get("talk")
    assert (info.status, info.evidence, info.attempt, info.message_count) == ("completed", [], 1, 3)
    other.write(says("d"))
    assert rl.sessions.get("talk").status == "working"
    other.close()
    assert (rl.sessions.get("talk").status, rl.sessions.get("talk").reason) == ("terminated", "left")
    other.write(says("e", DONE))
    assert (rl.sessions.get("talk").status, rl.sessions.get("talk").attempt) == ("completed", 2)
    waits = StatusChange(status="waiting", question="well?")
    one.write(says("f", waits))
    assert (rl.sessions.get("talk").status, rl.sessions.get("talk").question, rl.sessions.get("talk").attempt) == (
        "waiting",
        "well?",
        2,
    )


def test_a_program_that_opened_it_for_itself_is_told_that_it_was_overtaken(rl: Relight) -> None:
    with pytest.raises(LeaseLost), rl.session("talk", agent=AGENT) as alone:
        alone.append({"role": "user", "content": "mine"})
        rl.sessions.shared("talk", agent=AGENT).write(says("ours"))
        alone.append({"role": "user", "content": "late"})
    assert texts(rl) == ["mine", "ours"]


def test_a_session_of_another_kind_is_not_written_to(rl: Relight) -> None:
    with rl.session("talk", agent="mine") as s:
        s.append({"role": "user", "content": "hello"})
    with pytest.raises(NotResumable, match="a session of mine, not of joiner"):
        rl.sessions.shared("talk", agent=AGENT).write(says("intruder"))
    assert texts(rl) == ["hello"]


def test_a_late_write_does_not_bring_a_removed_session_back(rl: Relight) -> None:
    one, other = rl.sessions.shared("talk", agent=AGENT), rl.sessions.shared("talk", agent=AGENT)
    one.write(says("a"))
    other.write(says("b"))
    assert one.drop() is True
    for late in (one, other, one, other):
        with pytest.raises(NotFound, match="talk"):
            late.write(says("late"))
    assert rl.sessions.find("talk") is None
    assert other.read(lambda fold, head: 1) is None
    other.write(says("a new one"))
    assert texts(rl) == ["a new one"]
    assert rl.sessions.shared("nobody", agent=AGENT).drop() is False


def test_a_removal_on_a_condition_leaves_what_somebody_added_meanwhile(rl: Relight) -> None:
    one, other = rl.sessions.shared("talk", agent=AGENT), rl.sessions.shared("talk", agent=AGENT)
    one.write(says("a", DONE))

    def is_empty(fold: Fold) -> bool:
        other.write(says("b", DONE))  # between the look and the removal
        return len(fold.messages) < 2

    assert one.drop(only_if=is_empty) is False
    assert texts(rl)[:2] == ["a", "b"]


def test_a_rewind_from_outside_is_what_the_next_write_stands_on(rl: Relight) -> None:
    shared = rl.sessions.shared("talk", agent=AGENT)
    first = shared.write(says("a", DONE))
    shared.write(says("b", DONE))
    assert first is not None
    rl.history.rewind(first.id)
    assert shared.read(lambda fold, head: len(fold.messages)) == 1
    shared.write(says("c", DONE))
    assert texts(rl) == ["a", "c"]


def test_what_decides_may_refuse_and_nothing_is_written(rl: Relight) -> None:
    shared = rl.sessions.shared("talk", agent=AGENT)

    def refuse(fold: Fold) -> Write:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        shared.write(refuse)
    shared.write(says("a"))
    assert texts(rl) == ["a"]
    assert isinstance(shared, SharedSession)
