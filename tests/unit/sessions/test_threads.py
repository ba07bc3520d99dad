"""Threads: on one session no gap and no duplicate, and no session disturbs another on the same store."""

from __future__ import annotations

from typing import Any

import relight
from tests.support.simulation import Simulation
from tests.support.threads import together

THREADS = 32


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_threads_on_one_session_leave_no_gap_and_no_duplicate(world: Simulation) -> None:
    each = 8
    reported: list[int] = []
    with world.start().session("a") as s:

        def act(number: int) -> None:
            for turn in range(each):
                checkpoint = s.append(user(f"{number}-{turn}"))
                assert checkpoint is not None
                reported.append(checkpoint.seq)

        together(THREADS, act)
        live = [message["content"] for message in s.messages]
    assert sorted(reported) == list(range(2, THREADS * each + 2))
    rl = world.restart()
    loaded = [message["content"] for message in rl.history.load("a").messages]
    assert loaded == live
    assert sorted(loaded) == sorted(f"{number}-{turn}" for number in range(THREADS) for turn in range(each))
    for number in range(THREADS):
        own = [text for text in loaded if text.startswith(f"{number}-")]
        assert own == [f"{number}-{turn}" for turn in range(each)], "a thread's own order is kept"
    assert rl.history.verify().ok


def test_threads_with_sessions_of_their_own_do_not_disturb_each_other(world: Simulation) -> None:
    rl = world.start()

    def act(number: int) -> None:
        with rl.session(f"s{number}") as s:
            for turn in range(10):
                s.append(user(f"{number}-{turn}"))
                s.state["turn"] = turn
            s.complete(number)

    together(THREADS, act)
    for number in range(THREADS):
        loaded = rl.history.load(f"s{number}")
        assert [message["content"] for message in loaded.messages] == [f"{number}-{turn}" for turn in range(10)]
        assert (loaded.result, loaded.state) == (number, {"turn": 9})
    assert rl.history.verify().ok


def test_threads_that_change_the_state_of_one_session_disturb_nobody(world: Simulation) -> None:
    with world.start().session("a") as s:

        def act(number: int) -> None:
            for turn in range(30):
                s.state[f"{number}-{turn}"] = turn
                s.append(user("x"))

        together(8, act)
        s.checkpoint()
    assert len(world.restart().history.load("a").state) == 8 * 30


def test_step_blocks_of_different_threads_do_not_mix(world: Simulation) -> None:
    with world.start().session("a") as s:

        def act(number: int) -> None:
            for _ in range(5):
                with s.batch():
                    s.append(user(f"{number} first"))
                    s.append(user(f"{number} second"))

        together(8, act)
    contents = [message["content"] for message in world.restart().history.load("a").messages]
    for first, second in zip(contents[::2], contents[1::2], strict=True):
        assert (first.split()[0], first.split()[1], second.split()[1]) == (second.split()[0], "first", "second")


def test_one_call_is_run_by_one_thread(world: Simulation) -> None:
    ran = []

    @relight.tool
    def t() -> str:
        ran.append(1)
        return "done"

    function = {"name": "t", "arguments": "{}"}
    with world.start().session("a") as s:
        s.append(user("go"))
        s.append({"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]})
        (call,) = s.pending_calls()

        def act(number: int) -> None:
            try:
                s.run_tool(call, [t])
            except relight.errors.UsageError:
                return  # somebody else is running it

        together(8, act)
        assert s.pending_calls() == []
    assert ran == [1]


def test_two_openers_of_one_name_make_one_session(world: Simulation) -> None:
    opened, refused = [], []

    def act(number: int) -> None:
        try:
            opened.append(world.start().session("a"))
        except relight.errors.Refused:
            refused.append(number)

    together(8, act)
    assert len(opened) == 1
    assert len(refused) == 7
    assert len(list(world.start().sessions.list())) == 1
