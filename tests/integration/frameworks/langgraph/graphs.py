"""Small graphs, and checkpoints made by hand, for the tests of the saver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt


class Chat(TypedDict):
    messages: Annotated[list[Any], add_messages]


def config(thread: str, id: str | None = None, ns: str = "") -> Any:
    found: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
    if id is not None:
        found["configurable"]["checkpoint_id"] = id
    return found


def checkpoint(values: dict[str, Any], version: int = 1, **more: Any) -> Any:
    return {
        "v": 4,
        "id": str(uuid6()),
        "ts": "2026-11-15T12:00:00+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, version),
        "versions_seen": {"agent": dict.fromkeys(values, version)},
        "updated_channels": list(values),
        **more,
    }


def put(saver: Any, at: Any, values: dict[str, Any], version: int = 1, **metadata: Any) -> Any:
    """One checkpoint in which every channel is new."""
    made = checkpoint(values, version)
    whole = {"source": "loop", "step": version, "parents": {}, **metadata}
    return saver.put(at, made, whole, dict.fromkeys(values, version))


def conversation(saver: Any, thread: str, turns: int, *, words: str = "word " * 40) -> list[Any]:
    """So many checkpoints, each with one message more; their configs."""
    messages: list[Any] = []
    at, made = config(thread), []
    for number in range(1, turns + 1):
        kind = AIMessage if number % 2 else HumanMessage
        messages = [*messages, kind(content=f"{number}: {words}", id=f"m{number}")]
        at = put(saver, at, {"messages": messages}, number)
        made.append(at)
    return made


def asking(keep: Callable[[Any], None] | None = None) -> Any:
    """a, then b that asks a person, then the end. `keep`: what a node does with the config of its run."""

    def begin(state: Chat, config: RunnableConfig) -> dict[str, Any]:
        if keep is not None:
            keep(config)
        return {"messages": [AIMessage(content="working")]}

    graph = StateGraph(Chat)
    graph.add_node("a", begin)
    graph.add_node("b", lambda state: {"messages": [AIMessage(content=f"answer: {interrupt('may I?')}")]})
    graph.add_edge(START, "a")
    graph.add_edge("a", "b")
    graph.add_edge("b", END)
    return graph


def counting(steps: int, effects: Path, between: Callable[[int], None] = lambda number: None) -> Any:
    """So many supersteps, each of which writes one line to a file: the effect that must not happen twice."""

    def work(state: Chat) -> dict[str, Any]:
        number = len(state["messages"])
        between(number)
        with open(effects, "a") as file:
            file.write(f"{number}\n")
        return {"messages": [AIMessage(content=str(number))]}

    graph = StateGraph(Chat)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda state: "work" if len(state["messages"]) <= steps else END)
    return graph
