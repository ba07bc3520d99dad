"""Plans of resume, rewind and fork name the open calls, keys of `once` and what is done about each."""

from __future__ import annotations

from typing import Any

import pytest

from relight.values.call import NOT_RUN_HERE
from tests.support.simulation import Simulation
from tests.unit.sessions.test_branch_effects import asked_seq, died, run_pending, tool_of
from tests.unit.sessions.test_effects import Bench, Died, asks, user


def test_plans_of_resume_rewind_and_fork_name_the_calls_and_what_is_done_about_each(world: Simulation) -> None:
    bench = Bench()
    rl = died(world, bench, tool_of(bench, "once"))
    at = asked_seq(rl)
    began = rl.history.load("a").calls[0].intent_seq

    def said(calls: list[Any]) -> list[tuple[str, str, str | None]]:
        return [(one.id, one.action, one.carried_from) for one in calls]

    unknown, here = [("c1", "tell_unknown", None)], [("c1", "not_run_here", None)]
    assert said(rl.runs.plan("a").calls) == said(rl.history.planned_calls(f"a@{at}", after="rewind")) == unknown
    assert said(rl.runs.plan(f"a@{at}").calls) == said(rl.history.planned_calls("a", after="fork")) == here
    assert rl.runs.plan(f"a@{at}").told == f"{NOT_RUN_HERE}a"
    rl.runs.settle("a", "c1", result="paid")
    settled = rl.history.load("a").calls[0].result_seq
    carried = [("c1", "carry", f"{rl.sessions.get('a').id}@{settled}")]
    for seq in (at, began):
        assert said(rl.history.planned_calls(f"a@{seq}", after="rewind")) == carried
        assert (
            said(rl.history.planned_calls(f"a@{seq}", after="fork")) == said(rl.runs.plan(f"a@{seq}").calls) == carried
        )
    assert rl.runs.plan("a").calls == rl.history.planned_calls("a", after="rewind") == []
    rl.history.rewind(f"a@{at}", again="c1")
    (call,) = rl.runs.plan("a").calls
    assert (call.action, call.key) == ("run", f"{bench.keys[0]}/2")
    assert rl.runs.plan("a").told is None


def test_plans_name_keys_of_once(world: Simulation) -> None:
    def dies() -> None:
        raise Died

    s = world.start().session("a")
    s.append(user("go"))
    s.once("paid", lambda: "receipt")
    with pytest.raises(Died):
        s.once("lost", dies)
    rl = world.restart()
    assert [(one.id, one.action) for one in rl.runs.plan("a").calls] == [("lost", "settle")]
    planned = rl.history.planned_calls("a@2", after="rewind")
    assert [(one.id, one.action, one.text[-2:]) for one in planned] == [
        ("paid", "carry", "@4"),
        ("lost", "settle", "@5"),
    ]
    assert rl.history.planned_calls("a@2", after="fork") == []


def test_effects_since_a_checkpoint_are_those_of_all_branches(world: Simulation) -> None:
    bench = Bench()
    tools = [tool_of(bench, "once"), tool_of(bench, "pure", "look")]
    rl = world.start()
    with rl.session("a") as s:
        s.append(user("go"))
    began = []
    for number in range(2):
        with rl.session("a") as s:
            s.append(asks((f"c{number}", "t"), (f"d{number}", "look")))
            run_pending(s, *tools)
            began.append(s.calls()[0].intent_seq)
            s.once(f"k{number}", lambda: None)
        rl.history.rewind("a@2")
    since = rl.history.effects_since("a", 2)
    assert since is not None
    assert [(one.id, one.effect, one.result) for one in since] == [
        ("c0", "once", "t done"),
        ("k0", "once", None),
        ("c1", "once", "t done"),
        ("k1", "once", None),
    ]
    assert [one.intent_seq for one in since if one.asked_seq] == began
    assert [one.id for one in rl.history.effects_since("a", began[1] or 0) or []] == ["k1"]
