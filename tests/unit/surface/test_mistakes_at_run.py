"""Mistakes of a first program: told at once, with what to write instead, before anything is asked or saved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import UsageError
from relight.testing import ScriptedModel

CALLS: list[Any] = []


def look(x: int) -> str:
    return "seen"


def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    CALLS.append(messages)
    return {"role": "assistant", "content": "done"}


def in_batch(s: Any) -> None:
    with s.batch():
        s.run(model, prompt="a")


def turns_in_batch(s: Any) -> None:
    with s.batch():
        for turn in s.turns(prompt="a"):
            turn.reply(model(s.messages))


MISTAKES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a run in a batch": (in_batch, "cannot be part of a batch"),
    "turns in a batch": (turns_in_batch, "cannot be part of a batch"),
    "one tool instead of a list": (lambda s: s.run(model, tools=look, prompt="a"), "tools is a list of functions"),
    "a schema instead of a tool": (
        lambda s: s.run(model, tools=[relight.tool(look).schema("openai")], prompt="a"),
        "a tool must be a function, not dict",
    ),
    "a predicate of other parameters": (
        lambda s: s.run(model, tools=[relight.tool(approve=lambda amount: True)(look)], prompt="a"),
        "approve of 'look' is called with the tool's arguments: .*'amount'",
    ),
    "a probe of fewer parameters": (
        lambda s: s.run(model, tools={"look": relight.tool(effect="probe", probe=lambda: None)(look)}, prompt="a"),
        "probe of 'look' is called with the tool's arguments: .*'x'",
    ),
    "the name of a model": (lambda s: s.run("gpt-5", prompt="a"), "the model is a function of the messages, not str"),
    "a message as a prompt": (lambda s: s.prompt({"role": "user", "content": "a"}), "a prompt is a text"),
    "a message as the prompt of a run": (lambda s: s.run(model, prompt={"role": "user"}), "a prompt is a text"),
    "a number as a prompt": (lambda s: s.run(model, prompt=5), "a prompt is a text, not int"),
    "no list of tools": (lambda s: s.run(model, tools=5, prompt="a"), "tools is a list of functions, not int"),
    "no number of turns": (lambda s: s.run(model, prompt="a", max_turns=None), "max_turns is the number of replies"),
    "not one turn": (lambda s: s.run(model, prompt="a", max_turns=0), "max_turns is the number of replies"),
    "no retry": (lambda s: s.run(model, prompt="a", retry=None), r"retry is a relight\.Retry, not None"),
    "no guard": (lambda s: s.run(model, prompt="a", guard=None), r"guard is a relight\.LoopGuard, not None"),
    "no guard of turns": (lambda s: list(s.turns(prompt="a", guard=0)), r"guard is a relight\.LoopGuard, not 0"),
    "an effect that ran already": (lambda s: s.once("pay", look(1)), "once takes a function, not str"),
    "a question without a word": (lambda s: s.ask(" "), "the question is empty"),
    "no messages": (lambda s: s.replace(None), "replace takes a list of messages, not NoneType"),
    "blocks as a prompt": (lambda s: s.run(model, prompt=[{"type": "text"}]), "a prompt is a text, not list"),
    "a number of retries": (lambda s: s.run(model, prompt="a", retry=3), "retry is a relight.Retry, not 3"),
    "a result that is no JSON": (lambda s: s.complete(object()), "not storable at the result: object is not JSON"),
    "a part that is no JSON": (lambda s: s.partial({"a": object()}), "not storable at the partial result.a: object"),
    "an empty prompt": (lambda s: s.run(model, prompt=" "), "the prompt is empty"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_before_the_model_is_asked_and_anything_is_saved(mistake: str) -> None:
    do, said = MISTAKES[mistake]
    CALLS.clear()
    with relight.open("memory:") as rl, rl.session("a") as s:
        with pytest.raises(UsageError, match=said):
            do(s)
        assert (CALLS, s.messages, s.head.rpartition("@")[2]) == ([], [], "1")


class Till:
    def is_large(self, x: int) -> bool:
        return x > 1

    @relight.tool(effect="probe", probe=lambda x, idempotency_key: "paid", approve=is_large)
    def pay(self, x: int) -> str:
        return "paid"


@relight.tool(effect="probe", probe=lambda **arguments: None, approve=lambda x, y=1: False)
def charge(x: int, idempotency_key: str) -> str:
    return "paid"


def test_a_probe_or_predicate_may_take_the_key_more_than_the_tool_or_anything() -> None:
    script: Any = [[{"pay": {"x": 1}}, {"charge": {"x": 1}}], "done"]
    with relight.open("memory:") as rl, rl.session("a") as s:
        assert s.run(ScriptedModel(script), tools=[Till().pay, charge], prompt="a") == "done"
        assert [call.success for call in s.calls()] == [True, True]


def test_a_run_in_a_batch_is_refused_in_the_awaited_form_too() -> None:
    async def main() -> None:
        async with relight.aio.open("memory:") as rl, rl.session("a") as s, s.batch():
            with pytest.raises(UsageError, match="cannot be part of a batch"):
                await s.run(ScriptedModel(["x"]), prompt="a")

    asyncio.run(main())


def test_a_batch_inside_of_a_turn_is_one_step_with_its_reply() -> None:
    with relight.open("memory:") as rl, rl.session("a") as s:
        for turn in s.turns(prompt="a"):
            with s.batch():
                turn.reply(model(s.messages))
                s.state["turns"] = turn.number
        assert (s.result, dict(s.state)) == ("done", {"turns": 1})


def test_an_unknown_status_is_refused_instead_of_matching_nothing() -> None:
    with relight.open("memory:") as rl, pytest.raises(UsageError, match="no such status: 'asleep'"):
        list(rl.sessions.list(status="asleep"))  # type: ignore[arg-type]


@pytest.mark.parametrize("entry", ["submit", "start", "create"])
def test_a_command_in_one_text_is_refused_instead_of_taken_letter_by_letter(entry: str, tmp_path: Path) -> None:
    command: Any = "python a.py"
    options = relight.types.RunOptions(directory=".", agent="python")
    with relight.open(tmp_path / "r.db") as rl:
        with pytest.raises(UsageError, match="a command is a list of its words"):
            rl.queues.submit(command) if entry == "submit" else getattr(rl.runs, entry)(command, options)
        assert list(rl.sessions.list()) == []


def test_a_negative_limit_is_refused() -> None:
    with relight.open("memory:") as rl, pytest.raises(UsageError, match="limit is a number of sessions, not -1"):
        list(rl.sessions.list(limit=-1))
