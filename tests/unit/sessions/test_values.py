"""What may be stored: JSON comes back equal, all else is refused with its place, nothing is ever half stored."""

from __future__ import annotations

import asyncio
import json
import math
from collections import OrderedDict
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import relight
from relight.errors import InvalidMessage, RelightError, UsageError
from relight.journal.codec import Undecodable, decode_all, decode_changes, encode_changes, isolated
from relight.testing import ScriptedModel
from relight.values.policy import LIMITS
from relight.values.step import Changes
from tests.support.simulation import Simulation


class Colour(IntEnum):
    RED = 1


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def names(count: int) -> list[str]:
    return [f"case{number}" for number in range(count)]


EXACT = [
    "\ud800",
    "a\udfff b",
    "\x00\x1b[31m",
    "𝄞 é ☃",
    2**63,
    2**64,
    -(2**63) - 1,
    10**40,
    10**6000,
    -0.0,
    1e308,
    5e-324,
    {"\ud800": {"\udcff": 2**70}},
    {"": {"": []}},
    [[], {}, None, True, False, 0, ""],
    {"__class__": "os.system", "$ref": "#", "py/object": "x"},
    nested(150),
]
REFUSED = [
    (user(math.nan), "$.content"),
    (user([1, math.inf]), "$.content[1]"),
    (user({"a": {"b": -math.inf}}), "$.content.a.b"),
    (user(b"bytes"), "$.content"),
    (user([{"x": bytearray(b"x")}]), "$.content[0].x"),
    (user({1, 2}), "$.content"),
    (user(frozenset()), "$.content"),
    (user(1j), "$.content"),
    (user(object()), "$.content"),
    (user({"a": {1: 2}}), "$.content.a"),
    (user({"a": {None: 2}}), "$.content.a"),
    (user(OrderedDict(a=1)), "$.content"),
    (user([Colour.RED]), "$.content[0]"),
    (user({"odd key": math.nan}), "'odd key'"),
    (user({"\x1b[2J": math.nan}), "x1b"),
    (user(nested(10_000)), "$.content[0][0]"),
]


@pytest.mark.parametrize("value", EXACT, ids=names(len(EXACT)))
def test_json_comes_back_exactly(value: Any) -> None:
    world = Simulation()
    rl = world.start()
    with rl.session("a") as s:
        s.append(user(value))
        s.append({"role": "assistant", "content": "ok", "extra": value})
        s.state["kept"] = value
        assert s.once("effect", lambda: value) == value
        s.partial(value)
        s.complete(value)
    loaded = world.restart().history.load("a")
    assert loaded.messages == [user(value), {"role": "assistant", "content": "ok", "extra": value}]
    assert loaded.state == {"kept": value}
    assert (loaded.partial, loaded.result) == (value, value)
    assert math.copysign(1, value) == math.copysign(1, loaded.result) if isinstance(value, float) else True


@pytest.mark.parametrize(("message", "location"), REFUSED)
def test_what_is_not_json_is_refused_with_its_place_and_nothing_is_written(message: Any, location: str) -> None:
    world = Simulation()
    rl = world.start()
    with rl.session("a") as s:
        before = s.head
        with pytest.raises(InvalidMessage) as caught:
            s.append(message)
        assert location in str(caught.value)
        assert "\x1b" not in str(caught.value)
        assert s.head == before
        s.append(user("goes on"))
    assert world.restart().history.load("a").messages == [user("goes on")]


@pytest.mark.parametrize("bad", [math.nan, b"x", {1}, {"a": object()}, nested(10_000)], ids=names(5))
def test_state_results_and_partials_are_held_to_the_same_rule(bad: Any) -> None:
    world = Simulation()
    rl = world.start()
    with rl.session("a") as s:
        for attempt in (lambda: s.state.update(key=bad), lambda: s.partial(bad), lambda: s.complete(bad)):
            with pytest.raises(InvalidMessage):
                attempt()
        s.append(user("goes on"))
    assert world.restart().history.load("a").state == {}


def test_a_tuple_is_kept_as_a_list() -> None:
    rl = Simulation().start()
    with rl.session("a") as s:
        s.append(user((1, (2, 3))))
        assert s.messages == [user([1, [2, 3]])]


def test_what_the_caller_changes_later_is_not_changed_in_the_journal() -> None:
    world = Simulation()
    message = user(["kept"])
    with world.start().session("a") as s:
        s.append(message)
        message["content"].append("smuggled")
        assert s.messages == [user(["kept"])]
    assert world.restart().history.load("a").messages == [user(["kept"])]


def test_a_message_over_the_cap_is_refused_with_its_size() -> None:
    with Simulation().start().session("a") as s:
        with pytest.raises(InvalidMessage, match=r"67,\d{3},\d{3} bytes"):
            s.append(user("x" * (LIMITS.message_bytes + 1)))
        s.append(user("goes on"))


def test_a_step_over_the_cap_is_refused_whole() -> None:
    world = Simulation()
    with world.start().session("a") as s:
        big = user("x" * (LIMITS.message_bytes - 100))
        with pytest.raises(InvalidMessage, match="a step of"), s.batch():
            for _ in range(5):
                s.append(big)
            s.state["half"] = True
        s.append(user("goes on"))
    loaded = world.restart().history.load("a")
    assert (loaded.messages, loaded.state) == ([user("goes on")], {})


def test_a_message_that_holds_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with Simulation().start().session("a") as s, pytest.raises(InvalidMessage, match="nested deeper"):
        s.append(user(circle))


@pytest.mark.parametrize("message", ["text", 12, None, [1], ["a"], object()], ids=names(6))
def test_a_message_that_is_no_dict_is_refused(message: Any) -> None:
    with Simulation().start().session("a") as s, pytest.raises(UsageError):
        s.append(message)


ODD_TEXTS = ["caf\udce9", "\ud800", "line\nline", "\x1b]0;x\x07", "", "x" * 100_000]


@pytest.mark.parametrize("text", ODD_TEXTS, ids=names(len(ODD_TEXTS)))
def test_odd_text_in_reasons_questions_and_last_words_never_damages_a_session(text: str) -> None:
    """An exception that names a file of undecodable bytes is ordinary; the session must open again."""
    world = Simulation()
    rl = world.start()
    options: dict[str, Any] = {"task": text, "key": text, "labels": {"k": text}, "metadata": {"m": text}}
    with pytest.raises(relight.Waiting), rl.session("a", **options) as s:
        s.append(user("go"))
        s.append({"role": "assistant", "content": text})
        s.state[text] = text
        s.ask(text or "?")
    answer = text or "-"  # an empty question or answer is refused
    rl.runs.send("a", answer)
    with pytest.raises(FileNotFoundError), rl.session("a") as s:
        assert s.ask(text or "?") == answer
        raise FileNotFoundError(text)
    rl = world.restart()
    with rl.session("a") as s:
        s.once(text, lambda: text)
        s.halt(text)
    info = world.restart().sessions.get("a")
    assert (info.status, info.task, info.key, info.labels) == ("halted", text, text, {"k": text})
    assert world.start().history.load("a").state == {text: text}
    assert world.start().history.verify().ok


@pytest.mark.parametrize("call_id", ["\ud800", "a\x00b", "", "x" * 10_000], ids=["surrogate", "nul", "empty", "long"])
def test_odd_call_ids_are_only_data(call_id: str) -> None:
    world = Simulation()
    with world.start().session("a") as s:
        s.append(user("go"))
        function = {"name": "f", "arguments": "{}"}
        s.append({"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "function": function}]})
        (call,) = s.pending_calls()
        s.run_tool(call, {"f": lambda: "done"})
        s.checkpoint("here")
    loaded = world.restart().history.load("a@here")
    assert loaded.messages[-1] == {"role": "tool", "tool_call_id": call_id, "content": "done"}


@pytest.mark.parametrize("result", [10**6000, {"deep": nested(190)}, ["\ud800"], -0.0, [], None], ids=names(6))
def test_whatever_a_tool_returns_the_session_loads_again(result: Any) -> None:
    world = Simulation()
    with world.start().session("a") as s:
        s.append(user("go"))
        function = {"name": "f", "arguments": "{}"}
        s.append({"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]})
        done = s.run_tool(s.pending_calls()[0], {"f": lambda: result})
        assert done.success
    loaded = world.restart().history.load("a")
    assert loaded.calls[0].result == result
    assert loaded.messages[-1]["tool_call_id"] == "c"


BAD_ARGUMENTS: list[dict[str, Any]] = [
    {"labels": {"pr": 12}},
    {"labels": {3: "x"}},
    {"key": 12},
    {"task": b"x"},
    {"agent": 1.5},
    {"provider": ["x"]},
    {"model": object()},
    {"metadata": {"a": {1}}},
    {"lease_seconds": "30"},
    {"lease_seconds": math.nan},
    {"lease_seconds": 0},
    {"lease_seconds": -1},
]


@pytest.mark.parametrize("options", BAD_ARGUMENTS, ids=lambda value: str(value).split(" at 0x")[0])
def test_an_option_of_the_wrong_kind_is_refused_and_leaves_no_session(options: dict[str, Any]) -> None:
    world = Simulation()
    rl = world.start()
    with pytest.raises(UsageError):
        rl.session("a", **options)
    assert rl.sessions.find("a") is None
    with rl.session("a") as s:
        s.append(user("goes on"))


def test_keys_questions_and_reasons_of_the_wrong_kind_are_refused_and_nothing_is_lost() -> None:
    world = Simulation()
    with world.start().session("a") as s:
        s.append(user("kept"))
        attempts = [
            lambda: s.once(12, lambda: 1),  # type: ignore[arg-type]
            lambda: s.ask(12),  # type: ignore[arg-type]
            lambda: s.fail(12),  # type: ignore[arg-type]
            lambda: s.halt(None),  # type: ignore[arg-type]
            lambda: s.checkpoint(12),  # type: ignore[arg-type]
            lambda: s.append(user("x"), usage=relight.Usage(input_tokens=1.5)),  # type: ignore[arg-type]
            lambda: s.append(user("x"), usage=relight.Usage(cost="1")),  # type: ignore[arg-type]
            lambda: s.state.__setitem__(3, 1),  # type: ignore[index]
        ]
        for attempt in attempts:
            with pytest.raises(UsageError):
                attempt()
        s.append(user("goes on"))
    assert world.restart().history.load("a").messages == [user("kept"), user("goes on")]


def test_usage_of_any_size_adds_up_and_loads() -> None:
    world = Simulation()
    with world.start().session("a") as s:
        s.append(user("x"), usage={"input_tokens": 2**70, "output_tokens": 3, "cost": 0.5})
        s.append(user("x"), usage={"prompt_tokens": 1, "completion_tokens": None, "cost": None, "other": "x"})
    usage = world.restart().sessions.get("a").usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost) == (2**70 + 1, 3, 0.5)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=()), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=()), max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(value=JSON, padding=st.sampled_from([0, 300]))
def test_any_json_survives_the_stored_form(value: Any, padding: int) -> None:
    changes = Changes(messages=[{"v": value, "pad": "x" * padding}], state={"k": value}, partial=[value])
    assert decode_changes(encode_changes(changes)) == changes
    assert isolated(value) == value


@given(value=st.recursive(JSON | st.binary(max_size=3) | st.floats() | st.complex_numbers(), st.lists, max_leaves=6))
def test_a_value_is_stored_whole_or_refused_by_us(value: Any) -> None:
    try:
        copy = isolated(value)
    except RelightError:
        return
    assert decode_changes(encode_changes(Changes(partial=[copy]))).partial == [copy]


@given(
    texts=st.lists(st.integers(0, 3000), min_size=1, max_size=150),
    at=st.integers(0, 149),
    byte=st.integers(0, 5000),
    bits=st.integers(0, 255),
)
def test_many_steps_are_read_as_each_alone_and_a_damaged_one_in_its_place(
    texts: list[int], at: int, byte: int, bits: int
) -> None:
    bodies = [encode_changes(Changes(messages=[{"n": n, "text": f"line {n}\n" * n}])) for n in texts]
    damaged = bytearray(bodies[at % len(bodies)])
    damaged[byte % len(damaged)] ^= bits
    bodies[at % len(bodies)] = bytes(damaged)[: max(byte, 1)]
    assert _read_until_damage(decode_all(bodies)) == _read_until_damage(map(decode_changes, bodies))


def _read_until_damage(decoded: Iterator[Changes]) -> tuple[list[Changes], bool]:
    read: list[Changes] = []
    try:
        read.extend(decoded)
    except Undecodable:
        return read, False
    return read, True


@pytest.mark.parametrize("wrong", [3, "much", [1], object()], ids=lambda one: type(one).__name__)
def test_usage_that_is_no_mapping_is_refused(world: Simulation, wrong: object) -> None:
    with world.start().session("a") as s:
        with pytest.raises(UsageError, match="usage is a mapping"):
            s.append({"role": "user", "content": "x"}, usage=wrong)  # type: ignore[arg-type]
        assert s.is_new


@pytest.mark.parametrize("field", ["labels", "metadata"])
def test_labels_and_metadata_are_mappings(world: Simulation, field: str) -> None:
    rl = world.start()
    for wrong in (["a"], "a", 3):
        with pytest.raises(UsageError, match=f"{field} must be a mapping"):
            rl.session("a", **{field: wrong})  # type: ignore[arg-type]
    assert rl.sessions.find("a") is None


@pytest.mark.parametrize("form", ["openai_chat", "openai_responses", "anthropic"])
@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "aio"])
def test_a_text_that_no_client_can_send_reaches_the_model_readable_and_is_kept_as_it_was(
    form: str, awaited: bool, tmp_path: Path
) -> None:
    """The name of a file that is not UTF-8 has a lone surrogate; each request with one raised UnicodeEncodeError."""

    def fails() -> None:
        raise FileNotFoundError("caf\udce9.txt")

    shown: list[str] = []
    scripted = ScriptedModel([[{"ls": {}}, {"fails": {}}], "done"], form=form)  # type: ignore[arg-type]

    def model(messages: list[dict[str, Any]]) -> Any:
        shown.append(json.dumps(messages, ensure_ascii=False).encode("utf-8").decode())
        return scripted(messages)

    tools = {"ls": lambda: ["caf\udce9.txt", 2**70], "fails": fails}
    options: dict[str, Any] = {"provider": {"openai_responses": "openai-responses"}.get(form)}

    async def main() -> None:
        async with relight.aio.open(tmp_path / "r.db") as rl, rl.session("a", **options) as s:
            assert await s.run(model, tools=tools, prompt="open caf\udce9") == "done"

    if awaited:
        asyncio.run(main())
    else:
        with relight.open(tmp_path / "r.db") as rl, rl.session("a", **options) as s:
            assert s.run(model, tools=tools, prompt="open caf\udce9") == "done"
    assert shown[-1].count("caf\ufffd") == 3
    with relight.open(tmp_path / "r.db") as rl:
        assert rl.history.load("a").calls[0].result == ["caf\udce9.txt", 2**70]
