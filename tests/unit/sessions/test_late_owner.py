"""An owner that was thought dead and writes between a look and a claim: the claim counts only for what was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from relight.errors import Conflict, LeaseHeld, NotResumable
from relight.ports import faults
from relight.sessions import opening
from tests.support.simulation import Simulation

LEASE = 30.0


@pytest.fixture
def at_the_claim() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Something happens once, when an opener has looked and not claimed yet."""

    def arm(act: Callable[[], object]) -> None:
        def once(_: str) -> None:
            faults.disarm()
            act()

        faults.arm("resume.planned", once)

    yield arm
    faults.disarm()


@pytest.mark.guarantee("G8")
def test_a_session_that_its_owner_completes_meanwhile_is_not_opened_again(
    world: Simulation, at_the_claim: Callable
) -> None:
    owner, other = world.start(), world.start()
    slow = owner.session("a", lease_seconds=LEASE)
    slow.append({"role": "user", "content": "hello"})
    world.time.advance(LEASE + 1)
    at_the_claim(lambda: slow.complete("done"))
    late = other.session("a")
    assert late.is_finished
    info = other.sessions.get("a")
    assert (info.status, info.attempt) == ("completed", 1)
    assert other.history.load("a").result == "done"


@pytest.mark.guarantee("G8")
def test_a_session_that_is_archived_meanwhile_is_refused(world: Simulation, at_the_claim: Callable) -> None:
    owner, other, third = world.start(), world.start(), world.start()
    slow = owner.session("a", lease_seconds=LEASE)
    slow.append({"role": "user", "content": "hello"})
    world.time.advance(LEASE + 1)

    def finish() -> None:
        slow.complete("done")
        third.sessions.archive("a")

    at_the_claim(finish)
    with pytest.raises(NotResumable, match="archived"):
        other.session("a")
    assert other.sessions.get("a").status == "archived"


@pytest.mark.guarantee("G8")
def test_an_owner_that_writes_meanwhile_keeps_its_session(world: Simulation, at_the_claim: Callable) -> None:
    owner, other = world.start(), world.start()
    slow = owner.session("a", lease_seconds=LEASE)
    slow.append({"role": "user", "content": "one"})
    world.time.advance(LEASE + 1)
    at_the_claim(lambda: slow.append({"role": "user", "content": "two"}))
    with pytest.raises(LeaseHeld):
        other.session("a")
    slow.append({"role": "user", "content": "three"})
    assert [one["content"] for one in other.history.load("a").messages] == ["one", "two", "three"]


@pytest.mark.guarantee("G8")
def test_one_that_left_meanwhile_is_continued_with_what_it_wrote(world: Simulation, at_the_claim: Callable) -> None:
    owner, other = world.start(), world.start()
    slow = owner.session("a", lease_seconds=LEASE)
    slow.append({"role": "user", "content": "one"})
    world.time.advance(LEASE + 1)

    def leave() -> None:
        slow.append({"role": "user", "content": "two"})
        slow.close()

    at_the_claim(leave)
    with other.session("a") as s:
        assert [one["content"] for one in s.messages] == ["one", "two"]


def test_an_operator_that_saw_less_is_told_and_writes_nothing(
    world: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, other = world.start(), world.start()
    slow = owner.session("a", lease_seconds=LEASE)
    slow.append({"role": "user", "content": "one"})
    world.time.advance(LEASE + 1)
    seen = opening.refuse_if_held

    def looked(*words: Any) -> bool:
        found = seen(*words)
        slow.complete("done")
        return found

    monkeypatch.setattr("relight.sessions.opening.refuse_if_held", looked)
    with pytest.raises(Conflict, match="wrote meanwhile"):
        other.runs.send("a", "go on")
    assert other.sessions.get("a").status == "completed"


def test_wait_is_also_for_a_session_that_others_take_each_time_before_this_one(world: Simulation) -> None:
    mine, others = world.start(), world.start()
    others.session("a").close()
    taken: list[int] = []

    def take(_: str) -> None:
        faults.disarm()
        with others.session("a"):
            taken.append(1)
        if len(taken) < 2 * opening.CLAIM_TRIES:
            faults.arm("resume.planned", take)

    try:
        faults.arm("resume.planned", take)
        with pytest.raises(Conflict, match="kept claiming"):
            mine.session("a")
        with mine.session("a", wait=30) as s:
            assert s.attempt == len(taken) + 2
    finally:
        faults.disarm()
