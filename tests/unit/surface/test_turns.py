"""`s.run`, `s.turns` by hand, and `s.prompt`: the same loop, wherever the program dies."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import UsageError
from relight.ports import faults
from tests.support.simulation import Simulation
from tests.unit.sessions.test_loop import Scripted, asks

DIES_AT = ("commit.enter", "commit.committed", "tool.asked", "tool.intended", "tool.done", "tool.recorded")


class Died(BaseException):
    """The process ends at a fault point."""


def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    results = [one for one in messages if one["role"] == "tool"]
    return asks(len(results) + 1) if len(results) < 2 else {"role": "assistant", "content": f"{len(results)} done"}


def by_hand(s: relight.Session, tools: Any) -> Any:
    for turn in s.turns(tools, prompt="go"):
        reply = turn.reply(model(s.messages))
        for call in reply.calls:
            assert call.run().success
    return s.result


def test_turns_by_hand_and_run_record_the_same(world: Simulation) -> None:
    recorded = []
    for name in ("hand", "run"):
        with world.start().session(name) as s:
            tools = {"t": lambda: "r"}
            assert (by_hand(s, tools) if name == "hand" else s.run(model, tools=tools, prompt="go")) == "2 done"
        recorded.append([(step.kind, step.message_count) for step in world.start().history.checkpoints(name)])
    assert recorded[0] == recorded[1]


@pytest.mark.parametrize("point", DIES_AT)
def test_a_loop_by_hand_goes_on_after_a_death_at_any_point(point: str) -> None:
    for nth in range(1, 12):
        world, seen = Simulation(), 0

        def die(_: str, nth: int = nth) -> None:
            nonlocal seen
            seen += 1
            if seen == nth:
                raise Died

        tools = [relight.tool(effect="idempotent", name="t")(lambda: "r")]
        faults.arm(point, die)
        with suppress(Died):
            by_hand(world.start().session("a"), tools)
        faults.disarm()
        s = world.restart().session("a")
        assert by_hand(s, tools) == "2 done"
        assert [one["role"] for one in s.messages] == ["user", *["assistant", "tool"] * 2, "assistant"], (point, nth)
        if seen < nth:
            return


def test_open_calls_without_tools_are_an_error_before_the_model_is_asked(world: Simulation) -> None:
    with pytest.raises(UsageError, match="given no tools"), world.start().session("a") as s:
        for turn in s.turns(prompt="go"):
            turn.reply(model(s.messages))


def test_a_body_that_gives_no_reply_ends_at_the_turn_limit(world: Simulation) -> None:
    with world.start().session("a") as s:
        assert [turn.number for turn in s.turns(prompt="go", max_turns=3)] == [1, 2, 3]
        assert s.status == "halted"


def test_the_awaited_turns_are_the_same(tmp_path: Path) -> None:
    async def main() -> Any:
        async def tool() -> str:
            return "r"

        async with relight.aio.open(tmp_path / "a.db") as rl, await rl.session("a") as s:
            async for turn in s.turns({"t": tool}, prompt="go"):
                reply = await turn.reply(model(s.messages))
                for call in reply.calls:
                    assert (await call.run()).result == "r"
            return s.result

    assert asyncio.run(main()) == "2 done"


def test_a_prompt_is_said_once_and_another_text_is_a_new_turn(world: Simulation) -> None:
    with world.start().session("a") as s:
        assert s.prompt("one") is not None
        assert s.prompt("one") is None
        s.run(Scripted("first"))
    with world.restart().session("a") as s:
        assert (s.prompt("one"), s.is_finished) == (None, True)
        second = s.prompt("two")
        assert second is not None
        assert (second.seq, s.is_finished) == (s._recorder.head.seq, False)
        assert s.run(Scripted("second")) == "second"
        assert (s.prompt("x", id="1") is None, s.prompt("y", id="1")) == (False, None)
    assert [one["content"] for one in world.start().history.load("a").messages] == [
        "one",
        "first",
        "two",
        "second",
        "x",
    ]


def test_a_prompt_answers_open_calls_in_the_same_step(world: Simulation) -> None:
    with world.start().session("a") as s:
        s.prompt("one")
        s.append(asks(1))
        before = s._recorder.head.seq
        assert s.prompt("two") is not None
        assert (s._recorder.head.seq, s.pending_calls()) == (before + 1, [])
        assert [one["role"] for one in s.messages] == ["user", "assistant", "tool", "user"]
