"""What a tool returns is kept as JSON; what cannot be is still recorded as done, and its developer is told."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
import logging
import sqlite3
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

import relight
import relight.aio
from relight.errors import InvalidMessage, UsageError
from relight.testing import ScriptedModel
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
    ({"a": 1}.keys(), ["a"]),
    (range(2), [0, 1]),
]
UNKEPT: list[tuple[Any, str]] = [
    (object(), "<object object at "),
    (float("nan"), "nan"),
    (Unprintable(), "<Unprintable, whose repr raises RuntimeError>"),
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


def test_a_generator_is_run_to_its_end_as_part_of_the_call() -> None:
    assert returned(map(str, [1, 2])).result == ["1", "2"]
    ran: list[str] = []

    def lines(fails: bool = False) -> Iterator[str]:
        ran.append("began")
        yield "a"
        if fails:
            raise OSError("no more")
        yield "b"

    def fails() -> Iterator[str]:
        return lines(fails=True)

    async def later() -> AsyncIterator[str]:
        ran.append("awaited")
        yield "c"

    async def awaited_lines() -> Iterator[str]:
        return lines()

    async def awaited_later() -> AsyncIterator[str]:
        return later()

    async def main() -> Any:
        async with relight.aio.open("memory:") as rl, rl.session("a") as s:
            noted = [await s.once("k", later), await s.once("l", awaited_lines), await s.once("m", awaited_later)]
            tools: list[Callable[..., Any]] = [lines, later, awaited_lines, awaited_later]
            model = ScriptedModel([[{one.__name__: {}} for one in tools], "done"])
            await s.run(model, tools=tools, prompt="go")
            return [one.result for one in await s.calls()], noted

    assert asyncio.run(main()) == ([["a", "b"], ["c"], ["a", "b"], ["c"]], [["c"], ["a", "b"], ["c"]])
    assert sorted(ran) == ["awaited"] * 4 + ["began"] * 3
    ran.clear()
    with relight.open("memory:") as rl, rl.session("a") as s:
        s.run(ScriptedModel([[{"lines": {}}, {"fails": {}}], "done"]), tools=[lines, fails], prompt="go")
        assert [(one.success, one.result) for one in s.calls()] == [(True, ["a", "b"]), (False, "OSError: no more")]


class Cursor:
    """As drivers of databases have them: of an INSERT, it has no rows to read."""

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Cursor:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> Any:
        raise RuntimeError("no rows")

    def __aiter__(self) -> Cursor:
        return self

    async def __anext__(self) -> Any:
        raise RuntimeError("no rows")


def test_what_returned_a_cursor_has_run_and_is_never_run_again_because_the_cursor_has_no_rows(tmp_path: Path) -> None:
    ran: list[str] = []

    def insert() -> Cursor:
        ran.append("insert")
        return Cursor()

    def write() -> Any:
        ran.append("write")
        return out

    async def main() -> None:
        database = sqlite3.connect(":memory:")  # its cursors are read in this thread only

        async def create() -> sqlite3.Cursor:
            return database.execute("CREATE TABLE t (x)")

        async with relight.aio.open("memory:") as rl, rl.session("a") as s:
            with pytest.raises(InvalidMessage, match="is done"):
                await s.once("k", insert)
            assert "Cursor" in await s.once("k", insert)
            assert [await s.once("table", create) for _ in range(2)] == [[], []]
        database.close()

    with (tmp_path / "out").open("w") as out, relight.open("memory:") as rl, rl.session("a") as s:
        for function in (insert, write):
            with pytest.raises(InvalidMessage, match="is done"):
                s.once(function.__name__, function)
            assert isinstance(s.once(function.__name__, function), str)
        s.run(ScriptedModel([{"insert": {}}, "done"]), tools=[insert], prompt="go")
        assert [one.success for one in s.calls()] == [True]
    asyncio.run(main())
    assert ran == ["insert", "write", "insert", "insert"]


def test_a_coroutine_that_nothing_awaits_is_never_recorded_as_done() -> None:
    async def send(to: str = "") -> str:
        raise AssertionError("nothing awaits it")

    def wrapped(to: str = "") -> Any:  # as a decorator of somebody else makes it: no coroutine function
        return send(to)

    async def events() -> AsyncIterator[str]:
        yield "never"

    for number, tool in enumerate((wrapped, events)):
        with relight.open("memory:") as rl:
            with pytest.raises(UsageError, match=r"returned .*nothing awaits"), rl.session("a") as s:
                s.run(ScriptedModel([{tool.__name__: {}}, "done"]), tools=[tool], prompt="go")
            (ended,) = rl.history.load("a").calls
            assert (ended.success, ended.in_doubt) == (False, False), number
            with pytest.raises(UsageError, match=r"returned .*nothing awaits"), rl.session("b") as s:
                s.once("k", tool)
            with rl.session("b") as s:
                assert s.once("k", lambda: "in its place") == "in its place"
    probed = relight.tool(effect="probe", probe=wrapped)(lambda to="": "sent")
    with relight.open("memory:") as rl:
        with pytest.raises(KeyboardInterrupt), rl.session("a") as s:
            s.append(call("c1", "t"))
            s.run_tool(s.pending_calls()[0], {"t": probed.replaced(run=interrupted)})
        with rl.session("a") as s:
            ended = s.run_tool(s.pending_calls()[0], {"t": probed})
        assert (ended.success, str(ended.result).startswith("outcome unknown")) == (False, True)


def test_a_probe_that_is_a_generator_proves_nothing() -> None:
    """Its repr was recorded as the result of a tool that had perhaps never run."""

    def asks() -> Iterator[None]:
        yield None

    probed = relight.tool(effect="probe", probe=asks, name="t")(interrupted)
    with relight.open("memory:") as rl:
        with pytest.raises(KeyboardInterrupt), rl.session("a") as s:
            s.append(call("c1", "t"))
            s.run_tool(s.pending_calls()[0], {"t": probed})
        with rl.session("a") as s:
            ended = s.run_tool(s.pending_calls()[0], {"t": probed})
        assert (ended.success, str(ended.result).startswith("outcome unknown")) == (False, True)


def interrupted() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("value", "shown"), UNKEPT, ids=["object", "nan", "unprintable"])
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
