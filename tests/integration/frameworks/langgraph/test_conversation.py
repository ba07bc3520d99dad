"""What was said in a thread is told as any conversation is, from the records; without LangGraph."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.graph.message import add_messages

import relight
from relight.frameworks.langgraph import RelightSaver
from relight.frameworks.langgraph.conversation import conversation, spoken
from relight.journal.formats.registry import detect
from tests.integration.frameworks.conftest import Open
from tests.integration.frameworks.langgraph.graphs import config, put

CALL = {"name": "sh", "args": {"command": "ls"}, "id": "c1", "type": "tool_call"}
SAID = [
    SystemMessage("be brief", id="s"),
    HumanMessage("list the files", id="h"),
    AIMessage([{"type": "text", "text": "looking"}, {"type": "tool_use", "id": "c1"}], tool_calls=[CALL], id="a"),
    ToolMessage("no such directory", tool_call_id="c1", status="error", id="t"),
    AIMessage("there are none", id="b"),
]
SHOWN = [
    "system: Text be brief",
    "user: Text list the files",
    "assistant: Text looking, Call c1",
    "tool: Result error no such directory",
    "assistant: Text there are none",
]


def shown(messages: Any) -> list[str]:
    """Each message of the neutral view on a line."""

    def reported(block: Any) -> str:
        words = (getattr(block, name, None) for name in ("id", "status", "text"))
        return " ".join([type(block).__name__, *(word for word in words if word)])

    views = detect(messages).read(messages)
    return [f"{view.role}: {', '.join(map(reported, view.blocks))}" for view in views]


def saved(saver: Any, messages: list[Any]) -> Any:
    """One checkpoint a message."""
    at = config("t")
    state: list[Any] = []
    for number, message in enumerate(messages, 1):
        state = add_messages(state, [message])  # type: ignore[assignment]
        at = put(saver, at, {"messages": state}, number)
    return at


def test_a_thread_is_told_as_a_conversation_and_step_by_step(fresh: Open) -> None:
    rl = fresh()
    saver = RelightSaver(rl)
    at = saved(saver, SAID)
    assert shown(rl.history.load("t").messages) == SHOWN
    assert shown([one for event in rl.history.events("t") for one in event.messages]) == SHOWN
    third = [one.seq for one in rl.history.checkpoints("t") if one.kind == "state"][2]
    assert shown(rl.history.load(f"t@{third}").messages) == SHOWN[:3]
    gone = add_messages(SAID, [RemoveMessage(id="h")])  # type: ignore[arg-type]
    put(saver, at, {"messages": gone}, 9)
    assert shown(rl.history.load("t").messages) == [SHOWN[0], *SHOWN[2:]]
    saver.close()
    rl.history.rewind(f"t@{third}")
    assert shown(rl.history.load("t").messages) == SHOWN[:3]


def test_a_list_that_is_written_whole_again_is_not_told_twice(location: Open) -> None:
    rl = location()
    saver = RelightSaver(rl)
    at = config("t")
    state: list[Any] = []
    for number in range(200):
        state = [*state[-3:], HumanMessage(str(number), id=str(number))]
        at = put(saver, at, {"messages": state}, number + 1)
    reported = [one["content"] for event in rl.history.events("t") for one in event.messages]
    assert reported == [str(number) for number in range(200)]
    assert [one["content"] for one in rl.history.load("t").messages] == ["196", "197", "198", "199"]


def test_plain_dicts_are_told_and_what_is_no_message_is_not(location: Open) -> None:
    rl = location()
    put(RelightSaver(rl), config("t"), {"messages": [{"role": "user", "content": "hi"}, "text", {"a": 1}, 5]})
    assert rl.history.load("t").messages == [{"role": "user", "content": "hi"}]


def test_it_is_told_where_langgraph_is_not_installed(tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        saver = RelightSaver(rl)
        saved(saver, SAID)
        saver.close()
    program = (
        "import sys; sys.modules['langgraph'] = sys.modules['langchain_core'] = None\n"
        f"import relight; rl = relight.open({str(tmp_path / 'r.db')!r})\n"
        "print([one['role'] for one in rl.history.load('t').messages])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['system', 'user', 'assistant', 'tool', 'assistant']"


def put_of(part: Any) -> Any:
    return {"kind": "put", "id": "a", "lists": {"messages": part}}


@pytest.mark.parametrize(
    "odd",
    [
        None,
        5,
        [],
        {},
        {"kind": "put"},
        {"kind": "put", "id": 3, "lists": 4},
        {"kind": "put", "id": "a", "at": {"messages": 7}},
        put_of({"size": 1, "base": 1, "keep": 1}),
        put_of({"size": 1, "add": [{"$": "message", "t": "AIMessage", "v": 1}]}),
        put_of({"size": 9, "then": [[0]], "add": 1}),
    ],
)
def test_a_record_of_any_form_is_read(odd: Any) -> None:
    assert spoken(odd) == conversation({1: odd}) == conversation({}) == []
