"""Asking a person: one answer for one asking, over restarts; approvals of one's own tools; questions with a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import Conflict, UsageError, Waiting
from relight.sessions.session import writer_of
from tests.support.simulation import Simulation
from tests.unit.sessions.test_loop import Scripted, asks


def ask(world: Simulation, question: str = "continue?", **options: Any) -> Any:
    """One life of a program that asks and commits what it was told; None where it waits."""
    reported: list[Any] = []
    with suppress(Waiting), world.restart().session("w") as s:
        reported.append(s.ask(question, **options))
        s.append({"role": "assistant", "content": f"heard {reported[0]}"})
    return reported[0] if reported else None


# -- s.ask --------------------------------------------------------------------------------------------------------


def test_an_answer_is_for_one_asking_and_the_same_text_later_is_a_new_question(world: Simulation) -> None:
    heard = []
    for number in range(3):
        assert ask(world) is None
        world.start().runs.send("w", f"answer {number}")
        heard.append(ask(world))
    assert heard == ["answer 0", "answer 1", "answer 2"]


def test_in_one_life_the_second_asking_is_a_new_question_too(world: Simulation) -> None:
    assert ask(world) is None
    world.start().runs.send("w", "yes")
    with world.restart().session("w") as s:
        assert s.ask("continue?") == "yes"
        with pytest.raises(Waiting):
            s.ask("continue?")
    info = world.start().sessions.get("w")
    assert (info.status, info.question) == ("waiting", "continue?")


def test_two_questions_in_a_row_are_asked_once_each(world: Simulation) -> None:
    heard: list[Any] = []
    for answer in ("red", "large", None):
        with suppress(Waiting), world.restart().session("w") as s:
            heard = [s.ask("which?"), s.ask("which?")]
        if answer is not None:
            assert (heard, world.start().sessions.get("w").question) == ([], "which?")
            world.start().runs.send("w", answer)
    assert heard == ["red", "large"]


def test_dying_between_answer_and_next_step_neither_asks_again_nor_loses_it_and_after_it_is_used(
    world: Simulation,
) -> None:
    assert ask(world) is None
    world.start().runs.send("w", "yes")
    for _ in range(3):
        assert world.restart().session("w").ask("continue?") == "yes"  # and dies before it commits anything
    s = world.restart().session("w")
    assert s.ask("continue?") == "yes"
    s.state["deployed"] = True
    s.checkpoint()  # the step that uses it; then it dies
    assert ask(world) is None


def test_a_key_makes_all_askings_under_it_one(world: Simulation) -> None:
    assert ask(world, key="k") is None
    world.start().runs.send("w", "yes")
    assert [ask(world, key="k"), ask(world, "in other words?", key="k")] == ["yes", "yes"]
    with world.restart().session("w") as s:
        s.replace([{"role": "user", "content": "a summary"}])
    assert ask(world, key="k") == "yes"
    assert ask(world, key="another") is None


def test_an_answer_that_nobody_asked_for_again_lapses_with_the_users_next_words(world: Simulation) -> None:
    assert ask(world, "pay?") is None
    world.start().runs.send("w", "yes")
    with world.restart().session("w") as s:
        s.append({"role": "user", "content": "Something else now"})
    assert ask(world, "pay?") is None


def test_only_a_choice_is_an_answer_at_the_door(world: Simulation) -> None:
    assert ask(world, choices=["yes", "no"]) is None
    rl = world.start()
    before = rl.sessions.get("w")
    assert before.asking is not None
    assert before.asking.choices == ["yes", "no"]
    for wrong in ("maybe", "", "Yes"):
        with pytest.raises(UsageError):
            rl.runs.send("w", wrong)
    assert rl.sessions.get("w").seq == before.seq
    rl.runs.send("w", "no")
    assert ask(world, choices=["yes", "no"]) == "no"


def test_the_default_is_the_answer_once_the_time_is_over_and_asking_again_gives_no_more_time(world: Simulation) -> None:
    assert ask(world, timeout=60, default="go on") is None
    wakes = world.start().sessions.get("w").wake_at
    world.time.advance(59)
    assert ask(world, timeout=60, default="go on") is None
    assert world.start().sessions.get("w").wake_at == wakes
    world.time.advance(2)
    assert ask(world, timeout=60, default="go on") == "go on"
    assert ask(world, timeout=60, default="go on") is None, "the next asking has a time of its own"
    world.start().runs.send("w", "wait")
    world.time.advance(100)
    assert ask(world, timeout=60, default="go on") == "wait", "an answer counts before the default was used"
    assert ask(world, timeout=60) is None
    world.time.advance(61)
    with pytest.raises(TimeoutError, match="no answer in time"):
        ask(world, timeout=60)


def test_an_answer_after_the_time_is_refused_and_the_default_counts(world: Simulation) -> None:
    assert ask(world, timeout=60, default="no") is None
    world.time.advance(61)
    with pytest.raises(Conflict, match="the time for an answer is over; the default, 'no', is the answer") as refused:
        world.start().runs.send("w", "yes")
    assert refused.value.hints == ("run your program again",), "relight did not start it"
    assert ask(world, timeout=60, default="no") == "no"


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": "1"},
        {"default": "x"},
        {"choices": "yes"},
        {"choices": []},
        {"choices": [1]},
        {"key": 3},
    ],
    ids=str,
)
def test_options_of_wait_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with Simulation().start().session("w") as s, pytest.raises(UsageError):
        s.ask("q", **options)


def test_what_010_filed_by_its_text_is_found_once(world: Simulation) -> None:
    from relight.values.status import StatusChange
    from relight.values.step import Changes

    with world.start().session("w") as s:
        change = StatusChange(status="waiting", reason="asks", question="continue?")
        writer_of(s).record("status", Changes(status=change), release=True)
    world.start().runs.send("w", "yes")
    assert [ask(world), ask(world)] == ["yes", None]


# -- approvals ----------------------------------------------------------------------------------------------------


class Bank:
    def __init__(self, approve: Any = True) -> None:
        self.paid: list[str] = []

        @relight.tool(approve=approve)
        def pay(to: str, amount: int = 1) -> str:
            self.paid.append(to)
            return f"paid {to}"

        self.tools = [pay]

    def run(self, world: Simulation, arguments: str = '{"to": "ada"}') -> Any:
        def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
            if messages[-1]["role"] == "user":
                return asks(1, "pay", arguments)
            return {"role": "assistant", "content": str(messages[-1]["content"])}

        with suppress(Waiting), world.restart().session("bank") as s:
            return s.run(model, tools=self.tools, prompt="go")
        return None


def test_a_call_waits_for_a_person_before_it_begins_and_runs_once_when_allowed(world: Simulation) -> None:
    bank = Bank()
    for _ in range(2):
        assert bank.run(world) is None
        info = world.start().sessions.get("bank")
        assert (info.status, info.in_doubt, bank.paid) == ("waiting", 0, [])
        assert (info.question or "").startswith('approve pay: {"to": "ada"} [c1 ')
        assert info.attention is not None
        assert info.attention.cure == "relight approve bank"
    with pytest.raises(Conflict, match="approve or deny"):
        world.start().runs.send("bank", "yes")
    world.start().runs.approve("bank")
    assert bank.run(world) == "paid ada"
    assert bank.run(world) == "paid ada"
    assert bank.paid == ["ada"]


def test_a_denial_is_an_error_for_the_model_with_its_reason(world: Simulation) -> None:
    bank = Bank()
    bank.run(world)
    world.start().runs.deny("bank", reason="not on a Friday")
    assert "not on a Friday" in bank.run(world)
    call = world.start().history.load("bank").calls[0]
    assert (call.success, call.effect, bank.paid) == (False, None, [])


def test_a_decision_is_for_one_call_with_exactly_its_arguments_and_used_with_the_intent(world: Simulation) -> None:
    bank = Bank()
    bank.run(world)
    first = world.start().sessions.get("bank").seq
    world.start().runs.approve("bank")
    rl = world.restart()
    rl.history.rewind(f"bank@{first - 3}")  # before the reply that asks
    with pytest.raises(Waiting), rl.session("bank") as s:
        s.run(Scripted(asks(1, "pay", '{"to": "eve"}')), tools=bank.tools)
    assert (rl.sessions.get("bank").status, bank.paid) == ("waiting", [])
    with pytest.raises(Waiting), world.start().session("again") as s:
        s.append(asks(1, "pay", '{"to": "ada"}'))
        s.run_tool(s.pending_calls()[0], bank.tools)
    world.start().runs.approve("again")
    with world.restart().session("again") as s:
        s.run_tool(s.pending_calls()[0], bank.tools)
        assert not s._recorder.fold.answered
        s.append(asks(1, "pay", '{"to": "ada"}'))
        with pytest.raises(Waiting):
            s.run_tool(s.pending_calls()[0], bank.tools)
    assert bank.paid == ["ada"]


def test_a_predicate_decides_by_the_arguments_and_one_that_fails_leaves_it_to_a_person(world: Simulation) -> None:
    assert Bank(lambda to, amount=1: amount > 100).run(world) == "paid ada"
    big = Bank(lambda to, amount=1: amount > 100)
    assert (big.run(Simulation(), '{"to": "ada", "amount": 1000}'), big.paid) == (None, [])
    broken = Bank(lambda **_: 1 / 0)
    assert (broken.run(Simulation()), broken.paid) == (None, [])
    with pytest.raises(UsageError, match="approve"):
        relight.tool(approve="always")  # type: ignore[call-overload]


def test_a_question_of_a_program_that_begins_like_an_approval_is_a_question(world: Simulation) -> None:
    assert ask(world, "approve the release?") is None
    rl = world.start()
    with pytest.raises(Conflict):
        rl.runs.approve("w")
    rl.runs.send("w", "yes")
    assert ask(world, "approve the release?") == "yes"


def test_ask_inside_a_tool_tells_its_author_and_leaves_no_doubt(world: Simulation) -> None:
    ran: list[int] = []
    s = world.start().session("a")

    def tool() -> None:
        ran.append(1)
        s.ask("sure?")

    with pytest.raises(UsageError, match=r"approve=True"), s:
        s.run(Scripted(asks(1), "never"), tools={"t": tool}, prompt="go")
    info = world.restart().sessions.get("a")
    assert (info.status, info.in_doubt) == ("failed", 0)
    with world.restart().session("a") as s:
        assert s.run(Scripted("done"), tools={"t": tool}, prompt="go") == "done"
    with world.restart().session("b") as s, pytest.raises(UsageError, match=r"approve=True"):
        s.once("k", lambda: s.ask("sure?"))
    assert ran == [1]


def test_the_awaited_form_asks_approves_and_says_prompts_alike(tmp_path: Path) -> None:
    paid: list[str] = []

    async def is_large(to: str) -> bool:
        return to == "ada"

    @relight.tool(approve=is_large)
    async def pay(to: str) -> str:
        paid.append(to)
        return f"paid {to}"

    async def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        said = messages[-1]
        return asks(len(messages), "pay", '{"to": "ada"}') if said["role"] == "user" else {**said, "role": "assistant"}

    async def live(prompt: str) -> None:
        async with relight.aio.open(f"sqlite:///{tmp_path}/a.db") as rl, await rl.session("a") as s:
            with suppress(Waiting):
                assert await s.ask("begin?", key="begin", choices=["yes"]) == "yes"
                await s.run(model, tools=[pay], prompt=prompt, prompt_id=prompt)

    with relight.open(f"sqlite:///{tmp_path}/a.db") as rl:
        asyncio.run(live("one"))
        rl.runs.send("a", "yes")
        for number, prompt in enumerate(["one", "two"], start=1):
            asyncio.run(live(prompt))
            assert (rl.sessions.get("a").status, len(paid)) == ("waiting", number - 1)
            rl.runs.approve("a")
            for _ in range(2):
                asyncio.run(live(prompt))
            assert (rl.sessions.get("a").status, len(paid)) == ("completed", number)
