"""With `RELIGHT_REDACT=all` no secret of a framework's rests in its store, and what is read back goes on."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pydantic
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

import relight
from relight.errors import UsageError
from relight.frameworks.claude_agent_sdk import RelightSessionStore
from relight.frameworks.cursor import RelightAgentStore
from relight.frameworks.langgraph import RelightSaver
from relight.frameworks.openai_agents import RelightSession
from relight.journal.codec import decode_changes
from tests.integration.frameworks.claude_agent_sdk.test_store import KEY, append, turn
from tests.integration.frameworks.cursor.test_store import a_run, agent, calls, every_event
from tests.integration.frameworks.langgraph.graphs import config
from tests.support.files_on_disk import files_below

TOKEN = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
PASSWORD = "hunter-22-fake!"
HIDDEN = "[redacted:github-token]"


class Account(pydantic.BaseModel):
    name: str
    password: str


class Keeps(TypedDict, total=False):
    messages: list[Any]
    account: Account
    settings: dict[str, Any]
    raw: bytes
    many: tuple[Any, ...]
    said: str


def keeping() -> Any:
    graph: Any = StateGraph(Keeps)
    graph.add_node(
        "keep",
        lambda state: {
            "messages": [
                HumanMessage(f"use {TOKEN}", id="m1"),
                AIMessage("", id="m2", tool_calls=[{"name": "sh", "args": {"token": TOKEN}, "id": "c1"}]),
            ],
            "account": Account(name="ada", password=PASSWORD),
            "settings": {"password": PASSWORD, TOKEN: 1, "port": 5432},
            "raw": f"key {TOKEN}".encode(),
            "many": (TOKEN, {TOKEN}, {1: TOKEN}),
        },
    )
    graph.add_node("ask", lambda state: {"said": interrupt(f"may I use {TOKEN}?")})
    graph.add_edge(START, "keep")
    graph.add_edge("keep", "ask")
    graph.add_edge("ask", END)
    return graph


def written(rl: Any, directory: Path) -> Iterator[bytes]:
    """Every byte of the store, and every body as it is behind its compression."""
    for _, data in files_below(directory):
        yield data
    store = rl._context.store
    for info in rl.sessions.list():
        yield repr(rl.history.load(info.id)).encode()
        for step in store.steps(info.id):
            yield repr(decode_changes(step.body)).encode()


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELIGHT_REDACT", "all")


def test_a_graphs_values_are_redacted_and_its_thread_goes_on(everything: None, tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        keeping().compile(checkpointer=RelightSaver(rl)).invoke({}, config("t"))
        seen = b"".join(written(rl, tmp_path))
        assert TOKEN.encode() not in seen and PASSWORD.encode() not in seen
        assert HIDDEN.encode() in seen
    with relight.open(tmp_path / "r.db") as rl:
        graph = keeping().compile(checkpointer=RelightSaver(rl))
        state = graph.get_state(config("t"))
        assert state.next == ("ask",)
        done = graph.invoke(Command(resume=f"yes, {TOKEN}"), config("t"))
        assert done["messages"][0] == HumanMessage(f"use {HIDDEN}", id="m1")
        assert done["messages"][1].tool_calls[0]["args"] == {"token": HIDDEN}
        assert done["account"] == Account(name="ada", password="[redacted:password]")
        assert done["settings"] == {"password": "[redacted:password]", HIDDEN: 1, "port": 5432}
        assert done["raw"] == f"key {HIDDEN}".encode()
        assert done["many"] == (HIDDEN, {HIDDEN}, {1: HIDDEN})
        assert len(list(graph.get_state_history(config("t")))) == 4
        assert graph.get_state(config("t")).values["said"] == f"yes, {HIDDEN}"
        assert TOKEN.encode() not in b"".join(written(rl, tmp_path))


def test_without_it_a_graphs_values_come_back_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELIGHT_REDACT", raising=False)
    with relight.open(tmp_path / "r.db") as rl:
        keeping().compile(checkpointer=RelightSaver(rl)).invoke({}, config("t"))
    with relight.open(tmp_path / "r.db") as rl:
        values = keeping().compile(checkpointer=RelightSaver(rl)).get_state(config("t")).values
    assert values["settings"] == {"password": PASSWORD, TOKEN: 1, "port": 5432}
    assert values["raw"] == f"key {TOKEN}".encode()


def test_items_of_the_openai_agents_sdk_are_redacted(everything: None, tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        session = RelightSession("talk", rl)
        asyncio.run(session.add_items([{"role": "user", "content": f"use {TOKEN}"}]))
        assert asyncio.run(session.get_items()) == [{"role": "user", "content": f"use {HIDDEN}"}]
        assert TOKEN.encode() not in b"".join(written(rl, tmp_path))


def test_lines_of_the_claude_agent_sdk_are_redacted(everything: None, tmp_path: Path) -> None:
    with relight.open(tmp_path / "r.db") as rl:
        store = RelightSessionStore(rl)
        lines = turn(f"use {TOKEN}")
        append(store, lines)
        append(store, lines)
        found = asyncio.run(store.load(KEY))
        assert found is not None and len(found) == 2, "a line that comes again is known, though it was redacted"
        assert TOKEN not in repr(found) and HIDDEN in repr(found)
        assert TOKEN.encode() not in b"".join(written(rl, tmp_path))


def test_records_of_the_cursor_sdk_are_redacted(everything: None, tmp_path: Path) -> None:
    blob = base64.b64encode(f"\x0a\x20key {TOKEN} end".encode()).decode()
    with relight.open(tmp_path / "r.db") as rl:
        store = RelightAgentStore(rl)
        call = calls(store)
        call("agents.create", agent=agent("a1", title=f"use {TOKEN}", env={"password": PASSWORD}))
        call("runs.create", run=a_run("r1", "a1", prompt=f"use {TOKEN}"))
        event = {"runId": "r1", "eventType": "delta", "payload": {"text": f"use {TOKEN}", TOKEN: [TOKEN]}}
        for _ in range(2):
            call("runEvents.append", **event, idempotencyKey="k1")
        with pytest.raises(UsageError, match="idempotencyKey"):
            call("runEvents.append", **event, idempotencyKey=f"k-{TOKEN}")
        call("runs.update", run=a_run("r1", "a1", status="error", error=f"refused {TOKEN}"))
        call("checkpoints.create", agentId="a1", blobId="b1", data=blob)
        seen = b"".join(written(rl, tmp_path))
        hidden_forms = (TOKEN.encode(), PASSWORD.encode(), blob.encode(), base64.b64encode(TOKEN.encode()))
        assert [one for one in hidden_forms if one in seen] == []
        assert call("agents.get", agentId="a1")["title"] == f"use {HIDDEN}"
        [kept] = every_event(call, "r1")
        assert kept["payload"] == {"text": f"use {HIDDEN}", HIDDEN: [HIDDEN]}, "known again, though it was redacted"
        assert call("checkpoints.get", agentId="a1", blobId="b1") == {"found": False}, "not a text that is no base64"
