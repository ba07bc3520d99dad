"""An effect belongs to the session's whole life: what ran on a branch that was left is not run again, nor forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import relight
from relight.errors import InDoubt, NotFound, UsageError
from relight.library.facade import Relight
from relight.sessions.session import Session
from relight.values.call import NOT_RUN, NOT_RUN_HERE, OUTCOME_UNKNOWN
from tests.support.simulation import Simulation
from tests.unit.sessions.test_effects import Bench, Died, asks, result, user


@pytest.fixture
def world() -> Iterator[Simulation]:
    made = Simulation()
    yield made
    made.close()


AT_MAX_ONCE = ("once", "probe")
EFFECTS = ("once", "probe", "idempotent", "pure")


def tool_of(bench: Bench, effect: str, name: str = "t") -> Any:
    return bench.tool(name, effect, **({"probe": lambda: None} if effect == "probe" else {}))


def asked_seq(rl: Relight, name: str = "a") -> int:
    """The step that asks for the first call."""
    return rl.history.load(name).calls[0].asked_seq


def run_pending(s: Session, *tools: Any) -> None:
    for call in s.pending_calls():
        s.run_tool(call, tools)


def finished(world: Simulation, bench: Bench, tool: Any) -> Relight:
    """A session "a" whose only call has run, and which is completed."""
    rl = world.start()
    with rl.session("a") as s:
        s.append(user("go"))
        s.append(asks(("c1", "t")))
        run_pending(s, tool)
        s.append({"role": "assistant", "content": "well"})
        s.complete("done")
    return rl


def died(world: Simulation, bench: Bench, tool: Any) -> Relight:
    """A session "a" whose process died inside its only call."""
    s = world.start().session("a")
    s.append(user("go"))
    s.append(asks(("c1", "t")))
    bench.dies = True
    with pytest.raises(Died):
        run_pending(s, tool)
    bench.dies = False
    return world.restart()


# -- rewinding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("steps_back", [0, 1], ids=["to the asking step", "to the intent"])
def test_a_call_that_ended_on_a_branch_that_was_left_is_carried_over(
    world: Simulation, effect: str, steps_back: int
) -> None:
    bench = Bench()
    tool = tool_of(bench, effect)
    rl = finished(world, bench, tool)
    ended = rl.history.load("a").calls[0].result_seq
    rl.history.rewind(f"a@{asked_seq(rl) + steps_back}")
    assert rl.sessions.get("a").in_doubt == 0
    with rl.session("a") as s:
        (call,) = s.pending_calls()
        assert not call.in_doubt
        ran = s.run_tool(call, [tool])
        assert s.messages[-1] == result("c1", "t done")
        if effect in AT_MAX_ONCE:
            assert (ran.carried_from, ran.effect) == (f"{s.id}@{ended}", effect)
    assert len(bench.ran) == (1 if effect in AT_MAX_ONCE else 2)
    assert len(set(bench.keys)) == 1
    (seen,) = world.restart().history.load("a").calls
    assert (seen.result, seen.effect, seen.success) == ("t done", effect, True)


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_call_begun_on_a_branch_that_was_left_is_in_doubt_here_too(world: Simulation, effect: str) -> None:
    bench = Bench()
    tool = tool_of(bench, effect)
    rl = died(world, bench, tool)
    rl.history.rewind(f"a@{asked_seq(rl)}")
    assert rl.sessions.get("a").in_doubt == 1
    (doubtful,) = rl.runs.plan("a").in_doubt
    assert (doubtful.id, doubtful.effect) == ("c1", effect)
    with rl.session("a") as s:
        (call,) = s.pending_calls()
        assert call.in_doubt
        s.run_tool(call, [tool])
        assert s.messages[-1] == result("c1", OUTCOME_UNKNOWN if effect == "once" else "t done")
    assert bench.ran == (["t"] if effect == "once" else ["t", "t"])
    assert len(set(bench.keys)) == 1
    assert world.restart().sessions.get("a").in_doubt == 0


def test_a_probe_is_asked_about_a_call_that_began_on_a_branch_that_was_left(world: Simulation) -> None:
    bench = Bench()
    tool = bench.tool("t", "probe", probe=lambda: "it was there")
    rl = died(world, bench, tool)
    rl.history.rewind(f"a@{asked_seq(rl)}")
    with rl.session("a") as s:
        run_pending(s, tool)
        assert s.messages[-1] == result("c1", "it was there")
    assert bench.ran == ["t"]


def test_a_loop_goes_on_after_a_rewind_with_what_was_paid_already(world: Simulation) -> None:
    bench = Bench()
    tool = tool_of(bench, "once", "pay")
    rl = world.start()

    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        return {"role": "assistant", "content": "paid"} if messages[-1]["role"] == "tool" else asks(("c1", "pay"))

    with rl.session("a") as s:
        s.run(model, tools=[tool], prompt="pay")
    for _ in range(3):
        rl.history.rewind(f"a@{asked_seq(rl)}")
        with rl.session("a") as s:
            assert s.run(model, tools=[tool], prompt="pay") == "paid"
    assert bench.ran == ["pay"]


def test_a_loop_told_to_wait_waits_for_a_call_in_doubt_on_a_branch_that_was_left(world: Simulation) -> None:
    bench = Bench()
    tool = tool_of(bench, "once")
    rl = died(world, bench, tool)
    rl.history.rewind(f"a@{asked_seq(rl)}")
    with pytest.raises(relight.Waiting), rl.session("a") as s:
        s.run(lambda _: {"role": "assistant", "content": "x"}, tools=[tool], in_doubt="wait")
    assert rl.sessions.get("a").status == "waiting"
    rl.runs.settle("a", "c1", result="paid")
    assert rl.sessions.get("a").status == "queued"
    assert bench.ran == ["t"]


def test_a_reply_that_comes_while_calls_are_open_records_what_is_known_of_them(world: Simulation) -> None:
    bench = Bench()
    tool = tool_of(bench, "once")
    rl = finished(world, bench, tool)
    rl.history.rewind(f"a@{asked_seq(rl)}")
    with rl.session("a") as s:
        s.append({"role": "assistant", "content": "I go on"})
        assert s.messages[-2] == result("c1", "t done")


def test_a_call_that_was_told_to_be_unknown_can_be_settled_after_a_rewind(world: Simulation) -> None:
    bench = Bench()
    tool = tool_of(bench, "once")
    rl = died(world, bench, tool)
    with rl.session("a") as s:
        run_pending(s, tool)
        s.append({"role": "assistant", "content": "hm"})
    rl.history.rewind(f"a@{asked_seq(rl)}")
    assert [call.id for call in rl.runs.plan("a").in_doubt] == ["c1"]
    rl.runs.settle("a", "c1", result="it went through")
    assert rl.history.load("a").messages[-1] == result("c1", "it went through")
    rl.history.rewind(f"a@{asked_seq(rl)}")
    with rl.session("a") as s:
        run_pending(s, tool)
        assert s.messages[-1] == result("c1", "it went through")
    assert bench.ran == ["t"]


def test_a_call_that_nobody_started_runs_after_a_rewind(world: Simulation) -> None:
    bench = Bench()
    tool = tool_of(bench, "once")
    rl = world.start()
    with rl.session("a") as s:
        s.append(user("go"))
        s.append(asks(("c1", "t"), ("c2", "nothing")))
        s.append({"role": "assistant", "content": "never mind"})
        assert s.messages[-2]["content"].endswith(NOT_RUN)
    rl.history.rewind(f"a@{asked_seq(rl)}")
    with rl.session("a") as s:
        run_pending(s, tool)
        assert s.messages[-2] == result("c1", "t done")
        assert s.messages[-1]["content"].startswith("[error] unknown tool")
    rl.history.rewind(f"a@{asked_seq(rl)}")
    with rl.session("a") as s:
        run_pending(s, tool, tool_of(bench, "once", "nothing"))
        assert s.messages[-1] == result("c2", "nothing done"), "what was refused before it began may begin"
    assert bench.ran == ["t", "nothing"]


def test_a_result_that_the_program_appended_itself_on_a_branch_that_was_left_counts(world: Simulation) -> None:
    bench = Bench()
    rl = world.start()
    with rl.session("a") as s:
        s.append(user("go"))
        s.append(asks(("c1", "t")))
        s.append(result("c1", "by hand"))
    rl.history.rewind(f"a@{asked_seq(rl)}")
    with rl.session("a") as s:
        run_pending(s, tool_of(bench, "once"))
        assert s.messages[-1] == result("c1", "by hand")
    assert bench.ran == []


def test_undo_and_redo_change_nothing_about_what_ran(world: Simulation) -> None:
    bench = Bench()
    tool = tool_of(bench, "once")
    rl = world.start()
    with rl.session("a") as s:
        s.append(user("go"))
        s.append(asks(("c1", "t")))
        s.checkpoint("asked")
    rl.history.rewind("a@asked")
    with rl.session("a") as s:
        run_pending(s, tool)
    for move in (rl.history.undo, rl.history.redo) * 2:
        move("a")
        with rl.session("a") as s:
            run_pending(s, tool)
            assert s.messages[-1] == result("c1", "t done")
    assert bench.ran == ["t"]


def test_compaction_keeps_what_is_known_of_calls_and_keys_outside_of_the_view(world: Simulation) -> None:
    bench = Bench()
    tool = tool_of(bench, "once")
    rl = finished(world, bench, tool)
    with rl.session("b") as s:
        s.append(user("b"))
        s.once("k", lambda: bench.ran.append("k"))
    rl.history.rewind(f"a@{asked_seq(rl)}")
    rl.history.rewind("b@2")
    for name in "ab":
        with rl.session(name) as s:
            s.replace([user("so far"), *s.messages[1:]])
    rl = world.restart()
    with rl.session("a") as s:
        run_pending(s, tool)
        assert s.messages[-1] == result("c1", "t done")
    with rl.session("b") as s:
        s.once("k", lambda: bench.ran.append("k"))
    assert bench.ran == ["t", "k"]


def test_a_call_that_ran_after_a_compaction_is_known_before_it(world: Simulation) -> None:
    bench = Bench()
    tool = tool_of(bench, "once")
    rl = world.start()
    with rl.session("a") as s:
        s.append(user("go"))
        s.append(asks(("c1", "t")))
        s.replace([user("so far"), asks(("c1", "t"))])
        run_pending(s, tool)
    rl.history.rewind("a@3")
    with rl.session("a") as s:
        run_pending(s, tool)
        assert s.messages[-1] == result("c1", "t done")
    assert bench.ran == ["t"]


# -- once ------------------------------------------------------------------------------------------------------------


def test_once_after_a_rewind_below_it_returns_what_was_recorded(world: Simulation) -> None:
    ran: list[int] = []

    def pay() -> str:
        ran.append(1)
        return "receipt"

    rl = world.start()
    with rl.session("a") as s:
        s.append(user("go"))
        assert s.once("pay", pay) == "receipt"
        s.append(user("more"))
    for _ in range(2):
        rl.history.rewind("a@2")
        with rl.session("a") as s:
            assert s.once("pay", pay) == "receipt"
    assert ran == [1]
    outcomes = [one for event in rl.history.events("a") for one in event.outcomes]
    assert [one["carried_from"] for one in outcomes] == [None, f"{s.id}@4", f"{s.id}@4"]


def test_once_begun_on_a_branch_that_was_left_is_in_doubt_until_it_is_settled(world: Simulation) -> None:
    def dies() -> None:
        raise Died

    s = world.start().session("a")
    s.append(user("go"))
    with pytest.raises(Died):
        s.once("pay", dies)
    rl = world.restart()
    rl.history.rewind("a@2")
    assert rl.sessions.get("a").in_doubt == 1
    with pytest.raises(InDoubt), rl.session("a") as s:
        s.once("pay", lambda: "again")
    with rl.session("a") as s:
        s.settle("pay", "receipt")
        assert s.once("pay", lambda: "again") == "receipt"
    rl.history.rewind("a@2")
    with rl.session("a") as s:
        assert s.once("pay", lambda: "again") == "receipt"


def test_once_that_raised_on_a_branch_that_was_left_may_be_tried(world: Simulation) -> None:
    def fails() -> None:
        raise ValueError

    rl = world.start()
    with rl.session("a") as s:
        s.append(user("go"))
        with pytest.raises(ValueError):
            s.once("pay", fails)
    rl.history.rewind("a@3")  # where it had begun
    with rl.session("a") as s:
        assert s.once("pay", lambda: "receipt") == "receipt"


# -- running again ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_rewind_lets_a_call_run_again_under_a_new_key_where_it_is_told_to(world: Simulation, effect: str) -> None:
    bench = Bench()
    tool = tool_of(bench, effect)
    rl = finished(world, bench, tool)
    for generation in (2, 3):
        rl.history.rewind(f"a@{asked_seq(rl)}", again="c1")
        assert rl.sessions.get("a").in_doubt == 0
        with rl.session("a") as s:
            (call,) = s.pending_calls()
            assert (call.in_doubt, call.key) == (False, f"{bench.keys[0]}/{generation}")
            run_pending(s, tool)
        assert bench.keys[-1] == f"{bench.keys[0]}/{generation}"
        assert len(bench.ran) == generation
    rl.history.rewind(f"a@{asked_seq(rl)}")
    with rl.session("a") as s:
        run_pending(s, tool)
    assert len(bench.ran) == (3 if effect in AT_MAX_ONCE else 4)
    assert bench.keys[-1] == f"{bench.keys[0]}/3"


def test_settling_with_retry_lets_what_ran_elsewhere_run_again_under_a_new_key(world: Simulation) -> None:
    bench = Bench()
    tool = tool_of(bench, "once")
    rl = finished(world, bench, tool)
    rl.history.rewind(f"a@{asked_seq(rl)}")
    rl.runs.settle("a", "c1", retry=True)
    with rl.session("a") as s:
        run_pending(s, tool)
    assert bench.keys == [bench.keys[0], f"{bench.keys[0]}/2"]
    rl.history.rewind(f"a@{asked_seq(rl)}")
    with rl.session("a") as s:
        run_pending(s, tool)
    assert len(bench.keys) == 2


def test_once_runs_again_where_the_program_says_so(world: Simulation) -> None:
    ran: list[int] = []

    def pay() -> int:
        ran.append(1)
        return len(ran)

    rl = world.start()
    with rl.session("a") as s:
        s.append(user("go"))
        s.once("pay", pay)
    rl.history.rewind("a@2")
    with rl.session("a") as s:
        s.settle("pay", retry=True)
        assert s.once("pay", pay) == 2
        with pytest.raises(NotFound):
            s.settle("pay", retry=True)
    rl.history.rewind("a@2", again=["pay"])
    with rl.session("a") as s:
        assert s.once("pay", pay) == 3
        assert s.once("pay", pay) == 3


def test_running_again_a_call_that_is_not_open_there_is_refused_and_nothing_is_done(world: Simulation) -> None:
    bench = Bench()
    rl = finished(world, bench, tool_of(bench, "once"))
    before = rl.sessions.get("a")
    with pytest.raises(NotFound, match="c9"):
        rl.history.rewind(f"a@{asked_seq(rl)}", again=["c1", "c9"])
    with pytest.raises(NotFound):
        rl.history.rewind("a@2", again="c1")
    with pytest.raises(UsageError):
        rl.history.rewind("a@2", conversation=False, files=True, again="c1")
    assert rl.sessions.get("a") == before


def test_that_it_may_run_again_said_on_a_branch_that_was_left_is_used_up_by_the_run_that_followed(
    world: Simulation,
) -> None:
    bench, paid = Bench(), []
    tool = tool_of(bench, "once")

    def dies() -> None:
        paid.append(1)
        raise Died

    def pay_and_call(s: Session) -> None:
        with pytest.raises(Died):
            s.once("pay", dies)
        bench.dies = True
        with pytest.raises(Died):
            run_pending(s, tool)
        bench.dies = False

    s = world.start().session("a")
    s.append(user("go"))
    s.append(asks(("c1", "t")))
    pay_and_call(s)
    rl = world.restart()
    for one in ("pay", "c1"):
        rl.runs.settle("a", one, retry=True)
    rl.history.rewind(f"a@{asked_seq(rl)}")
    pay_and_call(rl.session("a"))
    rl = world.restart()
    assert rl.sessions.get("a").in_doubt == 2
    with rl.session("a") as s:
        run_pending(s, tool)
        assert s.messages[-1] == result("c1", OUTCOME_UNKNOWN)
        with pytest.raises(InDoubt):
            s.once("pay", dies)
    assert (len(bench.ran), len(set(bench.keys)), len(paid)) == (2, 2, 2)


# -- forks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_fork_gets_its_parents_outcome_and_runs_nothing_of_its_parents(world: Simulation, effect: str) -> None:
    bench = Bench()
    tool = tool_of(bench, effect)
    rl = finished(world, bench, tool)
    at, ended = asked_seq(rl), rl.history.load("a").calls[0].result_seq
    before = rl.sessions.get("a")
    rl.history.fork(f"a@{at}", name="f")
    rl.history.fork(f"f@{at}", name="g")
    rl.history.rewind(f"a@{at - 1}")
    rl.history.fork(f"a@{at + 1}", name="h")
    for name in "fgh":
        with rl.session(name) as s:
            run_pending(s, tool)
            assert s.messages[-1] == result("c1", "t done")
            assert s.calls()[0].carried_from == f"{before.id}@{ended}"
    assert bench.ran == ["t"]


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("begun", [False, True], ids=["not begun", "begun"])
def test_a_fork_does_not_run_what_its_parent_has_not_finished(world: Simulation, effect: str, begun: bool) -> None:
    bench = Bench()
    tool = tool_of(bench, effect)
    if begun:
        rl = died(world, bench, tool)
    else:
        rl = world.start()
        with rl.session("a") as s:
            s.append(user("go"))
            s.append(asks(("c1", "t")))
    rl.history.fork(f"a@{asked_seq(rl)}", name="f")
    with rl.session("a") as s:  # what the parent does later is no longer the fork's
        run_pending(s, tool_of(bench, effect))
    ran = list(bench.ran)
    with rl.session("f") as s:
        assert s.pending_calls()[0].in_doubt is begun
        run_pending(s, tool)
        assert s.messages[-1] == result("c1", f"{NOT_RUN_HERE}a")
    assert bench.ran == ran


def test_a_fork_that_is_told_to_retry_runs_under_a_key_of_its_own(world: Simulation) -> None:
    bench = Bench()
    tool = tool_of(bench, "once")
    rl = died(world, bench, tool)
    rl.history.fork("a", name="f")
    for name in "af":
        rl.runs.settle(name, "c1", retry=True)
        with rl.session(name) as s:
            run_pending(s, tool)
    first = bench.keys[0]
    assert bench.keys == [first, f"{first}/2", f"{first.replace(rl.sessions.get('a').id, rl.sessions.get('f').id)}/2"]
    rl.history.fork(f"f@{asked_seq(rl, 'f')}", name="g")
    with rl.session("g") as s:
        run_pending(s, tool)
    assert len(bench.keys) == 3


def test_compaction_does_not_make_a_parents_call_the_forks_own(world: Simulation) -> None:
    bench = Bench()
    rl = world.start()
    with rl.session("a") as s:
        s.append(user("go"))
        s.append(asks(("c1", "t")))
    rl.history.fork("a@3", name="f")
    with rl.session("f") as s:
        s.replace([user("so far"), asks(("c1", "t"))])
    with world.restart().session("f") as s:
        run_pending(s, tool_of(bench, "once"))
        assert s.messages[-1] == result("c1", f"{NOT_RUN_HERE}a")
    assert bench.ran == []


def test_a_forks_once_is_its_own_unless_it_had_begun_in_what_the_fork_inherits(world: Simulation) -> None:
    ran: list[str] = []

    def dies() -> None:
        raise Died

    s = world.start().session("a")
    s.append(user("go"))
    s.once("done", lambda: ran.append("done"))
    with pytest.raises(Died):
        s.once("begun", dies)
    rl = world.restart()
    rl.history.fork("a", name="doubtful")
    with rl.session("a") as s:
        s.settle("begun", "receipt")
        s.once("later", lambda: ran.append("later"))
    rl.history.fork("a@5", name="f")  # where it had begun: the parent's outcome is known by now
    rl.history.fork("a@2", name="early")
    with rl.session("f") as s:
        s.once("done", lambda: ran.append("done"))
        assert s.once("begun", dies) == "receipt"
        s.once("later", lambda: ran.append("f: later"))
    with rl.session("early") as s:
        s.once("done", lambda: ran.append("early: done"))
    with pytest.raises(InDoubt), rl.session("doubtful") as s:
        s.once("begun", dies)
    assert ran == ["done", "later", "f: later", "early: done"]
