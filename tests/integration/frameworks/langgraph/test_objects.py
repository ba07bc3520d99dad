"""Objects that people put into a graph's state come back as they were: what LangGraph's own savers keep, ours keep."""

from __future__ import annotations

import dataclasses
import re
import sys
import threading
from datetime import datetime, time, timedelta, timezone, tzinfo
from functools import cached_property
from typing import Any, Generic, TypeVar

import pytest
from langchain_core.messages import ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.store.base import Item, SearchItem
from langgraph.store.memory import InMemoryStore
from pydantic import BaseModel, ConfigDict

from relight.errors import InvalidMessage, UnknownType, UsageError
from relight.frameworks.langgraph import RelightSaver
from relight.frameworks.langgraph.values import Values
from relight.journal.redaction.redactor import Redactor
from tests.integration.frameworks.conftest import Open
from tests.integration.frameworks.langgraph.graphs import Chat, config, put
from tests.support import small_numpy

T = TypeVar("T")


def kept(value: Any) -> Any:
    """The value as another program reads it that knows its class."""
    values = Values()
    return values.unpack(values.pack({"x": [value]}, "x"), "x")["x"][0]


class Elsewhere(tzinfo):
    """A zone of another library, as those of pytz and dateutil."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return timedelta(hours=2) if moment is not None else None

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str:
        return "elsewhere"


class Visit(BaseModel):
    at: datetime
    until: time | None = None


def test_a_moment_that_a_model_read_from_text_is_kept_with_its_offset() -> None:
    for text, offset in (("2026-11-19T20:00:00Z", 0), ("2026-11-19T20:00:00+02:00", 2)):
        visit = Visit.model_validate({"at": text, "until": "21:00:00Z"})
        back = kept(visit)
        assert back == visit and back.at.utcoffset() == timedelta(hours=offset)
        assert back.until is not None and back.until.utcoffset() == timedelta()
        assert kept(visit.at) == visit.at


def test_a_moment_in_a_zone_of_another_library_is_kept_with_its_offset() -> None:
    moment = datetime(2026, 7, 1, 12, tzinfo=Elsewhere())
    assert kept(moment) == moment
    assert kept(moment).tzinfo == timezone(timedelta(hours=2))


def test_what_a_store_was_searched_for_is_kept() -> None:
    store = InMemoryStore()
    store.put(("facts", "me"), "colour", {"is": "red"})
    (found,) = store.search(("facts",))
    item = store.get(("facts", "me"), "colour")
    assert type(found) is SearchItem
    for one in (found, item):
        back = kept(one)
        assert back == one and type(back) is type(one)
        assert {name: getattr(back, name) for name in Item.__slots__} == {
            name: getattr(one, name) for name in Item.__slots__
        }
    assert kept(SearchItem(("a",), "k", {}, found.created_at, found.updated_at, 0.5)).score == 0.5


class Patch(BaseModel):
    name: str | None = None
    age: int = 1
    tags: list[str] = []
    made: datetime = datetime(2026, 1, 1)

    @cached_property
    def lock(self) -> Any:
        return threading.Lock()


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    text: str = ""


@pytest.mark.parametrize(
    "model",
    [
        Patch(),
        Patch(name=None),
        Patch(age=1, tags=[]),
        Patch.model_construct({"age"}, name="x", age=3),
        Loose.model_validate({"more": None}),
        Loose.model_validate({"text": "", "more": [1]}),
    ],
    ids=repr,
)
def test_which_fields_of_a_model_were_set_is_kept(model: BaseModel) -> None:
    back = kept(model)
    assert back == model
    assert back.model_fields_set == model.model_fields_set
    assert back.model_dump(exclude_unset=True) == model.model_dump(exclude_unset=True)


def test_what_a_model_computed_once_is_no_field_of_it() -> None:
    patch = Patch(name="x")
    assert patch.lock
    back = kept(patch)
    assert back.name == "x" and "lock" not in back.__dict__


@dataclasses.dataclass
class Cart(Generic[T]):
    lines: list[T]
    parts: list[Cart[T]] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.total, self.seen = len(self.lines), {"at": (1, {2})}
        self._lock = threading.Lock()
        self.whole: Any = self
        self.ring: list[Any] = []
        self.ring.append(self.ring)
        for part in self.parts:
            part.whole = self

    @cached_property
    def words(self) -> list[str]:
        return [str(one) for one in self.lines]


def test_plain_attributes_of_a_dataclass_are_kept_beside_its_fields() -> None:
    cart = Cart([1, 2], [Cart([3]), Cart([4])])
    assert cart.words == ["1", "2"]
    back = kept(cart)
    assert (back.lines, back.total, back.seen) == ([1, 2], 2, {"at": (1, {2})})
    assert [part.total for part in back.parts] == [1, 1]
    assert back.words == ["1", "2"]
    assert not {"_lock", "whole", "ring"} & set(vars(back)), "no data of its own"


class Box(BaseModel, Generic[T]):
    item: T


BOXES = (Box[int], Box[list[Visit]])
"""as the annotations of a graph's schema make them"""


def test_a_generic_model_is_found_by_a_program_that_has_not_saved_one() -> None:
    visits = [Visit(at=datetime(2026, 1, 1))]
    for box in (Box[int](item=1), Box[list[Visit]](item=visits), Box(item="x")):
        back = Values().unpack(Values().pack(box, "x"), "x")
        assert back == box and type(back) is type(box)
    back = Values().decode({"$": "model", "t": f"{__name__}.Box[Elsewhere]", "v": {"item": 1}}, "x")
    assert (type(back), back.item) == (Box, 1), "whose parameters this program has not made"
    for name in ("Elsewhere[int]", "Nothing[int]", "Box.item[int]", "[int]"):
        with pytest.raises(UnknownType):
            Values().decode({"$": "model", "t": f"{__name__}.{name}", "v": {"item": 1}}, "x")


@dataclasses.dataclass
class Row(dict[str, Any]):
    number: int = 0


@dataclasses.dataclass
class Refused(Exception):
    why: str


def test_a_dataclass_that_is_something_else_too_is_kept_as_that() -> None:
    row = Row(3)
    row["a"] = 1
    assert kept(row) == {"a": 1}
    assert kept(Refused("no")) == repr(Refused("no"))
    for kind in (Row, Refused):
        with pytest.raises(UsageError, match="cannot be registered"):
            Values().register(kind)
    with pytest.raises(InvalidMessage, match="cannot be one"):
        Values().decode({"$": "datetime", "v": "noon"}, "x")


@pytest.mark.parametrize(
    ("kind", "shape", "content", "order"),
    [
        ("<f8", (2, 2), bytes(range(32)), "F"),
        ("<i4", (), b"\1\0\0\0", "C"),
        ("<M8[25s]", (1,), bytes(8), "C"),
        ("<U1", (1,), b"a\0\0\0", "C"),
        ("<f4", (0, 3), b"", "C"),
    ],
)
def test_an_array_comes_back_as_one_that_can_be_written_to(
    kind: str, shape: tuple[int, ...], content: bytes, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_numpy.use(monkeypatch)
    back = kept(small_numpy.array(kind, shape, content, order))
    assert (type(back), back.dtype.str, back.shape, back.flags.f_contiguous) == (
        small_numpy.Array,
        kind,
        shape,
        order == "F",
    )
    assert back.buffer == content and isinstance(back.buffer, bytearray)


def test_an_array_of_objects_and_one_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Values().encode(small_numpy_of(monkeypatch), "x")
    kind, shape, order, content = stored["v"]
    for bad in (
        ["|O8", shape, order, content],
        ["<f8,(9,)f8", shape, order, content],
        [kind, [99], order, content],
        [kind, shape, order, "?"],
        [1, 2, 3, 4],
        [],
    ):
        with pytest.raises(InvalidMessage, match="cannot be one"):
            Values().decode({"$": "array", "v": bad}, "x")
    texts = small_numpy.array("<U1", (1,), b"a\0\0\0")
    hiding = Values(Redactor)
    assert hiding.encode(small_numpy_of(monkeypatch), "x") == stored
    for values, one in ((Values(), small_numpy.array("|O8", (1,), bytes(8))), (hiding, texts)):
        with pytest.raises(UnknownType):
            values.encode(one, "x")
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(UsageError, match="numpy, which is not installed"):
        Values().decode(stored, "x")


def small_numpy_of(monkeypatch: pytest.MonkeyPatch) -> small_numpy.Array:
    small_numpy.use(monkeypatch)
    return small_numpy.array("<f8", (2,), bytes(16))


def test_arrays_are_saved_wherever_a_graph_puts_them(fresh: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """In lists and mappings, whose parts are compared with those before."""
    saver, one = RelightSaver(fresh()), small_numpy_of(monkeypatch)
    message = ToolMessage("x", tool_call_id="c", artifact={"raw": one})
    many: list[Any] = [one, {"a": one}, [one, [one]], message]
    at = put(saver, config("t"), {"many": many, "one": one, "by": {"a": one}})
    at = put(saver, at, {"many": [*many, one], "one": one, "by": {"a": one, "b": [one]}}, 2)
    found = saver.get_tuple(at)
    assert found is not None
    values = found.checkpoint["channel_values"]
    assert [values["many"][4].buffer, values["one"].buffer, values["by"]["b"][0].buffer] == [bytes(16)] * 3


class Found(Chat):
    facts: Any
    visit: Any


def test_a_graph_that_searches_and_asks_goes_on_in_another_program(location: Open) -> None:
    store = InMemoryStore()
    store.put(("facts",), "colour", {"is": "red"})
    visit = Visit.model_validate_json('{"at": "2026-11-19T20:00:00Z"}')
    graph: Any = StateGraph(Found)
    graph.add_node("look", lambda state: {"facts": store.search(("facts",)), "visit": visit})
    graph.add_node("use", lambda state: {"visit": state["visit"].at.isoformat(), "facts": state["facts"][0].value})
    graph.add_edge(START, "look")
    graph.add_edge("look", "use")
    with RelightSaver(location()) as saver:
        graph.compile(checkpointer=saver, interrupt_before=["use"]).invoke({"messages": []}, config("t"))
    again = graph.compile(checkpointer=RelightSaver(location()))
    done = again.invoke(None, config("t"))
    assert re.match(r"2026-11-19T20:00:00\+00:00", done["visit"]) and done["facts"] == {"is": "red"}
