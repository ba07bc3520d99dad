"""`@relight.tool`: its schema comes from the signature, arguments are checked and converted; methods work."""

from __future__ import annotations

import asyncio
import datetime
import enum
import functools
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, assert_type

import msgspec
import pydantic
import pytest

import relight
import relight.aio
from relight.errors import UsageError, Waiting
from tests.support.calls import call


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Address:
    street: str
    number: int = 1


class Item(msgspec.Struct):
    """One thing that is bought."""

    name: str
    parts: list[Item] = []


class Card(pydantic.BaseModel):
    holder: str


class Payment(pydantic.BaseModel):
    card: Card
    amount: int = pydantic.Field(gt=0)


@relight.tool
def order(
    item: Item,
    to: Address,
    size: Size,
    paid: Payment | None = None,
    count: Annotated[int, "how many of them"] = 1,
    when: datetime.date | None = None,
    speed: Literal["slow", "fast"] = "slow",
    note: str | None = None,
    *,
    idempotency_key: str = "",
) -> str:
    """Order something.

    It is sent at once.

    Args:
        item: what to buy
        to (Address): where it goes,
            a whole address
        speed: how soon

    Returns:
        a number
    """
    return repr((item, to, size, paid, count, when, speed, note))


def test_a_schema_has_the_providers_own_form_and_says_what_the_signature_says() -> None:
    anthropic, chat, responses = (order.schema(one) for one in ("anthropic", "openai", "openai_responses"))
    schema = anthropic["input_schema"]
    assert set(anthropic) == {"name", "description", "input_schema"}
    assert chat == {
        "type": "function",
        "function": {"name": "order", "description": anthropic["description"], "parameters": schema},
    }
    assert responses == {"type": "function", **chat["function"], "strict": False}
    assert order.schema("bedrock")["toolSpec"]["inputSchema"] == {"json": schema}
    assert order.schema("gemini")["parametersJsonSchema"] == schema
    assert "description" not in relight.tool(name="t")(lambda: None).schema("bedrock")["toolSpec"]
    assert anthropic["description"] == "Order something.\n\nIt is sent at once."
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == (
        "object",
        ["item", "to", "size"],
        False,
    )
    properties = schema["properties"]
    assert "idempotency_key" not in properties
    assert properties["item"] == {"$ref": "#/$defs/Item", "description": "what to buy"}
    assert properties["to"]["description"] == "where it goes, a whole address"
    assert properties["count"] == {"type": "integer", "description": "how many of them", "default": 1}
    assert properties["speed"] == {"enum": ["fast", "slow"], "description": "how soon", "default": "slow"}
    assert properties["note"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    references = {word for word in json.dumps(schema).split('"') if word.startswith("#/")}
    assert references == {f"#/$defs/{name}" for name in schema["$defs"]}
    json.dumps(schema)
    with pytest.raises(UsageError, match="anthropic"):
        order.schema("cohere")  # type: ignore[arg-type]


def run(tools: Any, name: str, arguments: dict[str, Any]) -> Any:
    """The call as it ended, of a session whose model asks for it."""

    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        asks = messages[-1]["role"] == "user"
        return call("c1", name, json.dumps(arguments)) if asks else {"role": "assistant", "content": "done"}

    with relight.open("memory:") as rl, rl.session("a") as s:
        s.run(model, tools=tools, prompt="go")
        return s.calls()[0]


def test_arguments_arrive_as_the_types_they_are_annotated_with() -> None:
    given = {
        "item": {"name": "desk", "parts": [{"name": "leg"}]},
        "to": {"street": "Main", "number": "12"},
        "size": "l",
        "paid": {"card": {"holder": "Ada"}, "amount": "3"},
        "count": "2",
        "when": "2026-01-02",
        "note": "null",
    }
    expected = (
        Item("desk", [Item("leg")]),
        Address("Main", 12),
        Size.LARGE,
        Payment(card=Card(holder="Ada"), amount=3),
        2,
        datetime.date(2026, 1, 2),
        "slow",
        "null",
    )
    ended = run([order], "order", given)
    assert (ended.result, ended.success) == (repr(expected), True)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"count": "many"}, "the argument 'count' is wrong: Expected `int`, got `str`"),
    ({"count": None}, "the argument 'count' is wrong: Expected `int`, got `null`"),
    ({}, "the argument 'count' is missing"),
    ({"count": 1, "colour": "red"}, "there is no argument 'colour'; it takes: count, path"),
    ({"count": 1, "path": 3}, "the argument 'path' is wrong: Expected a path, got `int`"),
    ({"count": 1, "idempotency_key": "mine"}, "there is no argument 'idempotency_key'"),
]


@pytest.mark.parametrize(("arguments", "text"), WRONG, ids=str)
def test_a_wrong_argument_is_a_result_for_the_model_and_a_warning_for_the_developer(
    arguments: dict[str, Any], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    @relight.tool
    def count_to(count: int, path: Path = Path(), idempotency_key: str = "") -> None:
        ran.append(count)

    with caplog.at_level(logging.WARNING, "relight"):
        ended = run([count_to], "count_to", arguments)
    assert (ended.success, ended.effect, ran) == (False, None, [])
    assert text in ended.result
    assert [text in record.getMessage() for record in caplog.records] == [True]


def test_a_call_that_began_is_in_doubt_also_if_its_tool_no_longer_takes_the_arguments() -> None:
    def dies(text: str) -> None:
        raise KeyboardInterrupt

    with relight.open("memory:") as rl:
        with pytest.raises(KeyboardInterrupt), rl.session("a") as s:
            s.append(call("c1", "t", '{"text": "x"}'))
            s.run_tool(s.pending_calls()[0], [relight.tool(effect="idempotent", name="t")(dies)])
        with rl.session("a") as s:
            other = relight.tool(effect="idempotent", name="t")(lambda number: number)
            assert "outcome unknown" in s.run_tool(s.pending_calls()[0], [other]).result


@pytest.mark.parametrize("written", ["", " ", "{}", None])
def test_a_call_without_arguments_runs_however_they_are_written(written: Any) -> None:
    """Several servers of OpenAI's form send an empty text for a tool that takes nothing."""
    asked = {"id": "c", "type": "function", "function": {"name": "t", "arguments": written}}
    replies: list[Any] = [{"tool_calls": [asked], "content": None}, {"content": "done"}]
    with relight.open("memory:") as rl, rl.session("a") as s:
        s.run(lambda messages: {"role": "assistant", **replies.pop(0)}, tools={"t": lambda: "ran"}, prompt="go")
        assert [one.result for one in s.calls()] == ["ran"]


def test_a_model_is_told_the_form_of_a_time() -> None:
    def t(at: datetime.datetime, on: datetime.date, by: datetime.time) -> None: ...

    properties = relight.tool(t).schema("anthropic")["input_schema"]["properties"]
    assert [properties[name]["format"] for name in ("at", "on", "by")] == ["date-time", "date", "time"]

    def u(
        at: datetime.datetime | None, days: list[datetime.datetime], by: Annotated[datetime.time, "when"]
    ) -> None: ...

    inner = relight.tool(u).schema("anthropic")["input_schema"]["properties"]
    assert [inner["at"]["anyOf"][0], inner["days"]["items"]] == [{"type": "string", "format": "date-time"}] * 2
    assert inner["by"] == {"type": "string", "format": "time", "description": "when"}


def test_an_annotation_may_hold_what_cannot_be_hashed() -> None:
    def t(limit: Annotated[int, {"unit": "pages"}]) -> int:
        return limit

    assert relight.tool(t).schema("anthropic")["input_schema"]["properties"] == {"limit": {"type": "integer"}}
    assert run({"t": t}, "t", {"limit": 2}).result == 2


def test_a_tool_without_annotations_takes_anything() -> None:
    assert run({"t": lambda a, b=2: [a, b]}, "t", {"a": {"x": [1]}}).result == [{"x": [1]}, 2]
    assert run({"t": lambda **given: given}, "t", {"a": 1, "b": "2"}).result == {"a": 1, "b": "2"}
    assert run({"t": print}, "t", {}).success is True


def test_what_no_json_can_express_is_an_error_of_the_developer() -> None:
    def takes(function: Callable[[], None]) -> None: ...
    def takes_any(function: Callable) -> None: ...
    def takes_lines(function: Iterable[str]) -> None: ...
    def takes_unknown(thing: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    given = "parameter 'function'"
    known = (takes, given), (takes_any, given), (takes_lines, given), (takes_unknown, "'Nowhere' is not defined")
    for function, text in known:
        with pytest.raises(UsageError, match=text):
            relight.tool(function).schema("anthropic")
        with pytest.raises(UsageError, match=text):
            run([function], function.__name__, {"function": 1, "thing": 1})


def test_two_tools_of_one_name_are_refused_and_one_that_is_given_twice_is_not() -> None:
    def other() -> None: ...

    for pair in ([relight.tool(name="t")(print), relight.tool(name="t")(other)], [Bank().pay, Bank().pay]):
        with pytest.raises(UsageError, match="two tools are named"):
            run(pair, "t", {})
    bank = Bank()
    assert run([bank.convert, bank.convert, other, other], "convert", {"amount": 2}).result == 6


def test_a_callable_without_a_name_has_to_be_given_one() -> None:
    class Machine:
        def __call__(self, number: int) -> int:
            return 2 * number

    for declare in (lambda: relight.tool(Machine()), lambda: run([Machine()], "tool", {"number": 1})):
        with pytest.raises(UsageError, match="has no name"):
            declare()
    double = relight.tool(name="double")(Machine())
    assert (
        run([double], "double", {"number": "2"}).result == run({"twice": Machine()}, "twice", {"number": 2}).result == 4
    )
    assert run([functools.partial(max, 3)], "max", {}).success is False


def test_a_name_that_no_provider_takes_is_refused_with_the_schema() -> None:
    for name in ("send mail", "", "a" * 129, "<lambda>"):
        with pytest.raises(UsageError, match="name of a tool"):
            relight.tool(name=name)(print).schema("openai")


def test_a_parameter_that_has_no_name_for_a_model_is_refused() -> None:
    def double(number: int, /) -> int:
        return 2 * number

    with pytest.raises(UsageError, match="'number' is positional-only"):
        relight.tool(double).schema("anthropic")
    with pytest.raises(UsageError, match="'number' is positional-only"):
        run([double], "double", {"number": 1})


def test_what_pydantic_says_of_a_parameter_is_checked_and_told() -> None:
    @relight.tool
    def book(
        nights: Annotated[int, pydantic.Field(ge=1, le=30, description="how many")],
        guests: list[Annotated[str, pydantic.StringConstraints(min_length=2)]] | None = None,
    ) -> Any:
        return [nights, guests]

    properties = book.schema("anthropic")["input_schema"]["properties"]
    assert properties["nights"] == {"type": "integer", "minimum": 1, "maximum": 30, "description": "how many"}
    assert '"minLength": 2' in json.dumps(properties["guests"])
    assert run([book], "book", {"nights": "2", "guests": ["ada"]}).result == [2, ["ada"]]
    for wrong in ({"nights": 0}, {"nights": 1, "guests": ["a"]}):
        assert run([book], "book", wrong).success is False, wrong


class Bank:
    rate = 3

    def __init__(self) -> None:
        self.paid: list[str] = []

    def was_paid(self, to: str) -> str | None:
        return "paid" if to in self.paid else None

    def is_large(self, to: str) -> bool:
        return to == "eve"

    @relight.tool(effect="probe", probe=was_paid, approve=is_large)
    def pay(self, to: str) -> str:
        """Pay somebody."""
        self.paid.append(to)
        return f"paid {to}"

    @relight.tool
    async def look(self, to: str) -> str:
        return f"{to}: {self.paid.count(to)}"

    @relight.tool
    @staticmethod
    def add(a: int, b: int) -> int:
        return a + b

    @relight.tool
    @classmethod
    def convert(cls, amount: int) -> int:
        return amount * cls.rate

    @staticmethod
    @relight.tool
    def inner(a: int) -> int:
        return -a

    @classmethod
    @relight.tool
    def inner_class(cls, amount: int) -> int:
        return amount + cls.rate


def test_a_method_keeps_its_object_with_its_probe_and_predicate() -> None:
    bank, other = Bank(), Bank()
    assert bank.pay("ada") == "paid ada"
    assert_type(bank.pay("ada"), str)
    assert run([bank.pay], "pay", {"to": "bob"}).result == "paid bob"
    assert (bank.paid, other.paid) == (["ada", "ada", "bob"], [])
    assert bank.pay.schema("anthropic")["input_schema"]["required"] == ["to"]
    assert bank.pay.schema("anthropic")["description"] == "Pay somebody."
    with pytest.raises(Waiting):
        run([bank.pay], "pay", {"to": "eve"})
    assert bank.pay.ask_probe({"to": "bob"}, "") == "paid"
    assert other.pay.ask_probe({"to": "bob"}, "") is None
    with pytest.raises(UsageError, match="method of no object"):
        run([Bank.pay], "pay", {"to": "bob"})


def test_a_tool_is_pickled_and_copied_by_name_as_a_function_is() -> None:
    import copy
    import pickle

    assert pickle.loads(pickle.dumps(order)) is order
    assert copy.deepcopy([order]) == [order]
    bank = pickle.loads(pickle.dumps(Bank().pay))
    assert bank("ada") == "paid ada"


def test_static_and_class_methods_are_tools_in_either_order() -> None:
    bank = Bank()
    assert run([bank.add], "add", {"a": "1", "b": 2}).result == 3
    assert run([bank.convert], "convert", {"amount": 2}).result == 6
    assert run([Bank.convert], "convert", {"amount": 2}).result == 6
    assert run([Bank.add], "add", {"a": 1, "b": 2}).result == 3
    assert run([bank.inner], "inner", {"a": 1}).result == -1
    assert run([bank.inner_class], "inner_class", {"amount": 1}).result == 4
    assert list(bank.convert.schema("openai")["function"]["parameters"]["properties"]) == ["amount"]


def test_a_coroutine_method_is_awaited_and_refused_where_nothing_awaits() -> None:
    bank = Bank()
    bank.paid.append("ada")

    async def main() -> Any:
        async with relight.aio.open("memory:") as rl, await rl.session("a") as s:
            await s.append(call("c1", "look", '{"to": "ada"}'))
            return (await s.run_tool((await s.pending_calls())[0], [bank.look])).result

    assert asyncio.run(main()) == "ada: 1"
    with pytest.raises(UsageError, match="coroutine"):
        run([bank.look], "look", {"to": "ada"})


def test_a_decorator_around_a_tool_keeps_what_was_declared() -> None:
    seen: list[str] = []

    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(**given: Any) -> Any:
            seen.append("called")
            return function(**given)

        return wrapper

    @logged
    @relight.tool(effect="pure", name="double")
    def twice(number: int) -> int:
        return 2 * number

    ended = run([twice], "double", {"number": "4"})
    assert (ended.result, ended.effect, seen) == (8, "pure", ["called"])
