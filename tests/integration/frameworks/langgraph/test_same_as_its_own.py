"""A graph that runs with LangGraph's own saver runs with ours, and everything it can be asked answers the same.

Each scene is run twice, once over each saver, and what it saw is compared value by value: results, streams, states,
histories, tasks, interrupts. Ids and times differ by nature and are left out.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import pydantic
import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_store
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Interrupt, Send, StateUpdate, interrupt

import relight
from relight.frameworks.langgraph import RelightSaver
from tests.integration.frameworks.langgraph.graphs import config
from tests.support.figures import Figure

Scene = Callable[[Any, Any], Iterator[Any]]
DURABILITIES = ["sync", "async", "exit"]


class Sums(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    total: Annotated[int, operator.add]
    last: Any


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Address(pydantic.BaseModel):
    city: str
    tags: set[str] = set()


class Person(pydantic.BaseModel):
    name: str
    home: Address | None = None
    log: Annotated[list[str], operator.add] = []


@dataclasses.dataclass
class Order:
    lines: Annotated[list[str], operator.add] = dataclasses.field(default_factory=list)
    address: Address | None = None
    where: Point | None = None


class Words(str):
    """A text of one's own kind."""


class Note(HumanMessage):
    """A message of one's own kind."""

    mood: str = "calm"


def says(word: str, **more: Any) -> Callable[[Any], Any]:
    return lambda state: {"log": [word], "total": 1, **more}


def chain(*names: str, schema: Any = Sums) -> StateGraph[Any]:
    graph: Any = StateGraph(schema)
    for name in names:
        graph.add_node(name, says(name))
    for one, other in zip((START, *names), (*names, END), strict=True):
        graph.add_edge(one, other)
    return graph


def reported(snapshot: Any) -> Any:
    """What a snapshot says, without ids and times."""
    metadata = {key: value for key, value in (snapshot.metadata or {}).items() if key in ("source", "step", "writes")}
    tasks = [
        (one.name, str(one.error) if one.error else None, _values(one.interrupts), one.result, _within(one.state))
        for one in snapshot.tasks
    ]
    return snapshot.values, snapshot.next, metadata, tasks, _values(snapshot.interrupts)


def _values(interrupts: Any) -> list[Any]:
    return sorted((one.value for one in interrupts), key=str)


def _within(state: Any) -> Any:
    return reported(state) if hasattr(state, "values") and hasattr(state, "next") else bool(state)


def everything(graph: Any, at: Any) -> Iterator[Any]:
    yield reported(graph.get_state(at, subgraphs=True))
    yield [reported(one) for one in graph.get_state_history(at)]
    yield [reported(one) for one in graph.get_state_history(at, limit=2)]
    yield [reported(one) for one in graph.get_state_history(at, filter={"source": "loop"})]


def plain(value: Any) -> Any:
    """Without the ids of interrupts and messages that are drawn anew each time."""
    if isinstance(value, Interrupt):
        return "interrupt", value.value
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key not in ("id", "checkpoint_id", "timestamp")}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [plain(one) for one in value]
    return value


# -- scenes --------------------------------------------------------------------------------------------------------


def interrupts_and_answers(saver: Any, durability: Any) -> Iterator[Any]:
    def ask(state: Any) -> Any:
        first = interrupt({"q": 1})
        second = interrupt({"q": 2, "first": first})
        return {"log": [first, second], "total": 1}

    graph: Any = chain("before", "after")
    graph.add_node("ask", ask)
    graph.add_edge("before", "ask")
    compiled: Any = graph.compile(checkpointer=saver)
    at = config("t")
    yield plain(compiled.invoke({"log": ["in"]}, at, durability=durability))
    yield from everything(compiled, at)
    yield plain(compiled.invoke(Command(resume="one"), at, durability=durability))
    yield plain(list(compiled.stream(Command(resume="two"), at, stream_mode="updates", durability=durability)))
    yield from everything(compiled, at)


def breakpoints(saver: Any, durability: Any) -> Iterator[Any]:
    compiled: Any = chain("a", "b", "c").compile(checkpointer=saver, interrupt_before=["b"], interrupt_after=["b"])
    at = config("t")
    for given in ({"log": ["in"]}, None, None):
        yield plain(compiled.invoke(given, at, durability=durability))
        yield from everything(compiled, at)


def sends_and_commands(saver: Any, durability: Any) -> Iterator[Any]:
    graph: Any = StateGraph(Sums)
    graph.add_node(
        "fan", lambda state: Command(goto=[Send("work", {"last": n}) for n in range(3)], update={"total": 1})
    )
    graph.add_node("work", lambda state: {"log": [state["last"]], "total": 10})
    graph.add_node("gather", lambda state: Command(goto=END, update={"last": sorted(state["log"], key=str)}))
    graph.add_edge(START, "fan")
    graph.add_edge("work", "gather")
    compiled: Any = graph.compile(checkpointer=saver)
    yield compiled.invoke({"log": []}, config("t"), durability=durability)
    yield from everything(compiled, config("t"))


def parallel_one_fails(saver: Any, durability: Any) -> Iterator[Any]:
    failing = [True]

    def bad(state: Any) -> Any:
        if failing:
            raise RuntimeError("not yet")
        return {"log": ["bad"]}

    graph: Any = StateGraph(Sums)
    graph.add_node("good", says("good"))
    graph.add_node("bad", bad)
    graph.add_edge(START, "good")
    graph.add_edge(START, "bad")
    compiled: Any = graph.compile(checkpointer=saver)
    with pytest.raises(RuntimeError, match="not yet"):
        compiled.invoke({"log": ["in"]}, config("t"), durability=durability)
    failing.clear()  # whether the other one was faster than the failure is chance, over either saver
    yield compiled.invoke(None, config("t"), durability=durability)
    yield reported(compiled.get_state(config("t")))


def subgraphs(saver: Any, durability: Any) -> Iterator[Any]:
    def ask(state: Any) -> Any:
        return {"log": [interrupt("inner?")], "total": 5}

    for persists in (None, True):
        inner: Any = StateGraph(Sums)
        inner.add_node("ask", ask)
        inner.add_node("then", says("then"))
        inner.add_edge(START, "ask")
        inner.add_edge("ask", "then")
        outer: Any = chain("first", "last")
        outer.add_node("inner", inner.compile(checkpointer=persists))
        outer.add_edge("first", "inner")
        compiled: Any = outer.compile(checkpointer=saver)
        at = config(f"t-{persists}")
        yield plain(compiled.invoke({"log": ["in"]}, at, durability=durability))
        yield from everything(compiled, at)
        yield plain(
            [
                part[1]
                for part in compiled.stream(
                    Command(resume="yes"), at, stream_mode="values", subgraphs=True, durability=durability
                )
            ]
        )
        yield from everything(compiled, at)


def time_travel(saver: Any, durability: Any) -> Iterator[Any]:
    compiled: Any = chain("a", "b", "c").compile(checkpointer=saver)
    at = config("t")
    compiled.invoke({"log": ["in"]}, at, durability="sync")
    history = list(compiled.get_state_history(at))
    early = next(one for one in history if one.next == ("b",))
    yield compiled.invoke(None, early.config, durability=durability)
    yield from everything(compiled, at)
    forked = compiled.update_state(early.config, {"log": ["changed"], "total": 100}, as_node="a")
    yield reported(compiled.get_state(forked))
    yield compiled.invoke(None, forked, durability=durability)
    yield from everything(compiled, at)
    yield reported(compiled.get_state(early.config))
    bulk = compiled.bulk_update_state(
        at, [[StateUpdate({"log": ["x"]}, "a")], [StateUpdate({"log": ["y"]}, "b"), StateUpdate({"total": 7}, "c")]]
    )
    yield reported(compiled.get_state(bulk))
    compiled.update_state(at, None, as_node=END)
    yield from everything(compiled, at)
    saver.delete_thread("t")
    yield reported(compiled.get_state(at))
    yield compiled.invoke({"log": ["anew"]}, at, durability=durability)


def kinds_of_state(saver: Any, durability: Any) -> Iterator[Any]:
    home = Address(city="Ulm", tags={"a", "b"})
    person: Any = StateGraph(Person)
    person.add_node("move", lambda state: {"home": home, "log": [f"{type(state).__name__} {state.name}"]})
    person.add_node("ask", lambda state: {"log": [interrupt(state.home)]})
    person.add_edge(START, "move")
    person.add_edge("move", "ask")
    graph: Any = person.compile(checkpointer=saver)
    yield plain(graph.invoke({"name": "Ada"}, config("p"), durability=durability))
    yield plain(graph.invoke(Command(resume="ok"), config("p"), durability=durability))
    yield from everything(graph, config("p"))
    order: Any = StateGraph(Order)
    order.add_node("one", lambda state: {"lines": ["x"], "address": home, "where": Point(1, 2)})
    order.add_node("two", lambda state: {"lines": [f"{state.address.city} {state.where.x}"]})
    order.add_edge(START, "one")
    order.add_edge("one", "two")
    graph = order.compile(checkpointer=saver)
    yield graph.invoke({"lines": ["in"]}, config("o"), durability=durability)
    yield from everything(graph, config("o"))
    odd = {"words": Words("hi"), "colour": Colour.RED, "many": {1, 2}, "bytes": b"\0\xff", "none": None}
    loose: Any = StateGraph(Sums)
    loose.add_node("odd", lambda state: {"last": odd, "log": [Words("w"), 1.5, Path("a") / "b"]})
    loose.add_edge(START, "odd")
    graph = loose.compile(checkpointer=saver)
    yield {**graph.invoke({"log": []}, config("l"), durability=durability)["last"]}
    state = graph.get_state(config("l")).values
    yield {**state["last"]}
    yield [str(one) for one in state["log"]]


def messages(saver: Any, durability: Any) -> Iterator[Any]:
    class Chat(TypedDict):
        messages: Annotated[list[Any], add_messages]

    def answer(state: Any) -> Any:
        call = {"name": "look", "args": {"at": [1, {"b": None}]}, "id": "c1", "type": "tool_call"}
        return {
            "messages": [
                AIMessage(
                    "thinking", id="a1", tool_calls=[call], usage_metadata=None, response_metadata={"model": "m"}
                ),
                ToolMessage("seen", tool_call_id="c1", id="t1", artifact={"raw": [1, 2]}),
                AIMessageChunk(content="half", id="a2"),
                Note(content="mine", id="n1", mood="glad"),
            ]
        }

    def forget(state: Any) -> Any:
        return {"messages": [RemoveMessage(id="a2"), HumanMessage("edited", id="h1")]}

    graph: Any = StateGraph(Chat)
    graph.add_node("answer", answer)
    graph.add_node("forget", forget)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", "forget")
    compiled: Any = graph.compile(checkpointer=saver)
    yield compiled.invoke({"messages": [HumanMessage("hello", id="h1")]}, config("t"), durability=durability)
    yield from everything(compiled, config("t"))
    for mode in ("values", "updates", "messages", "tasks"):
        parts = compiled.stream(
            {"messages": [HumanMessage(mode, id=mode)]}, config("t"), stream_mode=mode, durability=durability
        )
        yield mode, [part[0] if mode == "messages" else plain(part) for part in parts]


def stores_and_tasks(saver: Any, durability: Any) -> Iterator[Any]:
    calls: list[int] = []

    @task
    def square(number: int) -> int:
        calls.append(number)
        return number * number

    @entrypoint(checkpointer=saver, store=InMemoryStore())
    def flow(given: list[int], *, previous: Any) -> Any:
        done = [one.result() for one in [square(number) for number in given]]
        get_store().put(("seen",), "last", {"done": done})
        answer = interrupt("go on?")
        return entrypoint.final(value=[done, answer, previous], save=sum(done))

    at = config("t")
    yield plain(flow.invoke([1, 2], at, durability=durability))
    yield plain(flow.invoke(Command(resume="yes"), at, durability=durability)), sorted(calls)
    yield plain(flow.invoke([3], at, durability=durability))
    yield plain(flow.invoke(Command(resume="again"), at, durability=durability)), sorted(calls)


def awaited(saver: Any, durability: Any) -> Iterator[Any]:
    async def slow(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"log": [interrupt("async?")], "total": 2}

    graph: Any = chain("before", "after")
    graph.add_node("slow", slow)
    graph.add_edge("before", "slow")
    compiled: Any = graph.compile(checkpointer=saver)
    at = config("t")

    async def seen() -> list[Any]:
        first = plain(await compiled.ainvoke({"log": ["in"]}, at, durability=durability))
        parts = [
            plain(one)
            async for one in compiled.astream(
                Command(resume="yes"), at, stream_mode=["updates", "values"], durability=durability
            )
        ]
        state = reported(await compiled.aget_state(at))
        await compiled.aupdate_state(at, {"log": ["more"]}, as_node="after")
        return [first, parts, state, [reported(one) async for one in compiled.aget_state_history(at)]]

    yield asyncio.run(seen())


SCENES: list[Scene] = [
    interrupts_and_answers, breakpoints, sends_and_commands, parallel_one_fails, subgraphs, time_travel,
    kinds_of_state, messages, stores_and_tasks, awaited,
]  # fmt: skip


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_graph_answers_as_it_does_over_langgraphs_own_saver(scene: Scene, durability: str) -> None:
    theirs = list(scene(InMemorySaver(), durability))
    with relight.open("memory:") as rl:
        ours = list(scene(RelightSaver(rl), durability))
    assert len(ours) == len(theirs)
    for number, (here, there) in enumerate(zip(ours, theirs, strict=True)):
        assert here == there, f"observation {number}"


def test_a_finished_call_never_blocks_the_next_one(tmp_path: Path, figure: Figure, sample: Callable[..., int]) -> None:
    """One invoke after the other on threads that were interrupted, answered and interrupted again."""
    graph: Any = StateGraph(Sums)
    graph.add_node("ask", lambda state: {"log": [interrupt(len(state["log"]))]})
    graph.add_edge(START, "ask")
    calls = sample(60, proof=10_000)
    with relight.open(tmp_path / "r.db") as rl:
        compiled: Any = graph.compile(checkpointer=RelightSaver(rl))
        for number in range(calls):
            at = config(f"t{number // 30}")
            given: Any = Command(resume=number) if number % 2 else {"log": [number]}
            compiled.invoke(given, at)
    figure("G8", f"LangGraph: {calls:,} invokes in a row on interrupted threads, 0 refused")
