"""`s.rewind`: an agent goes back by itself; and `s.messages` are copies."""

from __future__ import annotations

import time

import pytest

from relight.errors import UsageError
from relight.ports import faults
from tests.support.simulation import Simulation


def user(text: str) -> dict[str, object]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def test_conversation_and_state_go_back_and_effects_keep_their_outcome(world: Simulation) -> None:
    rl, ran = world.start(), []
    with rl.session("a") as s:
        s.state["tried"] = ["first"]
        here = s.append(user("one"))
        s.once("pay", lambda: ran.append(1))
        s.state["tried"].append("second")
        s.append(user("two"))
        s.state["tried"].append("not saved")
        back = s.rewind(here)
        assert (s.messages, dict(s.state), back.seq) == ([user("one")], {"tried": ["first"]}, s._recorder.head.seq)
        s.once("pay", lambda: ran.append(2))
        s.append(user("three"))
    assert ran == [1]
    assert rl.history.load("a").messages == [user("one"), user("three")]
    rl.history.undo("a")
    assert rl.history.verify("a").problems == []


def test_it_takes_a_checkpoint_a_label_or_a_seq_of_this_session(world: Simulation) -> None:
    with world.start().session("a") as s, world.start().session("b") as other:
        here = s.append(user("one"))
        s.checkpoint("good")
        for target, count in ((here, 1), ("good", 1), (here.seq, 1), (here.id, 1)):
            s.append(user("more"))
            s.rewind(target)
            assert len(s.messages) == count
        with pytest.raises(UsageError, match="another session"):
            s.rewind(other.append(user("x")))
        with pytest.raises(UsageError, match="batch"), s.batch():
            s.rewind(here)


@pytest.mark.parametrize("point", ["commit.enter", "commit.committed", "commit.told"])
def test_killed_around_a_rewind_it_is_done_or_not(world: Simulation, point: str) -> None:
    class Died(BaseException):
        pass

    def die(_: str) -> None:
        raise Died

    s = world.start().session("a")
    here = s.append(user("one"))
    s.append(user("two"))
    faults.arm(point, die)
    with pytest.raises(Died):
        s.rewind(here)
    faults.disarm()
    with world.restart().session("a") as s:
        assert len(s.messages) == (2 if point == "commit.enter" else 1)
        s.rewind(here)
        s.append(user("three"))
    assert world.start().history.load("a").messages == [user("one"), user("three")]


def test_messages_are_copies_and_cheap(world: Simulation) -> None:
    with world.start().session("a") as s:
        with s.batch():
            for number in range(4000):
                s.append(user(str(number)))
        s.messages[0]["content"][0]["cache_control"] = {"type": "ephemeral"}
        s.messages[1].clear()
        assert s.messages[:2] == [user("0"), user("1")]
        least = min(_seconds(lambda: s.messages) for _ in range(5))
        assert least < 0.1, f"{least:.3f} s"


def _seconds(work: object) -> float:
    """Of this process: another one's work is not counted."""
    began = time.process_time()
    assert callable(work)
    work()
    return time.process_time() - began
