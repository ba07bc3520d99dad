"""What a channel may hold comes back as it was; what is no data is refused, and never run."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import KEEP, Enum, Flag, IntFlag
from ipaddress import ip_address, ip_network
from operator import add
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any, ClassVar, NamedTuple, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import hypothesis.strategies as some
import pytest
from hypothesis import given
from langchain_core.agents import AgentAction
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, Overwrite, Send, interrupt
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from relight.errors import UnknownType, UsageError
from relight.frameworks.langgraph import RelightSaver
from relight.frameworks.langgraph.values import Values
from tests.integration.frameworks.conftest import Open
from tests.integration.frameworks.langgraph.graphs import checkpoint, config, put
from tests.support.figures import Figure


class Said(TypedDict):
    held: Any
    said: Annotated[list[Any], add]


class Colour(Enum):
    RED = "r"


class Access(Flag):
    READ = 1
    WRITE = 2


class Bits(IntFlag, boundary=KEEP):
    LOW = 1


class Line(BaseModel):
    text: str
    amount: Decimal = Decimal("1.50")
    tags: list[str] = Field(default_factory=list)


class Invoice(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    lines: list[Line]
    due: datetime | None = None
    colour: Colour = Colour.RED
    _cached: int = PrivateAttr(default=7)


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: set[int] = dataclasses.field(default_factory=set)


class Pair(NamedTuple):
    left: Any
    right: Any


REGISTERED = (Colour, Access, Bits, Line, Invoice, Point, Pair)
MORE: Any = {"more": (1, 2)}
INVOICE = Invoice(lines=[Line(text="a", tags=["x"]), Line(text="b")], due=datetime(2026, 11, 15, tzinfo=UTC), **MORE)
VALUES: list[Any] = [
    None, True, 0, -(2**70), 2**64, 1.5, math.inf, "", "a\ud800b", "\0", b"\x00\xff", bytearray(b"x"),
    (1, (2, [3])), {1, "a"}, frozenset({2}), deque([1, 2], 5), complex(1, -2), Decimal("1.20"), UUID(int=5),
    datetime(2026, 11, 15, 1, 2, 3, 4), datetime(2026, 11, 15, tzinfo=UTC), time(1, 2, 3), date(2026, 11, 15),
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")), timezone(timedelta(hours=-2), "here"),
    timedelta(-1, 2, 3), ZoneInfo("Asia/Tokyo"), Path("/a/b"), PureWindowsPath("c:\\x"), ip_address("::1"),
    ip_network("10.0.0.0/8"), {"$": "message", "t": "AIMessage", "v": {}}, {1: "a", (2, 3): {"b": {4}}},
    {"a": {"$": 1}},
    [[[]], {}, {"": None}], Send("node", {"arg": (1,)}), Interrupt(value={"q": 1}, id="i"), Overwrite(value=[1]),
    Access.READ, Access.READ | Access.WRITE, Access(0), Bits(9), Bits(0), {Access(3)},
    Command(update={"a": 1}, goto="b"), Colour.RED, INVOICE, Point(1, {2}), Pair(1, Pair(2, 3)),
]  # fmt: skip
MESSAGES: list[Any] = [
    HumanMessage("hi"),
    HumanMessage([{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:..."}}], name="me"),
    AIMessage(
        content=[{"type": "thinking", "thinking": "hm", "signature": "s"}],
        tool_calls=[{"name": "t", "args": {"a": [1]}, "id": "c"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        response_metadata={"model": "m", "at": (1, 2)},
        id="i",
        own_field={"kept": True},
    ),
    AIMessageChunk(content="x", tool_call_chunks=[{"name": "t", "args": "{", "id": "c", "index": 0}]),
    ToolMessage("out", tool_call_id="c", artifact={"raw": b"\0", "at": datetime(2026, 1, 1)}, status="error"),
    SystemMessage("be kind"),
    ChatMessage(content="x", role="critic"),
    FunctionMessage(content="x", name="f"),
    RemoveMessage(id="gone"),
    Document("page", metadata={"n": 1}),
]


@pytest.mark.parametrize(("name", "value"), [("READ|WRITE", 3), ("READ", 1), (None, 0)])
def test_a_flag_that_was_stored_by_its_name_is_read(values: Values, name: str | None, value: int) -> None:
    stored = {"$": "enum", "t": f"{__name__}.Access", "v": {"name": name}}
    assert values.decode(stored, "channel") is Access(value)


@pytest.fixture
def values() -> Values:
    made = Values()
    for kind in REGISTERED:
        made.register(kind)
    return made


def test_every_kind_of_value_comes_back_with_its_type(values: Values) -> None:
    for value in VALUES:
        back = values.unpack(values.pack(value, "channel"), "channel")
        assert type(back) is type(value)
        assert back == value or repr(back) == repr(value)
    assert math.isnan(values.unpack(values.pack(math.nan, ""), ""))
    assert values.unpack(values.pack(memoryview(b"abcd")[::2], ""), "") == b"ac"
    zoned = values.unpack(values.pack(VALUES[23], ""), "")
    assert (zoned.utcoffset(), zoned.fold) == (VALUES[23].utcoffset(), 1)


def test_messages_come_back_whole(values: Values) -> None:
    for message in MESSAGES:
        back = values.unpack(values.pack(message, "messages"), "messages")
        assert type(back) is type(message)
        assert back == message
        assert back.model_dump() == message.model_dump()


def test_a_model_is_restored_without_its_validators_and_is_still_a_model(values: Values) -> None:
    back = values.unpack(values.pack(INVOICE, ""), "")
    assert back.model_dump() == INVOICE.model_dump()
    assert (back._cached, back.more, type(back.lines[0])) == (7, (1, 2), Line)
    assert back.model_copy(update={"lines": []}).lines == []


def test_an_error_is_kept_as_what_it_says(values: Values) -> None:
    assert values.unpack(values.pack(ValueError("no"), ""), "") == "ValueError('no')"


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text() | some.binary(),
    lambda inner: (
        some.lists(inner)
        | some.tuples(inner, inner)
        | some.dictionaries(some.text() | some.just("$") | some.integers(), inner)
    ),
    max_leaves=20,
)


@given(value=JSON)
def test_any_nesting_comes_back(value: Any) -> None:
    values = Values()
    assert values.unpack(values.pack(value, ""), "") == value


class Secretive:
    pass


def test_what_is_no_data_is_refused_on_save_with_its_path(fresh: Open) -> None:
    saver = RelightSaver(fresh())
    at = put(saver, config("t"), {"x": 1})
    odd: list[Any] = [Secretive(), lambda: None, object, iter([])]
    for bad in odd:
        with pytest.raises(UnknownType) as refused:
            put(saver, at, {"x": {"deep": [bad]}}, 2)
        assert "x.deep[0]" in str(refused.value)
        with pytest.raises(UnknownType):
            saver.put_writes(at, [("x", bad)], "task")
    assert len(list(saver.list(config("t")))) == 1
    for wrong in (Secretive, dict, print):
        with pytest.raises(UsageError):
            saver.register(wrong)  # type: ignore[arg-type]


class Text(str):
    """As langchain's own `message.text` is one."""

    __slots__ = ("more",)

    def __str__(self) -> str:
        return "something else"


class Number(int):
    pass


class Ratio(float):
    pass


class Rows(list[Any]):
    def __iter__(self) -> Any:
        return iter(["something else"])


class Fields(dict[str, Any]):
    def items(self) -> Any:
        return [("something", "else")]


class Stamp(datetime):
    pass


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (Text("a"), "a"),
        (AIMessage("hello").text, "hello"),
        (Number(7), 7),
        (Ratio(0.5), 0.5),
        (Rows([Number(1), Text("b")]), [1, "b"]),
        (Fields(a=Text("c")), {"a": "c"}),
        ({Text("key"): 1}, {"key": 1}),
        (Stamp(2026, 11, 15, tzinfo=UTC), datetime(2026, 11, 15, tzinfo=UTC)),
        (re.compile(r"a+", re.IGNORECASE), re.compile(r"a+", re.IGNORECASE)),
    ],
    ids=repr,
)
def test_a_value_of_a_subclass_is_kept_as_its_base_value(value: Any, kept: Any) -> None:
    values = Values()
    found = values.unpack(values.pack({"x": value, "deep": [{"x": value}]}, "x"), "x")
    for one in (found["x"], found["deep"][0]["x"]):
        assert one == kept and type(one) is type(kept)


def test_types_that_the_program_hands_over_or_has_imported_need_no_registering(location: Open) -> None:
    @dataclass
    class Local:
        text: str

    first = RelightSaver(location())
    given = {"line": Line(text="x"), "colour": Colour.RED, "local": Local("y"), "action": AgentAction("t", "i", "l")}
    at = put(first, config("t"), given)
    found = first.get_tuple(at)
    assert found is not None and found.checkpoint["channel_values"] == given
    put(first, config("u"), {name: one for name, one in given.items() if name != "local"})
    again = RelightSaver(location()).get_tuple(config("u"))
    assert again is not None
    assert again.checkpoint["channel_values"] == {name: one for name, one in given.items() if name != "local"}
    with pytest.raises(UnknownType, match=r"Local, which is not registered"):
        RelightSaver(location()).get_tuple(at)


@pytest.mark.parametrize(
    "name",
    [
        "never.imported.Type",
        "fractions.Fraction",
        "string.Template",
        "relight.values.session.Head",
        "no_module",
        "",
        ".",
    ],
)
def test_a_stored_name_leads_to_no_code_that_the_program_does_not_know(name: str) -> None:
    values = Values()
    for mark in ("model", "data", "tuple_of", "enum", "dump"):
        with pytest.raises(UnknownType):
            values.decode({"$": mark, "t": name, "v": {}}, "x")
    assert "never.imported" not in sys.modules


def test_a_class_runs_no_code_of_its_own_when_it_comes_back(location: Open) -> None:
    put(RelightSaver(location()), config("t"), {"x": Loud("a"), "y": LoudModel(text="b")})
    Loud.said.clear()
    found = RelightSaver(location()).get_tuple(config("t"))
    assert found is not None and found.checkpoint["channel_values"]["x"] == Loud("a")
    assert Loud.said == ["made"], "by this comparison alone"


@dataclass
class Loud:
    said: ClassVar[list[str]] = []
    text: str

    def __post_init__(self) -> None:
        self.said.append("made")


class LoudModel(BaseModel):
    text: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        Loud.said.append("new")
        return super().__new__(cls)

    def model_post_init(self, context: Any, /) -> None:
        Loud.said.append("made")


def test_a_serializer_that_would_be_ignored_is_refused(fresh: Open) -> None:
    saver = RelightSaver(fresh())
    with pytest.raises(UsageError, match="EncryptedSerializer would be ignored"):
        saver.serde = EncryptedSerializer(None)  # type: ignore[arg-type]
    assert saver.serde.loads_typed(saver.serde.dumps_typed({"a": (1, 2)})) == {"a": (1, 2)}


def test_a_graph_may_name_its_own_types(fresh: Open) -> None:
    saver = RelightSaver(fresh())
    assert saver.with_allowlist({(__name__, "Line"), ("never.imported", "Type"), (__name__, "Secretive")}) is saver
    put(saver, config("t"), {"x": Line(text="x")})
    assert "never.imported" not in sys.modules


@pytest.mark.guarantee("G19")
def test_no_code_runs_from_poisoned_records(tmp_path: Path, figure: Figure, sample: Callable[..., int]) -> None:
    """In a process of its own, under an audit hook that ends it at the first import, exec, socket or subprocess."""
    program = Path(__file__).with_name("poisoned.py")
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), str(sample(300, proof=20_000))],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])},
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figure("G19", f"LangGraph: {done.stdout.strip()}")


ODD = "a\ud800b"


@pytest.mark.parametrize("odd", [ODD, {ODD: 2**80}, {"k": [ODD]}, AIMessage(ODD)], ids=ascii)
def test_a_text_that_is_no_utf_8_is_kept_wherever_a_graph_puts_it(location: Open, odd: Any) -> None:
    """In a channel, a question, an answer and an error, where the record around it is written in another form."""

    def ask(state: Any) -> Any:
        if not failed:
            failed.append(odd)
            raise ValueError(ODD, odd)
        return {"said": [interrupt(odd)]}

    failed: list[Any] = []
    graph = StateGraph(Said)
    graph.add_node("say", lambda state: {"held": odd, "said": [odd]})
    graph.add_node("ask", ask)
    graph.add_edge(START, "say")
    graph.add_edge("say", "ask")
    at: Any = {"configurable": {"thread_id": "t"}}
    with pytest.raises(ValueError, match="a"):
        graph.compile(checkpointer=RelightSaver(location())).invoke({"held": odd, "said": []}, at)
    asked: Any = graph.compile(checkpointer=RelightSaver(location())).invoke(None, at)
    assert [one.value for one in asked["__interrupt__"]] == [odd]
    app = graph.compile(checkpointer=RelightSaver(location()))
    assert app.invoke(Command(resume=odd), at) == {"held": odd, "said": [odd, odd]}
    assert len(list(app.get_state_history(at))) > 3


def test_one_odd_checkpoint_does_not_change_the_id_of_another(fresh: Open) -> None:
    saver = RelightSaver(fresh())
    made = checkpoint({"x": 1}, more={"own": (1, 2)})
    metadata: Any = {"source": "loop", "step": 1, "extra": {"s": {1}}}
    at = saver.put(config("t\0/../ü"), made, metadata, {"x": 1})
    found = saver.get_tuple(at)
    assert found is not None
    assert found.checkpoint["more"] == {"own": (1, 2)}  # type: ignore[typeddict-item]
    assert found.metadata["extra"] == {"s": {1}}  # type: ignore[typeddict-item]
