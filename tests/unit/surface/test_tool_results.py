"""What a tool returns is kept as JSON; what cannot be is still recorded as done, and its developer is told."""

from __future__ import annotations

import datetime
import decimal
import enum
import logging
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

import relight
from relight.errors import InvalidMessage
from tests.support.calls import call

DAY = datetime.date(2026, 1, 2)


@dataclass
class Sent:
    to: str
    day: datetime.date


class Item(msgspec.Struct):
    name: str


class Paid(pydantic.BaseModel):
    amount: decimal.Decimal
    day: datetime.date


class Size(enum.Enum):
    LARGE = "l"


class Name(str):
    pass


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


VALUES: list[tuple[Any, Any]] = [
    ({"a": [1, None, (2.5, True)]}, {"a": [1, None, [2.5, True]]}),
    (Sent("ada", DAY), {"to": "ada", "day": "2026-01-02"}),
    ([Item("desk")], [{"name": "desk"}]),
    (Paid(amount=decimal.Decimal("1.10"), day=DAY), {"amount": "1.10", "day": "2026-01-02"}),
    ({"when": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)}, {"when": "2026-01-02T00:00:00Z"}),
    (decimal.Decimal("1.10"), "1.10"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Size.LARGE, "l"),
    (Path("a/b"), "a/b"),
    ({3}, [3]),
    (b"abc", "YWJj"),
    (Counter("aab"), {"a": 2, "b": 1}),
    ({1: Name("x")}, {"1": "x"}),
]
UNKEPT: list[tuple[Any, str]] = [
    (object(), "<object object at "),
    (float("nan"), "nan"),
    (Unprintable(), "<Unprintable, whose repr raises RuntimeError>"),
    (iter(range(0)), "<range_iterator object "),
]


def returned(value: Any, effect: Any = "once") -> Any:
    """The call of a tool that returned this."""
    with relight.open("memory:") as rl, rl.session("a") as s:
        s.append(call("c1", "t"))
        s.run_tool(s.pending_calls()[0], [relight.tool(effect=effect, name="t")(lambda: value)])
        return s.calls()[0]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=str)
def test_results_are_kept_as_json(value: Any, expected: Any) -> None:
    ended = returned(value)
    assert (ended.result, ended.success) == (expected, True)
    with relight.open("memory:") as rl, rl.session("a") as s:
        assert [s.once("k", lambda: value), s.once("k", lambda: "never")] == [expected] * 2


@pytest.mark.parametrize(("value", "shown"), UNKEPT, ids=["object", "nan", "unprintable", "iterator"])
def test_what_cannot_be_kept_is_done_all_the_same_and_its_developer_is_told(
    value: Any, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "relight"):
        ended = returned(value)
    assert (ended.success, ended.in_doubt, ended.result.startswith(shown)) == (True, False, True)
    assert ["'t' is done, but what it returned cannot be kept" in one.getMessage() for one in caplog.records] == [True]
    with relight.open("memory:") as rl:
        with pytest.raises(InvalidMessage, match="is done, but what it returned"), rl.session("a") as s:
            s.once("k", lambda: value)
        with rl.session("a") as s:
            assert s.once("k", lambda: "never").startswith(shown)
