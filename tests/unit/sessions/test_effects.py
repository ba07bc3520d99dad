"""What is done about calls: finished ones are used, unstarted ones run, and doubt is settled as the effect declares."""

from __future__ import annotations

from typing import Any

import pytest

import relight
from relight.errors import InDoubt, NotFound, ToolsChanged, UsageError
from relight.sessions.session import Session
from relight.testing.conversation import lint
from relight.values.call import OUTCOME_UNKNOWN
from tests.support.simulation import Simulation


class Died(BaseException):
    """The process ends here."""


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def asks(*calls: tuple[str, str]) -> dict[str, Any]:
    """A reply that calls tools: (call id, tool name)."""
    wanted = [{"id": i, "type": "function", "function": {"name": name, "arguments": "{}"}} for i, name in calls]
    return {"role": "assistant", "content": None, "tool_calls": wanted}


def result(call: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": content}


class Bench:
    """Tools that count how often they ran, and one that dies at work."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.keys: list[str] = []
        self.dies = False

    def tool(self, name: str, effect: Any = "once", **options: Any) -> Any:
        def run(idempotency_key: str) -> str:
            self.ran.append(name)
            self.keys.append(idempotency_key)
            if self.dies:
                raise Died
            return f"{name} done"

        run.__name__ = name
        return relight.tool(effect=effect, **options)(run)


def die_in_tool(world: Simulation, bench: Bench, tool: Any, *, name: str = "t") -> None:
    """A session "a" whose process died inside its only call."""
    s = world.start().session("a")
    s.append(user("go"))
    s.append(asks(("c1", name)))
    bench.dies = True
    with pytest.raises(Died):
        s.run_tool(s.pending_calls()[0], [tool])
    bench.dies = False
    world.crash()


@pytest.mark.parametrize(
    ("effect", "seen", "runs", "reported"),
    [
        ("once", None, 1, OUTCOME_UNKNOWN),
        ("pure", None, 2, "t done"),
        ("idempotent", None, 2, "t done"),
        ("probe", None, 2, "t done"),
        ("probe", "it was there", 1, "it was there"),
    ],
)
def test_a_call_in_doubt_is_settled_as_its_effect_declares(
    world: Simulation, effect: str, seen: str | None, runs: int, reported: str
) -> None:
    bench = Bench()
    tool = bench.tool("t", effect, **({"probe": lambda: seen} if effect == "probe" else {}))
    die_in_tool(world, bench, tool)
    rl = world.start()
    (doubtful,) = rl.runs.plan("a").in_doubt
    assert (doubtful.id, doubtful.effect, rl.sessions.get("a").in_doubt) == ("c1", effect, 1)
    assert rl.runs.plan("a").told == (OUTCOME_UNKNOWN if effect == "once" else None)
    with rl.session("a") as s:
        (call,) = s.pending_calls()
        assert call.in_doubt
        s.run_tool(call, [tool])
        assert s.pending_calls() == []
        assert s.messages[-1] == result("c1", reported)
        assert lint(s.messages) == []
    assert len(bench.ran) == runs
    assert len(set(bench.keys)) == 1, "a second run has another idempotency key"
    assert rl.sessions.get("a").in_doubt == 0


def test_a_probe_that_fails_leaves_the_outcome_unknown_and_runs_nothing(world: Simulation) -> None:
    bench = Bench()

    def probe() -> None:
        raise OSError("no network")

    tool = bench.tool("t", "probe", probe=probe)
    die_in_tool(world, bench, tool)
    with world.start().session("a") as s:
        s.run_tool(s.pending_calls()[0], [tool])
        assert s.messages[-1]["content"].startswith(OUTCOME_UNKNOWN)
    assert bench.ran == ["t"]


def test_a_finished_call_is_not_run_again(world: Simulation) -> None:
    bench = Bench()
    tool = bench.tool("t", "pure")
    with world.start().session("a") as s:
        s.append(user("go"))
        s.append(asks(("c1", "t")))
        (call,) = s.pending_calls()
        s.run_tool(call, [tool])
        s.run_tool(call, [tool])
    with world.restart().session("a") as s:
        s.run_tool(call, [tool])
    assert bench.ran == ["t"]


def test_a_call_that_never_started_is_run(world: Simulation) -> None:
    bench = Bench()
    tool = bench.tool("t")
    s = world.start().session("a")
    s.append(user("go"))
    s.append(asks(("c1", "t"), ("c2", "t")))
    with world.restart().session("a") as s:
        assert [call.in_doubt for call in s.pending_calls()] == [False, False]
        for call in reversed(s.pending_calls()):
            s.run_tool(call, [tool])
        assert s.messages[-2:] == [result("c1", "t done"), result("c2", "t done")], "results stand in call order"
    assert bench.ran == ["t", "t"]


def test_the_same_id_asked_for_by_another_step_is_a_new_effect(world: Simulation) -> None:
    bench = Bench()
    tool = bench.tool("t")
    rl = world.start()
    for _ in range(2):
        with rl.session("a") as s:
            if s.is_new:
                s.append(user("go"))
                s.checkpoint("start")
            s.append(asks(("c1", "t")))
            s.run_tool(s.pending_calls()[0], [tool])
        rl.history.rewind("a@start")
    assert len(set(bench.keys)) == 2


def test_a_reply_that_comes_while_calls_are_open_closes_them_in_the_same_commit(world: Simulation) -> None:
    bench = Bench()
    die_in_tool(world, bench, bench.tool("t"))
    with world.start().session("a") as s:
        s.append(user("never mind"))
        before = s._recorder.head.seq
        s.append(asks(("c2", "t")))
        assert s._recorder.head.seq == before + 1
        s.append({"role": "assistant", "content": "bye"})
        results = [message["content"] for message in s.messages if message["role"] == "tool"]
        assert results[0] == OUTCOME_UNKNOWN
        assert results[1].removeprefix("[error] ").startswith("not run")
        assert s.pending_calls() == []
        assert lint(s.messages) == []
    assert world.start().sessions.get("a").in_doubt == 0
    assert world.start().sessions.get("a").message_count == len(s.messages)


def test_a_result_that_the_program_appends_itself_ends_the_doubt_everywhere(world: Simulation) -> None:
    bench = Bench()
    die_in_tool(world, bench, bench.tool("t"))
    rl = world.start()
    with rl.session("a") as s:
        s.append(result("c1", "I looked: it is done"))
        assert s.pending_calls() == []
    assert rl.runs.plan("a").in_doubt == []
    assert rl.sessions.get("a").in_doubt == 0


@pytest.mark.parametrize("first", ["c1", "c2", "c3"])
def test_results_of_the_program_and_of_run_tool_mix_into_one_valid_history(world: Simulation, first: str) -> None:
    bench = Bench()
    tool = bench.tool("t")
    with world.start().session("a") as s:
        s.append(user("go"))
        s.append(asks(("c1", "t"), ("c2", "t"), ("c3", "t")))
        s.append(result(first, "by hand"))
    with world.restart().session("a") as s:
        for call in s.pending_calls():
            s.run_tool(call, [tool])
        assert lint(s.messages) == []
        assert len(s.messages) == 5
    loaded = world.restart().history.load("a")
    assert lint(loaded.messages) == []
    assert world.start().sessions.get("a").message_count == 5


def test_results_of_the_program_and_of_run_tool_share_one_anthropic_message(world: Simulation) -> None:
    bench = Bench()
    tool = bench.tool("t")
    blocks = [{"type": "tool_use", "id": f"c{n}", "name": "t", "input": {}} for n in range(3)]
    by_hand = {"type": "tool_result", "tool_use_id": "c1", "content": "by hand"}
    with world.start().session("a") as s:
        s.append(user("go"))
        s.append({"role": "assistant", "content": blocks})
        s.append({"role": "user", "content": [by_hand]})
    with world.restart().session("a") as s:
        for call in s.pending_calls():
            s.run_tool(call, [tool])
        assert lint(s.messages) == []
    assert lint(world.restart().history.load("a").messages) == []
    assert world.start().sessions.get("a").message_count == 3


def test_settling_decides_a_call_in_doubt_once(world: Simulation) -> None:
    bench = Bench()
    tool = bench.tool("t")
    die_in_tool(world, bench, tool)
    rl = world.start()
    with pytest.raises(UsageError):
        rl.runs.settle("a", "c1")
    with pytest.raises(NotFound):
        rl.runs.settle("a", "c9", result="x")
    rl.runs.settle("a", "c1", result="it went through")
    with pytest.raises(NotFound):
        rl.runs.settle("a", "c1", result="twice")
    with rl.session("a") as s:
        assert s.pending_calls() == []
        assert s.messages[-1] == result("c1", "it went through")
    assert bench.ran == ["t"]


def test_settling_with_retry_lets_it_run_again_under_the_next_generation_of_its_key(world: Simulation) -> None:
    bench = Bench()
    tool = bench.tool("t")
    die_in_tool(world, bench, tool)
    rl = world.start()
    rl.runs.settle("a", "c1", retry=True)
    assert rl.runs.plan("a").in_doubt == []
    with rl.session("a") as s:
        s.run_tool(s.pending_calls()[0], [tool])
    assert bench.ran == ["t", "t"]
    assert bench.keys[1] == f"{bench.keys[0]}/2", "an outside service sees a new request"


def test_a_loop_told_to_wait_waits_until_every_once_call_is_settled(world: Simulation) -> None:
    """A pure call that died beside it needs no person, so it keeps nobody waiting."""
    bench = Bench()
    tools = [bench.tool("pay"), bench.tool("look", "pure")]
    s = world.start().session("a")
    s.append(user("go"))
    s.append(asks(("c1", "pay"), ("c2", "look")))
    bench.dies = True
    for call in s.pending_calls():
        with pytest.raises(Died):
            s.run_tool(call, tools)
    bench.dies = False
    rl = world.restart()
    with pytest.raises(relight.Waiting, match=r"did pay \(c1\) take effect\?"), rl.session("a") as s:
        s.run(lambda messages: {"role": "assistant", "content": "x"}, tools=tools, in_doubt="wait")
    assert rl.sessions.get("a").status == "waiting"
    assert bench.ran == ["pay", "look"]
    rl.runs.settle("a", "c1", result="paid")
    assert rl.sessions.get("a").status == "queued"
    with rl.session("a") as s:
        s.run(lambda messages: {"role": "assistant", "content": "end"}, tools=tools, in_doubt="wait")
        assert s.result == "end"
    assert bench.ran == ["pay", "look", "look"]


def test_once_runs_once_over_crashes_and_resets_and_returns_what_was_recorded(world: Simulation) -> None:
    ran = []

    def act() -> str:
        ran.append(1)
        return "receipt"

    with world.start().session("a") as s:
        assert s.once("pay", act) == "receipt"
    with world.restart().session("a") as s:
        assert s.once("pay", act) == "receipt"
        s.replace([user("summary")])
        assert s.once("pay", act) == "receipt"
    with world.restart().session("a") as s:
        assert s.once("pay", act) == "receipt"
    assert ran == [1]


def test_once_in_doubt_is_refused_until_it_is_settled(world: Simulation) -> None:
    def dies() -> None:
        raise Died

    s = world.start().session("a")
    with pytest.raises(Died):
        s.once("pay", dies)
    rl = world.restart()
    with pytest.raises(InDoubt), rl.session("a") as s:
        s.once("pay", lambda: "again")
    with rl.session("a") as s:
        s.replace([user("compacted while in doubt")])
        with pytest.raises(InDoubt):
            s.once("pay", lambda: "again")
        assert rl.sessions.get("a").in_doubt == 0 or s.status == "working"
    assert rl.sessions.get("a").in_doubt == 1
    with rl.session("a") as s:
        s.settle("pay", "receipt")
        assert s.once("pay", lambda: "again") == "receipt"


def test_once_that_raised_may_be_tried_again(world: Simulation) -> None:
    def fails() -> None:
        raise ValueError

    with world.start().session("a") as s:
        with pytest.raises(ValueError):
            s.once("pay", fails)
        assert s.once("pay", lambda: "second try") == "second try"


def test_a_tool_that_raises_gives_its_error_to_the_model(world: Simulation) -> None:
    def t() -> None:
        raise ValueError("no\ud800")

    with world.start().session("a") as s:
        s.append(user("go"))
        s.append(asks(("c1", "t"), ("c2", "gone"), ("c3", "t")))
        s.messages[1]["tool_calls"][2]["function"]["arguments"] = "not json"
        for call in s.pending_calls():
            assert s.run_tool(call, {"t": t}).success is False
        contents = [message["content"] for message in s.messages[2:]]
    assert contents[0] == "[error] ValueError: no\ud800"
    assert "unknown tool" in contents[1]
    assert lint(world.restart().history.load("a").messages) == []


def test_run_tool_once_and_settle_inside_a_step_are_refused(world: Simulation) -> None:
    with world.start().session("a") as s:
        s.append(user("go"))
        s.append(asks(("c1", "t")))
        (call,) = s.pending_calls()
        for act in (
            lambda: s.run_tool(call, {"t": lambda: 1}),
            lambda: s.once("k", lambda: 1),
            lambda: s.settle("c1", "x"),
            lambda: s.ask("?"),
        ):
            with pytest.raises(UsageError), s.batch():
                act()
        assert len(s.pending_calls()) == 1


def run_all(s: Session, tools: Any) -> None:
    for call in s.pending_calls():
        s.run_tool(call, tools)


def test_a_compaction_in_a_fork_keeps_the_key_of_a_call_in_doubt(world: Simulation) -> None:
    bench = Bench()
    tool = bench.tool("t", "idempotent")
    die_in_tool(world, bench, tool)
    rl = world.start()
    rl.history.fork("a", name="b")
    with rl.session("b") as s:
        (call,) = s.pending_calls()
        s.replace(s.messages)
        (after,) = s.pending_calls()
        assert (after.key, after.in_doubt) == (call.key, True)
    with world.restart().session("b") as s:
        assert s.pending_calls()[0].key == call.key
        run_all(s, [tool])
    assert len(set(bench.keys)) == 1


def test_a_compaction_that_drops_a_call_drops_its_doubt(world: Simulation) -> None:
    bench = Bench()
    die_in_tool(world, bench, bench.tool("t"))
    rl = world.start()
    with rl.session("a") as s:
        s.replace([user("summary")])
        assert (s.messages, s.pending_calls()) == ([user("summary")], [])
    assert rl.sessions.get("a").in_doubt == 0
    assert world.restart().history.load("a").messages == [user("summary")]


# ---------------------------------------------------------------- changed tools (G13)


def test_a_tool_removed_under_a_pending_call_is_refused_with_a_diff(world: Simulation) -> None:
    bench = Bench()
    die_in_tool(world, bench, bench.tool("t"))
    with world.start().session("a") as s:
        seq = s._recorder.head.seq
        with pytest.raises(ToolsChanged) as caught:
            s.run_tool(s.pending_calls()[0], [bench.tool("other")])
        assert caught.value.diff == ("- t once(idempotency_key)  (pending call c1)",)
        assert s._recorder.head.seq == seq


def test_a_changed_effect_under_a_call_in_doubt_is_refused_with_a_diff(world: Simulation) -> None:
    bench = Bench()
    die_in_tool(world, bench, bench.tool("t"))
    with world.start().session("a") as s:
        with pytest.raises(ToolsChanged) as caught:
            s.run(lambda m: user("x"), tools=[bench.tool("t", "pure")])
        assert "once -> pure" in caught.value.diff[0]
    assert bench.ran == ["t"]


def test_any_other_change_of_tools_is_noted_once(world: Simulation) -> None:
    bench = Bench()

    def notes() -> list[Any]:
        return [
            event.note["tools_changed"] for event in world.start().history.events("a") if "tools_changed" in event.note
        ]

    def model(messages: Any) -> Any:
        return {"role": "assistant", "content": "x"}

    toolsets = [[bench.tool("t")], [bench.tool("t")], [bench.tool("t", "pure")], [], []]
    for number, tools in enumerate(toolsets):
        with world.start().session("a") as s:
            s.run(model, tools=tools, prompt=f"p{number}")
    assert notes() == [
        ["~ t once(idempotency_key) -> pure(idempotency_key)"],
        ["- t pure(idempotency_key)"],
    ]
