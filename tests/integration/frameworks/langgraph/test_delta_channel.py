"""Channels that LangGraph itself keeps as deltas: what was written since the nearest stored value, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import END, START, StateGraph

import relight
from relight.frameworks.langgraph import RelightSaver
from tests.integration.frameworks.conftest import Open
from tests.integration.frameworks.langgraph.graphs import checkpoint, config

History = Callable[..., Any]


@pytest.fixture(params=["called", "awaited"])
def history(request: pytest.FixtureRequest) -> History:
    def read(saver: RelightSaver, at: Any, channels: list[str]) -> Any:
        if request.param == "called":
            return saver.get_delta_channel_history(config=at, channels=channels)
        return asyncio.run(saver.aget_delta_channel_history(config=at, channels=channels))

    return read


def chain(saver: RelightSaver, steps: list[dict[str, Any]], *, ns: str = "") -> list[Any]:
    """Checkpoints in a row. `value`: stored in the channel; `writes`: on top, as (task, path, value)."""
    at, made = config("t", ns=ns), []
    for number, step in enumerate(steps):
        values = {"ch": step["value"]} if "value" in step else {}
        at = saver.put(at, checkpoint(values, number + 1), {"source": "loop", "step": number}, dict.fromkeys(values, 1))
        for task, path, value in step.get("writes", []):
            saver.put_writes(at, [("ch", value)], task, path)
        made.append(at)
    return made


def values_of(found: Any) -> list[Any]:
    return [value for _, _, value in found["ch"]["writes"]]


def test_writes_come_oldest_first_without_those_on_top_of_the_target(fresh: Open, history: History) -> None:
    saver = RelightSaver(fresh())
    steps: list[Any] = [{"value": _DeltaSnapshot([0])}, *({"writes": [(f"t{n}", "", [n])]} for n in range(1, 5))]
    made = chain(saver, steps)
    found = history(saver, made[-1], ["ch"])
    assert values_of(found) == [[1], [2], [3]]
    assert found["ch"]["seed"] == _DeltaSnapshot([0])


def test_the_nearest_stored_value_is_the_seed_with_its_own_writes_behind_it(fresh: Open, history: History) -> None:
    saver = RelightSaver(fresh())
    steps: list[dict[str, Any]] = [
        {"value": [10], "writes": [("a", "", "before")]},
        {"value": [10, 20], "writes": [("b", "", "at the seed")]},
        {"writes": [("c", "", "after")]},
        {"writes": [("d", "", "pending")]},
    ]
    made = chain(saver, steps)
    found = history(saver, made[-1], ["ch"])
    assert found["ch"]["seed"] == [10, 20]
    assert values_of(found) == ["at the seed", "after"]


def test_a_walk_to_the_root_has_no_seed_and_no_channels_no_history(fresh: Open, history: History) -> None:
    saver = RelightSaver(fresh())
    made = chain(saver, [{"writes": [(f"t{n}", "", n)]} for n in range(3)])
    assert history(saver, made[-1], ["ch", "other"]) == {
        "ch": {"writes": [("t0", "ch", 0), ("t1", "ch", 1)]},
        "other": {"writes": []},
    }
    assert history(saver, made[-1], []) == {}
    assert history(saver, config("nobody"), ["ch"]) == {"ch": {"writes": []}}


def test_parallel_writes_are_ordered_by_path_and_those_without_one_come_first(fresh: Open, history: History) -> None:
    saver = RelightSaver(fresh())
    on_top = [("0", "~pull, 02", "second"), ("f", "~pull, 01", "first"), ("z", "", "input")]
    made = chain(saver, [{"value": _DeltaSnapshot([])}, {"writes": on_top}, {}])
    assert values_of(history(saver, made[-1], ["ch"])) == ["input", "first", "second"]


def test_only_the_ancestors_of_a_branch_count(fresh: Open, history: History) -> None:
    saver = RelightSaver(fresh())
    first, second, _ = chain(saver, [{"value": _DeltaSnapshot([])}, {"writes": [("a", "", 1)]}, {}])
    branch = saver.put(first, checkpoint({}), {"source": "fork", "step": 1}, {})
    leaf = saver.put(branch, checkpoint({}), {"source": "loop", "step": 2}, {})
    assert values_of(history(saver, leaf, ["ch"])) == []
    assert second != branch


def _joined(left: list[Any], right: list[list[Any]]) -> list[Any]:
    return [*left, *(one for part in right for one in part)]


class Growing(TypedDict):
    items: Annotated[list[Any], DeltaChannel(_joined, snapshot_frequency=4)]


def growing(steps: int) -> Any:
    graph = StateGraph(Growing)
    graph.add_node("grow", lambda state: {"items": [AIMessage(content=str(len(state["items"])), id="x")]})
    graph.add_edge(START, "grow")
    graph.add_conditional_edges("grow", lambda state: "grow" if len(state["items"]) < steps else END)
    return graph


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_graph_with_such_a_channel_ends_as_in_memory_and_after_pruning(fresh: Open, durability: Any) -> None:
    steps = 11
    at: Any = {"configurable": {"thread_id": "t"}}
    plain = growing(steps).compile(checkpointer=InMemorySaver())
    saver = RelightSaver(fresh())
    ours = growing(steps).compile(checkpointer=saver)
    for graph in (plain, ours):
        graph.invoke({"items": []}, at, durability=durability)
    expected = [one.values for one in plain.get_state_history(at)]
    assert [one.values for one in ours.get_state_history(at)] == expected
    before = ours.get_state(at).values
    saver.prune(["t"])
    assert ours.get_state(at).values == before
    assert len(before["items"]) == steps
    if durability == "sync":
        assert len(list(saver.list(at))) < len(expected)


def test_a_channel_left_out_at_a_version_that_has_a_value_has_that_value() -> None:
    """LangGraph leaves out a delta channel that the step did not write; its own saver finds it by its version."""
    seen = []
    with relight.open("memory:") as rl:
        for saver in (InMemorySaver(), RelightSaver(rl)):
            first = checkpoint({"ch": _DeltaSnapshot([1]), "x": 1})
            counted: Any = {"step": 1, "counted": (1, 2)}
            at = saver.put(config("t"), first, counted, {"ch": 1, "x": 1})
            then = checkpoint({"x": 2}, channel_versions={"ch": 1, "x": 2})
            at = saver.put(at, then, {"step": 2}, {"x": 2})
            last = checkpoint({"x": 3}, channel_versions={"ch": 2, "x": 3})
            saver.put(at, last, {"step": 3}, {"ch": 2, "x": 3})
            seen.append([(one.checkpoint["channel_values"], one.metadata) for one in saver.list(config("t"))])
    theirs, ours = seen
    assert ours == theirs
    assert [set(values) for values, _ in ours] == [{"x"}, {"ch", "x"}, {"ch", "x"}]
