"""A prompt with an id is asked once, whoever repeats it and when, and every repetition gets the same answer."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import relight
from relight.errors import LeaseHeld
from relight.ports import faults
from tests.support.calls import call
from tests.support.simulation import Simulation

Message = dict[str, Any]


class Counting:
    """A model that answers with what it was asked, and remembers it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, messages: list[Message]) -> Message:
        self.asked.append(messages[-1]["content"])
        return {"role": "assistant", "content": f"re: {messages[-1]['content']}"}


def say(rl: relight.Relight, model: Any, number: int, wait: float = 0) -> Any:
    with rl.session("chat", wait=wait) as s:
        return s.run(model, prompt=f"text {number}", prompt_id=f"r{number}")


def test_a_prompt_that_others_followed_gets_its_own_answer_again(world: Simulation) -> None:
    rl, model = world.start(), Counting()
    answers = [say(rl, model, number) for number in (1, 2, 3)]
    assert [say(rl, model, number) for number in (1, 2, 3)] == answers == ["re: text 1", "re: text 2", "re: text 3"]
    assert len(model.asked) == 3
    with rl.session("chat") as s:
        s.prompt("compact it", id="r4")
        s.replace([{"role": "user", "content": "short"}])
        assert s.run(model, prompt="text 1", prompt_id="r1") == "re: short", "hidden by a reset: the result"


def test_a_prompt_whose_turn_another_one_interrupted_gets_the_reply_that_followed(world: Simulation) -> None:
    """Its process died before it was answered, and the next request came before it was repeated."""

    def model(messages: list[Message]) -> Message:
        if messages[-1] == {"role": "user", "content": "text 1"}:
            return call("c1", "look")
        if messages[-1]["role"] == "tool":
            raise SystemExit  # the process ends here
        return {"role": "assistant", "content": f"re: {messages[-1]['content']}"}

    rl = world.start()
    with pytest.raises(SystemExit), rl.session("chat") as s:
        s.run(model, tools={"look": lambda: "seen"}, prompt="text 1", prompt_id="r1")
    assert [say(rl, model, number) for number in (2, 3)] == ["re: text 2", "re: text 3"]
    assert [say(rl, model, number) for number in (1, 2, 3)] == ["re: text 2", "re: text 2", "re: text 3"]


def test_a_prompt_that_another_process_gave_meanwhile_is_not_asked_again(world: Simulation) -> None:
    here, there, model = world.start(), world.start(), Counting()
    say(here, model, 1)
    with here.session("chat") as stale:  # finished: opened without a lease
        assert say(there, model, 2) == "re: text 2"
        assert stale.run(model, prompt="text 2", prompt_id="r2") == "re: text 2"
        assert stale.prompt("text 2", id="r2") is None
    assert model.asked == ["text 1", "text 2"]


def test_who_continues_a_finished_session_waits_for_another_who_does(tmp_path: Any) -> None:
    model, blocked, release = Counting(), threading.Event(), threading.Event()

    def slow(messages: list[Message]) -> Message:
        blocked.set()
        assert release.wait(60)
        return model(messages)

    with relight.open(tmp_path / "r.db") as rl, ThreadPoolExecutor(2) as pool:
        say(rl, model, 1)
        with rl.session("chat") as impatient, rl.session("chat", wait=60) as patient:
            first = pool.submit(say, rl, slow, 2)
            assert blocked.wait(60)
            with pytest.raises(LeaseHeld):
                impatient.run(model, prompt="text 2", prompt_id="r2")
            second = pool.submit(patient.run, model, prompt="text 2", prompt_id="r2")
            release.set()
            assert first.result(60) == second.result(60) == "re: text 2"
    assert model.asked == ["text 1", "text 2"]


def test_a_claim_that_the_end_of_the_turn_overtakes_gets_its_answer(tmp_path: Any) -> None:
    model = Counting()
    visits: list[int] = []
    with relight.open(tmp_path / "r.db") as rl:
        say(rl, model, 1)
        patient, dropped = rl.session("chat"), rl.session("chat")
        dropped.prompt("text 2", id="r2")
        del dropped  # its lease is abandoned, and may be claimed
        gc.collect()

        def overtake(_: str) -> None:
            visits.append(len(visits))
            if visits == [0, 1]:  # the first claim is of the session as the patient knew it
                faults.disarm()
                say(rl, model, 2)

        faults.arm("resume.planned", overtake)
        try:
            assert patient.run(model, prompt="text 2", prompt_id="r2") == "re: text 2"
        finally:
            faults.disarm()
    assert (model.asked, visits) == (["text 1", "text 2"], [0, 1])
