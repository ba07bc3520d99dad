"""`relight import-langgraph`: threads of LangGraph's own savers, as data, read back before they count."""

from __future__ import annotations

import dataclasses
import json
import pickle
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime, time, timedelta, timezone
from enum import Enum
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import Item, SearchItem
from langgraph.types import Command
from pydantic import BaseModel, SecretStr

import relight
from relight.cli.main import main
from relight.frameworks.langgraph import RelightSaver
from relight.journal.codec import encoded
from tests.integration.frameworks.langgraph.graphs import Chat, asking, config
from tests.support.postgres_server import Server


class Size(Enum):
    SMALL = "s"


class Part(BaseModel):
    name: str
    size: Size = Size.SMALL


class Order(BaseModel):
    parts: list[Part]


@dataclasses.dataclass
class Note:
    text: str


class Shop(Chat):
    order: Any
    note: Any


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ITEM: dict[str, Any] = {"key": "k", "namespace": ("a", "b"), "value": {"x": 1}, "created_at": NOON, "updated_at": NOON}
FOUND = {
    "order": Order(parts=[Part(name="a")]),
    "note": [Note("n"), Size.SMALL, NOON, Item(**ITEM), SearchItem(**ITEM), SecretStr("s")],
}


def shopping() -> Any:
    graph = StateGraph(Shop)
    odd = {"u": UUID(int=7), "s": {1, 2}, "b": b"\0", "t": (1, 2), 3: None}
    graph.add_node("look", lambda state: {**FOUND, "messages": [ToolMessage("x", tool_call_id="c", artifact=odd)]})
    graph.add_edge(START, "look")
    graph.add_edge("look", END)
    return graph


@contextmanager
def sqlite_saver(path: Path) -> Iterator[SqliteSaver]:
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        saver = SqliteSaver(connection)
        saver.setup()
        yield saver
        connection.commit()
    finally:
        connection.close()


def run(store: Path, *arguments: str) -> tuple[int, Any]:
    said = StringIO()
    with redirect_stdout(said):
        code = main(["--store", str(store), "import-langgraph", *arguments, "--json"])
    return code, json.loads(said.getvalue() or "null")


def histories(graph: Any, thread: str) -> list[Any]:
    return [(one.values, one.next, one.metadata, one.interrupts) for one in graph.get_state_history(config(thread))]


@pytest.fixture(params=["sqlite", "postgres"])
def theirs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Any]]:
    """The address of a store of LangGraph's own, and its saver."""
    if request.param == "sqlite":
        with sqlite_saver(tmp_path / "theirs.db") as saver:
            yield str(tmp_path / "theirs.db"), saver
        return
    server: Server = request.getfixturevalue("postgres")
    url = server.database()
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        yield url, saver


@pytest.mark.filterwarnings("ignore")
def test_threads_are_copied_whole_and_go_on_here(theirs: tuple[str, Any], tmp_path: Path) -> None:
    url, saver = theirs
    before = asking().compile(checkpointer=saver)
    shop = shopping().compile(checkpointer=saver)
    for thread in ("1", "a b"):
        before.invoke({"messages": ["go"]}, config(thread))
    shop.invoke({"messages": ["buy"]}, config("shop"))
    if hasattr(saver, "conn") and hasattr(saver.conn, "commit"):
        saver.conn.commit()
    store = tmp_path / "r.db"
    code, dry = run(store, url, "--dry-run")
    assert (code, [one["outcome"] for one in dry["threads"]]) == (0, ["copied"] * 3)
    with relight.open(store) as rl:
        assert list(rl.sessions.list()) == []
    code, report = run(store, url, "--thread", "1")
    assert (code, len(report["threads"])) == (0, 1)
    code, report = run(store, url)
    assert code == 0
    assert [(one["thread"], one["outcome"]) for one in report["threads"]] == [
        ("1", "here"),
        ("a b", "copied"),
        ("shop", "copied"),
    ]
    assert {name.rpartition(".")[2] for name in report["types"]} == {"Order", "Note", "Size"}
    with relight.open(store) as rl:
        ours = RelightSaver(rl)
        after = asking().compile(checkpointer=ours)
        for thread in ("1", "a b"):
            assert histories(after, thread) == histories(before, thread)
            assert after.invoke(Command(resume="ok"), config(thread))["messages"][-1].content == "answer: ok"
            assert rl.history.verify(next(rl.sessions.list(key=thread)).id).ok
        for kind in (Order, Part, Note, Size):
            ours.register(kind)
        assert histories(shopping().compile(checkpointer=ours), "shop") == histories(shop, "shop")
    code, report = run(store, url)
    assert (code, {one["outcome"] for one in report["threads"]}) == (0, {"here"})


@pytest.mark.guarantee("G19")
@pytest.mark.parametrize("poison", ["extension", "method", "pickle", "lc", "numpy", "garbage"])
def test_a_poisoned_row_is_refused_by_name_and_nothing_runs(tmp_path: Path, poison: str) -> None:
    canary = tmp_path / "canary"
    call = ["os", "system", f"touch {canary}"]
    kind, data, named = {
        "extension": ("msgpack", encoded({"x": msgspec.msgpack.Ext(0, encoded(call))}), "os.system"),
        "method": ("msgpack", encoded([msgspec.msgpack.Ext(3, encoded([*call, "__call__"]))]), "os.system"),
        "pickle": ("pickle", pickle.dumps({"a": 1}), "pickle"),
        "lc": ("json", json.dumps({"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {}}), "os.system"),
        "numpy": ("msgpack", encoded(msgspec.msgpack.Ext(6, encoded(["<i8", [1], "C", b"\0" * 8]))), "numpy.ndarray"),
        "garbage": ("msgpack", b"\xc1\x00", "cannot be read"),
    }[poison]
    with sqlite_saver(tmp_path / "theirs.db") as saver:
        asking().compile(checkpointer=saver).invoke({"messages": ["go"]}, config("good"))
        asking().compile(checkpointer=saver).invoke({"messages": ["go"]}, config("bad"))
        value = data.encode() if isinstance(data, str) else data
        saver.conn.execute("UPDATE writes SET type = ?, value = ? WHERE thread_id = 'bad'", (kind, value))
    code, report = run(tmp_path / "r.db", str(tmp_path / "theirs.db"))
    assert code == 4
    by_thread = {one["thread"]: one for one in report["threads"]}
    assert by_thread["good"]["outcome"] == "copied"
    assert by_thread["bad"]["outcome"] == "refused"
    assert named in by_thread["bad"]["why"]
    assert not canary.exists()
    with relight.open(tmp_path / "r.db") as rl:
        assert [one.key for one in rl.sessions.list()] == ["good"]


def test_another_thread_of_the_same_id_is_never_touched(tmp_path: Path) -> None:
    with sqlite_saver(tmp_path / "theirs.db") as saver:
        asking().compile(checkpointer=saver).invoke({"messages": ["theirs"]}, config("t"))
    with relight.open(tmp_path / "r.db") as rl:
        ours = asking().compile(checkpointer=RelightSaver(rl))
        ours.invoke({"messages": ["ours"]}, config("t"))
        code, report = run(tmp_path / "r.db", str(tmp_path / "theirs.db"))
        assert (code, report["threads"][0]["why"]) == (4, "there is another thread of this id here")
        assert ours.get_state(config("t")).values["messages"][0].content == "ours"


@pytest.mark.parametrize("odd", [[1], None, "text", 7, {"v": 4, "channel_values": [1]}, {"v": 4, "$": "map"}])
def test_a_row_that_is_no_checkpoint_is_refused_and_the_others_are_copied(tmp_path: Path, odd: Any) -> None:
    with sqlite_saver(tmp_path / "theirs.db") as saver:
        for thread in ("bad", "good", "odd"):
            asking().compile(checkpointer=saver).invoke({"messages": ["go"]}, config(thread))
        saver.conn.execute("UPDATE checkpoints SET checkpoint = ? WHERE thread_id = 'bad'", (encoded(odd),))
        saver.conn.execute("UPDATE checkpoints SET metadata = '[1]' WHERE thread_id = 'odd'")
    code, report = run(tmp_path / "r.db", str(tmp_path / "theirs.db"))
    assert code == 4
    assert [(one["thread"], one["outcome"]) for one in report["threads"]] == [
        ("bad", "refused"),
        ("good", "copied"),
        ("odd", "refused"),
    ]


def test_what_differs_when_it_is_read_back_does_not_stay(tmp_path: Path) -> None:
    with sqlite_saver(tmp_path / "theirs.db") as saver:
        asking().compile(checkpointer=saver).invoke({"messages": ["go"]}, config("t"))
    with sqlite3.connect(tmp_path / "theirs.db") as connection:  # two rows of one id, which no saver writes
        connection.execute("ALTER TABLE checkpoints RENAME TO former")
        connection.execute("CREATE TABLE checkpoints AS SELECT * FROM former UNION ALL SELECT * FROM former")
    connection.close()
    for _ in range(2):
        code, report = run(tmp_path / "r.db", str(tmp_path / "theirs.db"))
        assert (code, report["threads"][0]["why"]) == (4, "what was read back differs from its source")
        with relight.open(tmp_path / "r.db") as rl:
            assert list(rl.sessions.list()) == []


def test_a_time_zone_without_a_name_is_loaded(tmp_path: Path) -> None:
    zones = [timezone.utc, timezone(timedelta(hours=2)), timezone(timedelta(hours=2), "X")]  # noqa: UP017
    found = [*zones, *(time(1, 2, tzinfo=zone) for zone in zones)]
    with sqlite_saver(tmp_path / "theirs.db") as saver:
        graph: Any = StateGraph(Shop)
        graph.add_node("tell", lambda state: {"note": found})
        graph.add_edge(START, "tell")
        graph.add_edge("tell", END)
        graph.compile(checkpointer=saver).invoke({"messages": ["go"]}, config("t"))
    assert run(tmp_path / "r.db", str(tmp_path / "theirs.db"))[0] == 0
    with relight.open(tmp_path / "r.db") as rl:
        loaded = RelightSaver(rl).get_tuple(config("t"))
        assert loaded is not None
        assert repr(loaded.checkpoint["channel_values"]["note"]) == repr(found)


@pytest.mark.parametrize(("what", "code"), [("missing.db", 3), ("text.db", 5), ("empty.db", 5)])
def test_what_is_no_store_of_theirs_is_said(tmp_path: Path, what: str, code: int) -> None:
    (tmp_path / "text.db").write_text("not a database at all, but long enough to be looked at" * 20)
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "empty.db").touch()
    assert run(tmp_path / "r.db", str(tmp_path / what)) == (code, None)
