"""A budget in money for a model without a price: refused at the start, at every entry point; nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import relight
from relight import aio
from relight.agents.claude_code.adapter import ClaudeCode
from relight.agents.codex.adapter import Codex
from relight.errors import NotResumable, UsageError
from relight.journal.prices import read_prices
from relight.ports.agent import Surroundings
from relight.values.options import ResumeOptions, RunOptions
from relight.values.policy import Allowance, RunPolicy

MONEY, TOKENS = Allowance(budget=5), Allowance(budget_tokens=500)
NO_PRICE = "no price is known for the model nobodys-1"
REPLY = {"role": "assistant", "content": "hello"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a user who has both agents: programs that do nothing."""
    for name in ("claude", "codex"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\nexit 3\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "work").mkdir()
    return tmp_path


# -- which model ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "environment", "model"),
    [
        ("claude -p hi", {}, None),
        ("claude --model nobodys-1 -p hi", {"ANTHROPIC_MODEL": "claude-opus-5"}, "nobodys-1"),
        ("claude -p hi", {"ANTHROPIC_MODEL": "eu.anthropic.claude-opus-5-v1:0"}, "eu.anthropic.claude-opus-5-v1:0"),
        ("claude --model opus -p hi", {}, None),
        ("claude --model Sonnet[1m] -p hi", {}, None),
        ("claude --model opusplan", {"ANTHROPIC_DEFAULT_OPUS_MODEL": "nobodys-1"}, None),
        ("claude --model opus", {"ANTHROPIC_DEFAULT_OPUS_MODEL": "nobodys-1"}, "nobodys-1"),
    ],
)
def test_the_model_of_claude_code_is_known_by_any_name(
    command: str, environment: dict[str, str], model: str | None, tmp_path: Path
) -> None:
    where = Surroundings(directory=str(tmp_path), environment={"HOME": str(tmp_path), **environment})
    assert ClaudeCode().model_of(command.split(), where) == model


def test_settings_of_claude_code_name_its_model_the_nearest_first(tmp_path: Path) -> None:
    where = Surroundings(directory=str(tmp_path / "work"), environment={"HOME": str(tmp_path)})

    def write(path: str, **settings: Any) -> str | None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(json.dumps(settings))
        return ClaudeCode().model_of(["claude", "-p", "hi"], where)

    assert write(".claude/settings.json", model="users-1") == "users-1"
    assert write("work/.claude/settings.json", model="projects-1") == "projects-1"
    assert write("work/.claude/settings.local.json", model="opus") is None
    assert write("work/.claude/settings.local.json", env={"ANTHROPIC_MODEL": "set-1"}) == "set-1"
    assert ClaudeCode().model_of(["claude", "--settings", '{"env": {"ANTHROPIC_MODEL": "last-1"}}'], where) == "last-1"
    (tmp_path / "work/.claude/settings.local.json").write_text("{ no JSON")
    assert ClaudeCode().model_of(["claude"], where) == "projects-1"


@pytest.mark.parametrize(
    ("command", "model"),
    [
        ("codex exec hi", "configured-1"),
        ("codex exec -p mine hi", "profiled-1"),
        ("codex exec -p none hi", "configured-1"),
        ("codex exec -c model=nobodys-1 hi", "nobodys-1"),
        ('codex exec -c model="quoted-1" -c model_provider="x" hi', "quoted-1"),
        ("codex exec -m first-1 -c model=nobodys-1 hi", "first-1"),
        ("codex exec --ignore-user-config hi", None),
        ("codex --oss hi", None),
    ],
)
def test_the_model_of_codex_is_the_commands_then_the_profiles_then_the_configured_one(
    command: str, model: str | None, tmp_path: Path
) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text('model = "configured-1"\n')
    (tmp_path / ".codex" / "mine.config.toml").write_text('model = "profiled-1"\n')
    where = Surroundings(directory=str(tmp_path), environment={"HOME": str(tmp_path)})
    assert Codex().model_of(command.split(), where) == model


# -- coding agents --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["claude --model nobodys-1 -p hi", "codex exec -m nobodys-1 hi"])
def test_an_agent_with_a_budget_and_no_price_is_started_by_nobody(command: str, home: Path) -> None:
    work, words = str(home / "work"), command.split()
    with relight.open(home / "p.db") as rl:
        shape: dict[str, Any] = {"directory": work, "name": "job"}
        refused: list[Callable[[], Any]] = [
            lambda: rl.runs.plan_launch(words, RunOptions(agent=words[0], policy=RunPolicy(budget=5), **shape)),
            lambda: rl.queues.submit(words, policy=RunPolicy(budget=5), **shape),
        ]
        for start in refused:
            with pytest.raises(UsageError, match=NO_PRICE) as reported:
                start()
            assert reported.value.hints[0] == "limit tokens instead: --budget-tokens N"
        assert list(rl.sessions.list()) == []
        rl.runs.supervise(
            rl.runs.plan_launch(words, RunOptions(agent=words[0], policy=RunPolicy(retries=0), **shape))
        ).run()
        before = rl.sessions.get("job")
        again: list[Callable[[], Any]] = [
            lambda: rl.runs.plan_start("job", ResumeOptions(limits=MONEY)),
            lambda: rl.queues.enqueue("job", limits=MONEY),
        ]
        for start in again:
            with pytest.raises(UsageError, match=NO_PRICE) as reported:
                start()
            assert reported.value.hints[0] == "limit tokens instead: relight resume job --budget-tokens N"
        assert rl.sessions.get("job").limits == before.limits and rl.sessions.get("job").seq == before.seq
        reasons = rl.runs.plan("job", options=ResumeOptions(limits=MONEY)).reasons
        assert [reason.code for reason in reasons] == ["no_price"]
        assert rl.runs.plan("job", options=ResumeOptions(limits=TOKENS)).ok and rl.runs.plan("job").ok


def test_tokens_take_the_place_of_a_budget_whose_price_was_lost(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prices = home / "prices.toml"
    prices.write_text('[models."nobodys-1"]\ninput = 1.0\noutput = 2.0\n')
    monkeypatch.setenv("RELIGHT_PRICES", str(prices))
    words = ["claude", "--model", "nobodys-1", "-p", "hi"]
    policy = RunPolicy(budget=5, retries=0)
    with relight.open(home / "p.db") as rl:
        shape: dict[str, Any] = {"directory": str(home / "work"), "name": "job", "agent": "claude"}
        rl.runs.supervise(rl.runs.plan_launch(words, RunOptions(policy=policy, **shape))).run()
        assert rl.runs.plan("job").ok
    monkeypatch.delenv("RELIGHT_PRICES")
    with relight.open(home / "p.db") as rl:
        assert not rl.runs.plan("job").ok
        with pytest.raises(NotResumable, match=NO_PRICE):
            rl.runs.supervise("job")
        rl.runs.supervise("job", ResumeOptions(retries=0, limits=TOKENS)).run()
        assert rl.sessions.get("job").limits == {"budget": None, "budget_tokens": 500, "time_limit": None}


# -- programs of one's own ------------------------------------------------------------------------------------------


def test_a_program_with_a_budget_and_no_price_opens_no_session() -> None:
    async def opened() -> None:
        async with aio.open("memory:") as rl:
            with pytest.raises(UsageError, match=NO_PRICE):
                await rl.session("job", model="nobodys-1", budget=5)
            assert await rl.sessions.find("job") is None

    asyncio.run(opened())
    with relight.open("memory:") as rl:
        with pytest.raises(UsageError, match=NO_PRICE) as reported:
            rl.session("job", model="nobodys-1", budget=5)
        assert "budget_tokens=N" in reported.value.hints[0] and "leave out model" in reported.value.hints[2]
        assert rl.sessions.find("job") is None
        with rl.session("job", model="nobodys-1") as s:
            s.append({"role": "user", "content": "hello"})
        before = rl.sessions.get("job")
        with pytest.raises(UsageError, match=NO_PRICE) as reported:
            rl.session("job", budget=5)
        assert len(reported.value.hints) == 2, "its model is recorded: leaving it out changes nothing"
        assert rl.sessions.get("job") == before
        with rl.session("job", budget_tokens=50) as s:
            s.complete("done")
        s = rl.session("job", budget=5)
        assert s.is_finished, "it is only read"
        with pytest.raises(UsageError, match=NO_PRICE):
            s.run(lambda messages: REPLY, prompt="more")
        assert rl.sessions.get("job").status == "completed"


MESSAGE: dict[str, Any] = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 100_000, "output_tokens": 1_000},
}
COMPLETION: dict[str, Any] = {
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
            },
        }
    ],
    "usage": {"prompt_tokens": 100_000, "completion_tokens": 1_000},
}
STREAMED = {"model": "gpt-5-mini-2025-08-07"}
CHOICE: dict[str, Any] = COMPLETION["choices"][0]
CHUNKS = [
    {**STREAMED, "choices": [{"index": 0, "finish_reason": "tool_calls", "delta": CHOICE["message"]}]},
    {**STREAMED, "choices": [], "usage": COMPLETION["usage"]},
]


class Dumped:
    """As an SDK's own object is dumped."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def model_dump(self, **_: Any) -> Any:
        return self.data


@pytest.mark.parametrize(
    ("reply", "cost"),
    [
        ({**MESSAGE, "model": "claude-sonnet-4-5-20250929"}, 0.315),
        ({**COMPLETION, "model": "gpt-5-mini-2025-08-07"}, 0.027),
        (CHUNKS, 0.027),
        ({**MESSAGE, "model": "us.anthropic.claude-sonnet-4-5-20250929-v1:0"}, 0.315),
        ({**COMPLETION, "model": "anthropic/claude-sonnet-4.5"}, 0.315),
    ],
    ids=["anthropic", "openai", "streamed", "bedrock", "gateway"],
)
def test_a_reply_that_names_its_model_is_counted_in_a_budget(reply: Any, cost: float) -> None:
    asked = 0

    def model(messages: list[dict[str, Any]]) -> Any:
        nonlocal asked
        asked += 1
        return iter(reply) if isinstance(reply, list) else reply

    with relight.open("memory:") as rl:
        with rl.session("job", budget=cost * 2.5) as s:
            s.run(model, tools={"look": lambda: str(asked)}, prompt="go")
        found = rl.sessions.get("job")
        assert (found.status, asked) == ("halted", 3)
        assert found.usage.cost == pytest.approx(3 * cost)
        assert "budget reached" in (found.reason or "")


def test_an_appended_reply_that_names_its_model_is_counted_and_one_without_a_price_is_named() -> None:
    with relight.open("memory:") as rl:
        with rl.session("job", budget=1.0) as s:
            s.append({"role": "user", "content": "go"})
            s.append(Dumped({**MESSAGE, "model": "claude-sonnet-4-5"}))
            assert s.usage.cost == pytest.approx(0.315)
        with rl.session("odd", budget=1.0) as s:
            s.run(lambda _: {**MESSAGE, "model": "nobodys-1"}, tools={"look": lambda: "x"}, prompt="go")
        assert "no price is known for the model nobodys-1" in (rl.sessions.get("odd").reason or "")
        with rl.session("own", budget=1.0, model="gpt-5-mini") as s:  # the session's own model counts first
            s.append({"role": "user", "content": "go"})
            s.append(Dumped({**MESSAGE, "model": "nobodys-1"}))
            assert s.usage.cost == pytest.approx(0.027)


def test_a_program_that_told_what_its_model_cost_may_have_a_budget_for_it() -> None:
    with relight.open("memory:") as rl:
        with rl.session("job", model="nobodys-1") as s:
            s.append(REPLY, usage={"input_tokens": 5, "cost": 0.5})
        with rl.session("job", budget=5) as s:
            s.append(REPLY, usage={"input_tokens": 5, "cost": 0.5})
        with pytest.raises(UsageError, match="the model nobodys-2"):
            rl.session("job", model="nobodys-2")
        assert rl.sessions.get("job").model == "nobodys-1"


@pytest.mark.parametrize(
    "line",
    ["output = nan", "output = inf", "output = -1.0", "output = 1.0\ncache_write_long = nan"],
)
def test_a_price_that_is_no_amount_is_refused_as_no_cost_would_reach_a_budget(line: str) -> None:
    with pytest.raises(UsageError, match="a price is an amount from 0"):
        read_prices(f'[models."m"]\ninput = 1.0\n{line}\n')
    assert read_prices('[models."m"]\ninput = 0\noutput = 0\n')["m"].output == 0
