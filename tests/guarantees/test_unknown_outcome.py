"""G4: a commit whose outcome is unknown is resolved by the writer's own key, not guessed.

The connection is cut around COMMIT, before or after it took effect, and the questions that follow may go unanswered
too. Whatever the caller does then, a change that it gives again is there once, and one it was told of is there.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from relight.errors import LeaseLost, RelightError, StoreUnavailable
from relight.ports import faults
from relight.ports.store import Store
from relight.values.step import Committed, Draft
from tests.support.figures import Figure
from tests.support.simulation import Simulation


class CutLine:
    """A store behind a line that is cut by plan: one letter for each use of it.

    `.` goes through; `b` is cut before the store heard of it; `a` after the store had done it.
    """

    def __init__(self, store: Store, plan: str = "") -> None:
        self.store = store
        self.plan = list(plan)
        self.cuts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def commit(self, session: str, draft: Draft) -> Committed:
        return self._through(lambda: self.store.commit(session, draft))

    def find_commit(self, session: str, key: bytes, *, after: int) -> Committed | None:
        return self._through(lambda: self.store.find_commit(session, key, after=after))

    def _through(self, act: Any) -> Any:
        cut = self.plan.pop(0) if self.plan else "."
        if cut == "b":
            self.cuts += 1
            raise StoreUnavailable("cut before")
        answer = act()
        if cut == "a":
            self.cuts += 1
            raise StoreUnavailable("cut after")
        return answer


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages]


@pytest.mark.parametrize("plan", ["a", "b", "ab", "bb", "abb", "abbb", "bbbb", "aba", "abab", "babab", "aaaa", "bab"])
def test_a_message_given_again_after_an_unknown_outcome_is_there_once(world: Simulation, plan: str) -> None:
    line = CutLine(world.open_store())
    rl = world.start(line)
    with rl.session("a") as s:
        s.append(user("0"))
        line.plan = list(plan)
        for _ in range(10):
            try:
                s.append(user("1"))
                break
            except StoreUnavailable:
                continue
        s.append(user("2"))
        assert texts(s.messages) == ["0", "1", "2"]
    loaded = world.restart()
    assert texts(loaded.history.load("a").messages) == ["0", "1", "2"]
    assert loaded.sessions.get("a").message_count == 3
    assert loaded.history.verify().ok


def _drive(world: Simulation, rng: Random) -> tuple[int, list[str]]:
    """A writer behind a bad line who insists on each message; what it was told of, in order."""
    line = CutLine(world.open_store())
    rl = world.start(line)
    reported = []
    with rl.session("a") as s:
        for number in range(6):
            line.plan = rng.choices(".ab", weights=[2, 1, 1], k=rng.randint(0, 6))
            insists = rng.random() < 0.8
            for _ in range(20):
                try:
                    if rng.random() < 0.2:
                        s.state[f"k{number}"] = number
                    s.append(user(str(number)))
                    reported.append(str(number))
                    break
                except StoreUnavailable:
                    if not insists:
                        break
        line.plan = []
        s.append(user("last"))
        reported.append("last")
        assert texts(s.messages) == texts(rl.history.load("a").messages)
    return line.cuts, reported


def test_no_cut_around_a_commit_doubles_or_loses_a_step(sample: Any, figure: Figure) -> None:
    cuts = 0
    for seed in range(sample(200, proof=10_000, teeth=50)):
        world = Simulation(seed=seed)
        made, reported = _drive(world, Random(seed))
        cuts += made
        rl = world.restart()
        found = texts(rl.history.load("a").messages)
        assert len(found) == len(set(found)), f"seed {seed}: doubled {found}"
        assert [one for one in found if one in reported] == reported, f"seed {seed}: told {reported}, found {found}"
        assert rl.sessions.get("a").message_count == len(found), f"seed {seed}"
        assert rl.history.verify().ok
    figure("G4", f"{cuts} cuts around commits, 0 steps doubled, 0 acknowledged steps lost")


def test_a_verdict_of_unknown_outcome_is_given_once(world: Simulation) -> None:
    line = CutLine(world.open_store())
    rl = world.start(line)
    with rl.session("a") as s:
        s.append(user("0"))
        line.plan = list("ab")
        with pytest.raises(StoreUnavailable):
            s.complete("r")
        s.complete("r")
    kinds = [checkpoint.kind for checkpoint in world.start().history.checkpoints("a")]
    assert kinds == ["attempt", "message", "status"]


def test_an_unknown_opening_strands_nobody(world: Simulation) -> None:
    line = CutLine(world.open_store(), plan="ab")
    rl = world.start(line)
    with pytest.raises(StoreUnavailable):
        rl.session("a")
    with world.restart().session("a") as s:
        s.append(user("goes on"))


def test_a_writer_taken_over_while_its_outcome_was_unknown_is_refused(world: Simulation) -> None:
    """The step is in the journal, and so is the other owner: nothing more may be written under the old epoch."""
    line = CutLine(world.open_store())
    rl = world.start(line)
    s = rl.session("a", lease_seconds=5)
    line.plan = list("ab")
    with pytest.raises(StoreUnavailable):
        s.append(user("0"))
    world.time.advance(6)
    with world.start().session("a") as other:
        assert texts(other.messages) == ["0"]
        other.append(user("1"))
        for _ in range(2):
            with pytest.raises(LeaseLost):
                s.append(user("2"))
        other.append(user("3"))
    assert texts(world.start().history.load("a").messages) == ["0", "1", "3"]


def test_after_a_cut_inside_a_step_block_the_block_is_whole_or_absent(world: Simulation) -> None:
    for plan in ("a", "b", "ab", "bb"):
        line = CutLine(world.open_store())
        rl = world.start(line)
        name = f"s-{plan}"
        with rl.session(name) as s:
            line.plan = list(plan)
            try:
                with s.batch():
                    s.append(user("0"))
                    s.state["n"] = 1
            except RelightError:
                assert plan in ("b", "ab", "bb")
        loaded = world.start().history.load(name)
        assert (texts(loaded.messages), loaded.state) in ((["0"], {"n": 1}), ([], {})), plan


@pytest.mark.parametrize("point", ["commit.enter", "commit.begun", "commit.written", "commit.committed", "commit.told"])
def test_a_step_interrupted_anywhere_and_given_again_is_there_once(world: Simulation, point: str) -> None:
    """As by Ctrl-C, which a program may catch: the exception is nobody's answer, and may come on either side."""

    def interrupt(_: str) -> None:
        faults.disarm()
        raise KeyboardInterrupt

    with world.start().session("a") as s:
        for number in range(5):
            faults.arm(point, interrupt)
            try:
                with pytest.raises(KeyboardInterrupt):
                    s.append(user(str(number)))
            finally:
                faults.disarm()
            if texts(s.messages)[-1:] != [str(number)]:
                s.append(user(str(number)))
        assert texts(s.messages) == [str(number) for number in range(5)]
        assert s.once("k", lambda: 7) == 7
    rl = world.restart()
    assert texts(rl.history.load("a").messages) == [str(number) for number in range(5)]
    assert [one.seq for one in rl.history.checkpoints("a")] == list(range(1, rl.sessions.get("a").seq + 1))
    assert rl.history.verify().ok
