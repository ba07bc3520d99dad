"""The ready-made loop: what a crash leaves comes first, nothing is paid twice, and it ends for a reason it tells."""

from __future__ import annotations

from typing import Any

import pytest

import relight
from relight.errors import UsageError
from tests.support.simulation import Simulation


def asks(number: int, name: str = "t", arguments: str = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
    }


class Scripted:
    """Says its lines one after another, and counts."""

    def __init__(self, *lines: Any) -> None:
        self.lines = list(lines)
        self.asked = 0

    def __call__(self, messages: list[dict[str, Any]]) -> Any:
        self.asked += 1
        line = self.lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        return {"role": "assistant", "content": line} if isinstance(line, str) else line


class Overloaded(Exception):
    status_code = 529


class Refused(Exception):
    status_code = 401


def test_it_ends_with_the_last_text_and_its_usage(world: Simulation) -> None:
    model = Scripted(
        relight.Reply(asks(1), {"input_tokens": 5, "cost": 0.25}),
        relight.Reply([{"role": "assistant", "content": "done"}], relight.Usage(input_tokens=7, cost=0.5)),
    )
    with world.start().session("a") as s:
        assert s.run(model, tools={"t": lambda: "ok"}, prompt="go") == "done"
        assert (s.status, s.result) == ("completed", "done")
    usage = world.start().sessions.get("a").usage
    assert (usage.input_tokens, usage.cost) == (12, 0.75)


def test_transient_errors_are_tried_again_and_others_are_not(world: Simulation) -> None:
    model = Scripted(Overloaded(), TimeoutError(), ConnectionResetError(), "done")
    before = world.time.now_us()
    with world.start().session("a") as s:
        assert s.run(model, prompt="go") == "done"
    assert model.asked == 4
    assert world.time.now_us() - before > 3_000_000, "it did not back off"
    model = Scripted(Refused(), "never")
    with pytest.raises(Refused), world.start().session("b") as s:
        s.run(model, prompt="go")
    assert model.asked == 1
    info = world.start().sessions.get("b")
    assert info.status == "failed"
    assert info.reason == "Refused:"


def test_a_model_that_stays_down_fails_the_session_and_keeps_it(world: Simulation) -> None:
    with pytest.raises(Overloaded), world.start().session("a") as s:
        s.run(Scripted(*[Overloaded()] * 9), prompt="go", retry=relight.Retry(attempts=3))
    with world.restart().session("a") as s:
        assert s.run(Scripted("done"), prompt="go") == "done"
        assert [message["content"] for message in s.messages] == ["go", "done"]


def test_a_loop_that_goes_nowhere_is_halted_with_the_call_in_its_reason(world: Simulation) -> None:
    model = Scripted(*[asks(number, arguments='{"q": 1}') for number in range(50)])
    with world.start().session("a") as s:
        s.run(model, tools={"t": lambda q: "same"}, prompt="go", guard=relight.LoopGuard(repeats=4))
        assert s.status == "halted"
    info = world.start().sessions.get("a")
    assert "t({'q': 1})" in (info.reason or "")
    assert model.asked == 4


def test_the_same_call_with_other_results_is_no_loop(world: Simulation) -> None:
    results = iter(range(100))
    model = Scripted(*[asks(number) for number in range(8)], "done")
    with world.start().session("a") as s:
        assert s.run(model, tools={"t": lambda: next(results)}, prompt="go") == "done"


def test_the_turn_limit_halts_and_a_crash_gives_no_turns_again(world: Simulation) -> None:
    results = iter(range(100))
    tools = {"t": lambda: next(results)}
    s = world.start().session("a")
    with pytest.raises(KeyboardInterrupt):
        s.run(Scripted(asks(0), asks(1), KeyboardInterrupt()), tools=tools, prompt="go", max_turns=3)
    with world.restart().session("a") as s:
        s.run(Scripted(*[asks(n) for n in range(2, 9)]), tools=tools, prompt="go", max_turns=3)
        assert (s.status, s._recorder.head.turns) == ("halted", 3)
    with world.restart().session("a") as s:
        assert s.run(Scripted("done"), tools=tools, prompt="go", max_turns=9) == "done"


def test_usage_is_counted_once_over_resumes(world: Simulation) -> None:
    class Died(BaseException):
        pass

    def dies() -> None:
        raise Died

    s = world.start().session("a")
    with pytest.raises(Died):
        s.run(Scripted(relight.Reply(asks(1), {"input_tokens": 5})), tools={"t": dies}, prompt="go")
    with world.restart().session("a") as s:
        s.run(Scripted(relight.Reply({"role": "assistant", "content": "x"}, {"input_tokens": 7})),
                     tools={"t": dies}, prompt="go")  # fmt: skip
        assert s.usage.input_tokens == 12


def test_partial_results_are_there_again(world: Simulation) -> None:
    s = world.start().session("a")
    s.partial({"found": 3})
    with world.restart().session("a") as s:
        assert s.partial_result == {"found": 3}
    assert world.start().history.load("a").partial == {"found": 3}


def test_a_prompt_is_said_once_however_often_the_program_starts(world: Simulation) -> None:
    for _ in range(3):
        s = world.restart().session("a")
        with pytest.raises(KeyboardInterrupt):
            s.run(Scripted(KeyboardInterrupt()), prompt="go")
    assert [message["content"] for message in world.restart().history.load("a").messages] == ["go"]


def test_options_that_mean_nothing_are_refused(world: Simulation) -> None:
    with world.start().session("a") as s, pytest.raises(UsageError):
        s.run(Scripted("x"), in_doubt="guess")  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        relight.tool(effect="sometimes")  # type: ignore[call-overload]
    with pytest.raises(UsageError):
        relight.tool(effect="probe")(lambda: 1)


def test_a_death_between_the_last_reply_and_the_verdict_asks_for_no_other_reply(world: Simulation) -> None:
    s = world.start().session("a")
    for message in ({"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}):
        s.append(message)
    model = Scripted()
    with world.restart().session("a") as s:
        assert s.run(model, prompt="go") == "done"
        assert (s.status, model.asked) == ("completed", 0)
