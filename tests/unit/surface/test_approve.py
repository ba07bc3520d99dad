"""`approve=`: a call waits for a person before it begins; if its decision cannot be read, it does not run."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import relight
from relight.errors import StoreUnavailable, Waiting
from relight.stores.memory import MemoryStore
from relight.testing import Effects, ScriptedModel, crash_everywhere
from relight.testing.clock import ManualClock
from relight.values.step import Changes, Committed, Draft
from tests.support.calls import call


class Full(MemoryStore):
    """A store that has no room for this kind of step, or for this status."""

    refused = ""

    def commit(self, session: str, draft: Draft) -> Committed:
        if self.refused in (draft.kind, draft.status and draft.status.status):
            raise StoreUnavailable("the disk is full")
        return super().commit(session, draft)


class Bank:
    def __init__(self) -> None:
        self.paid: list[Any] = []
        self.seen: list[Any] = []

    def is_large(self, to: str, amount: Decimal = Decimal(1)) -> bool:
        self.seen.append(amount)
        return amount > 100

    @relight.tool(approve=is_large)
    def pay(self, to: str, amount: Decimal = Decimal(1)) -> str:
        self.paid.append((to, amount))
        return f"paid {to} {amount}"

    def run(self, rl: Any, **arguments: Any) -> Any:
        """What the model was told about its call of `pay`."""

        def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
            asks = messages[-1]["role"] == "user"
            text = str(messages[-1]["content"])
            return call("c1", "pay", json.dumps(arguments)) if asks else {"role": "assistant", "content": text}

        with rl.session("bank") as s:
            return s.run(model, tools=[self.pay], prompt="go")


def test_the_predicate_gets_converted_arguments_and_the_person_sees_all_that_the_model_passed() -> None:
    bank = Bank()
    with relight.open("memory:") as rl:
        assert bank.run(rl, to="ada", amount="99.5") == "paid ada 99.5"
        assert bank.seen == [Decimal("99.5")]
    bank = Bank()
    with relight.open("memory:") as rl:
        with pytest.raises(Waiting) as waiting:
            bank.run(rl, to="ada", amount="500")
        info = rl.sessions.get("bank")
        assert (info.status, info.in_doubt, bank.paid) == ("waiting", 0, [])
        assert 'approve pay: {"amount": "500", "to": "ada"}' in (info.question or "")
        assert waiting.value.hints[0] == "relight approve bank"
        rl.runs.approve("bank")
        assert bank.run(rl, to="ada", amount="500") == "paid ada 500"
        assert bank.seen == [Decimal(500)], "a decision counts before the predicate"


def test_wrong_arguments_are_told_to_the_model_and_nobody_is_asked() -> None:
    bank = Bank()
    with relight.open("memory:") as rl:
        assert "the argument 'amount' is wrong" in bank.run(rl, to="ada", amount="much")
    assert (bank.paid, bank.seen) == ([], [])


@pytest.mark.parametrize("refused", ["waiting", "intent"])
def test_where_the_question_or_the_intent_cannot_be_kept_nothing_runs(refused: str) -> None:
    bank, store = Bank(), Full(ManualClock())
    with relight.open(store) as rl:
        if refused == "intent":
            with pytest.raises(Waiting):
                bank.run(rl, to="ada", amount=500)
            rl.runs.approve("bank")
        store.refused = refused
        with pytest.raises(StoreUnavailable):
            bank.run(rl, to="ada", amount=500)
        assert bank.paid == []
        store.refused = ""
        if refused == "waiting":
            with pytest.raises(Waiting):
                bank.run(rl, to="ada", amount=500)
            rl.runs.approve("bank")
        assert bank.run(rl, to="ada", amount=500) == "paid ada 500"
    assert len(bank.paid) == 1, "the approval was not used up by the try that failed"


def test_a_decision_that_is_no_allowance_is_a_denial() -> None:
    bank = Bank()
    with relight.open("memory:") as rl:
        with pytest.raises(Waiting):
            bank.run(rl, to="ada", amount=500)
        asking = rl.sessions.get("bank").asking
        assert asking is not None
        with rl.session("bank") as s:  # as a later version, or a damaged store, might have it
            s._writer.record("mark", Changes(answer=["", "perhaps", asking.key]))
        assert "a person denied it" in bank.run(rl, to="ada", amount=500)
    assert bank.paid == []


class Clerk:
    """An agent that asks for two approvals in one reply and for one of them again in the next; a person decides."""

    def __init__(self, effects: Effects, decisions: str) -> None:
        self.effects, self.decisions = effects, decisions
        """what the person says to each question in turn: y or n"""
        self.model = ScriptedModel(
            [["Both.", {"pay": {"to": "ada"}}, {"look": {}}, {"wipe": {}}], [{"pay": {"to": "ada"}}], "Done."]
        )

    def tools(self) -> list[Any]:
        @relight.tool(approve=True)
        def pay(to: str) -> str:
            self.effects.add("paid")
            return "paid"

        @relight.tool(approve=True)
        def wipe() -> str:
            self.effects.add("wiped")
            return "wiped"

        @relight.tool
        def look() -> str:
            self.effects.add("looked")
            return "looked"

        return [pay, wipe, look]

    def run(self) -> Any:
        """Lives of the program, with a decision of the person after each question."""
        for _ in range(len(self.decisions) + 1):
            try:
                with relight.session("clerk") as s:
                    return s.run(self.model, tools=self.tools(), prompt="go")
            except Waiting:
                with relight.open() as rl:
                    self.decide(rl)
        raise AssertionError("asked more often than there are calls")

    def decide(self, rl: relight.Relight) -> None:
        calls = rl.history.load("clerk").calls
        asked = [one for one in calls if one.name in ("pay", "wipe")]
        decided = sum(one.result is not None for one in asked)
        if self.decisions[decided] == "y":
            rl.runs.approve("clerk")
        else:
            rl.runs.deny("clerk", reason=f"no {decided}")


@pytest.mark.parametrize("decisions", ["yyy", "ynn", "nyy", "nny"])
def test_each_of_several_approvals_holds_for_its_own_call_whatever_the_others_got(
    relight_store: relight.Relight, relight_effects: Effects, decisions: str
) -> None:
    assert Clerk(relight_effects, decisions).run() == "Done."
    calls = relight_store.history.load("clerk").calls
    assert [call.name for call in calls] == ["pay", "look", "wipe", "pay"], "results in the order asked"
    told = [call.success for call in calls if call.name != "look"]
    assert told == [one == "y" for one in decisions]
    happened = relight_effects.counts()
    assert happened == {
        what: n
        for what, n in zip(
            ("paid", "wiped", "looked"), (decisions[::2].count("y"), int(decisions[1] == "y"), 1), strict=True
        )
        if n
    }
    denied = [str(call.result) for call in calls if call.success is False]
    assert all(
        f"no {n}" in text for n, text in zip([i for i, d in enumerate(decisions) if d == "n"], denied, strict=True)
    )


def test_killed_between_several_approvals_nothing_is_asked_or_run_twice(
    relight_effects: Effects, sample: Callable[..., int]
) -> None:
    clerk = Clerk(relight_effects, "yny")
    report = crash_everywhere(
        clerk.run, effects=relight_effects, max_deaths=sample(12, proof=400, teeth=12), seconds=600
    )
    assert report.deaths
