"""Loops of one's own: what a reply cost, why a session failed, what it had so far, and when it runs in circles."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

import relight
from relight.errors import UsageError
from relight.values.status import REASON_LENGTH
from relight.values.usage import Usage, usage_from, usage_seen
from tests.support.simulation import Simulation
from tests.unit.sessions.test_loop import Scripted, asks

# -- what it cost -------------------------------------------------------------------------------------------------

SPELLINGS: dict[str, tuple[dict[str, Any], tuple[int, int, int, int]]] = {
    "anthropic": (
        {
            "input_tokens": 100,
            "output_tokens": 7,
            "cache_read_input_tokens": 800,
            "cache_creation_input_tokens": 50,
            "cache_creation": {"ephemeral_5m_input_tokens": 50, "ephemeral_1h_input_tokens": 0},
            "server_tool_use": {"web_search_requests": 1},
            "service_tier": "standard",
        },
        (100, 7, 800, 50),
    ),
    "chat": (
        {
            "prompt_tokens": 900,
            "completion_tokens": 7,
            "total_tokens": 907,
            "prompt_tokens_details": {"cached_tokens": 800, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
        (100, 7, 800, 0),
    ),
    "responses": (
        {
            "input_tokens": 900,
            "input_tokens_details": {"cached_tokens": 800},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 907,
        },
        (100, 7, 800, 0),
    ),
    "openrouter": (
        {
            "prompt_tokens": 900,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 700, "cache_write_tokens": 100},
        },
        (100, 7, 700, 100),
    ),
    "litellm": (
        {
            "prompt_tokens": 900,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 700},
            "cache_read_input_tokens": 700,
            "cache_creation_input_tokens": 100,
        },
        (100, 7, 700, 100),
    ),
    "deepseek": (
        {
            "prompt_tokens": 900,
            "completion_tokens": 7,
            "prompt_cache_hit_tokens": 800,
            "prompt_cache_miss_tokens": 100,
        },
        (100, 7, 800, 0),
    ),
    "gemini": (
        {
            "promptTokenCount": 900,
            "cachedContentTokenCount": 800,
            "candidatesTokenCount": 4,
            "thoughtsTokenCount": 3,
            "totalTokenCount": 907,
        },
        (100, 7, 800, 0),
    ),
    "bedrock": (
        {
            "inputTokens": 100,
            "outputTokens": 7,
            "totalTokens": 957,
            "cacheReadInputTokens": 800,
            "cacheWriteInputTokens": 50,
        },
        (100, 7, 800, 50),
    ),
    "ours": ({"input_tokens": 100, "output_tokens": 7, "cache_read_tokens": 800}, (100, 7, 800, 0)),
}


@pytest.mark.parametrize("provider", SPELLINGS)
def test_cached_tokens_of_every_provider_are_counted_and_none_twice(provider: str) -> None:
    given, counted = SPELLINGS[provider]
    usage = usage_from(given)
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == counted
    assert usage == usage_seen(given)


@pytest.mark.parametrize(
    "given",
    [
        {"input_tokens": 9, "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 5}},
        {"prompt_tokens": 9, "completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 5}},
        {"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 5},
        {"input_tokens": 9, "output_tokens": 7, "reasoning_tokens": 5},
    ],
    ids=["responses", "chat", "gemini", "ours"],
)
def test_reasoning_is_told_as_a_part_of_the_output(given: dict[str, Any]) -> None:
    usage = usage_from(given)
    assert usage is not None and (usage.output_tokens, usage.reasoning_tokens, usage.tokens) == (7, 5, 16)
    assert (usage + usage).reasoning_tokens == 10


def test_usage_that_says_nothing_known_or_something_impossible_is_refused_by_name(world: Simulation) -> None:
    with world.start().session("a") as s:
        impossible: list[tuple[dict[str, Any], str]] = [
            ({"bogus": 5}, "bogus"),
            ({"input_tokens": 5, "cost": "0.3"}, "cost"),
            ({"input_tokens": "5"}, "input_tokens"),
            ({"completion_tokens": -3}, "completion_tokens"),
            ({"prompt_tokens": True}, "prompt_tokens"),
            ({"cost": float("nan")}, "cost"),
            ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": "8"}}, "cached_tokens"),
        ]
        for wrong, said in impossible:
            with pytest.raises(UsageError, match=said):
                s.append({"role": "assistant", "content": "x"}, usage=wrong)
        assert s.is_new
        with pytest.warns(UserWarning, match="bogus"):
            s.append({"role": "assistant", "content": "x"}, usage={"input_tokens": 5, "bogus": 5})
        s.append({"role": "assistant", "content": "y"}, usage={"output_tokens": 2.0, "cost": Decimal("0.25")})
        assert s.usage == Usage(input_tokens=5, output_tokens=2, cost=0.25)
    assert usage_seen({"input_tokens": "many", "cost": "free", "output_tokens": 2}) == Usage(output_tokens=2)


# -- why it failed ------------------------------------------------------------------------------------------------


def test_a_failure_is_told_whole_with_all_its_lines(world: Simulation) -> None:
    with pytest.raises(ValueError, match="line one"), world.start().session("raised"):
        raise ValueError("line one\nline two")
    with world.start().session("told") as s:
        s.fail("first\nsecond")
    with world.start().session("halted") as s:
        s.halt("first\nsecond")
    with world.start().session("long") as s:
        s.fail("begin " + "x" * 100_000 + " end")
    rl = world.start()
    raised, long = rl.sessions.get("raised"), rl.sessions.get("long")
    assert raised.reason == "ValueError: line one\nline two"
    assert raised.failure is not None
    assert raised.failure.text == raised.reason
    assert (rl.sessions.get("told").reason, rl.sessions.get("halted").reason) == ("first\nsecond", "first\nsecond")
    assert long.reason is not None
    assert long.reason.startswith("begin")
    assert long.reason.endswith("end")
    assert "[cut: " in long.reason
    assert len(long.reason) <= REASON_LENGTH
    assert raised.attention is not None
    assert raised.attention.text == "ValueError: line one", "tables have room for one line"


# -- what it had so far -------------------------------------------------------------------------------------------


def test_partial_results_accumulate_over_attempts_and_resets(world: Simulation) -> None:
    s = world.start().session("a")
    s.append({"role": "user", "content": "x"})
    s.partial("p0")
    with s.batch():
        s.partial("p1")
        s.partial("p2")
    with world.restart().session("a") as s:
        s.replace([{"role": "user", "content": "summary"}])
        s.partial("p3")
        assert (s.partials, s.partial_result) == (["p0", "p1", "p2", "p3"], "p3")
    loaded = world.restart().history.load("a")
    assert (loaded.partials, loaded.partial) == (["p0", "p1", "p2", "p3"], "p3")


# -- running in circles -------------------------------------------------------------------------------------------


def run(world: Simulation, names: list[str], tools: dict[str, Any], **options: Any) -> tuple[str, str, int]:
    model = Scripted(*[asks(number, name) for number, name in enumerate(names)], "done")
    with world.start().session("a") as s:
        s.run(model, tools=tools, prompt="go", **options)
    info = world.start().sessions.get("a")
    return info.status, info.reason or "", model.asked


@pytest.mark.parametrize("cycle", ["ab", "abc", "aab", "abcd"])
def test_a_cycle_of_calls_that_leads_nowhere_is_halted_with_its_calls_named(world: Simulation, cycle: str) -> None:
    tools = {name: lambda: "same" for name in "abcd"}
    status, reason, asked = run(world, list(cycle) * 50, tools, guard=relight.LoopGuard(repeats=3))
    assert (status, asked) == ("halted", 3 * len(cycle))
    assert ", then ".join(f"{name}({{}})" for name in cycle) in reason


def test_polling_between_other_calls_whose_results_change_is_no_loop(world: Simulation) -> None:
    progress = iter(range(1000))
    tools = {"poll": lambda: next(progress), "wait": lambda: "waited"}
    assert run(world, ["poll", "wait"] * 30, tools)[0] == "completed"
