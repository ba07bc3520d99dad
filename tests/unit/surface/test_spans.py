"""OpenTelemetry in a program of one's own: gen_ai spans of replies, tools and commits, inside the program's span."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

import relight
from relight.testing import ScriptedModel
from tests.support.recorded_spans import RecordedSpans

SCRIPT: list[Any] = [{"look": {"where": "here"}}, "Done."]
OWN: dict[str, Any] = {"provider": "anthropic", "model": "claude-x"}


def inner(name: str) -> None:
    with trace.get_tracer("mine").start_as_current_span(name):
        pass


def ask_and_look(messages: list[dict[str, Any]]) -> Any:
    inner("http")
    return ScriptedModel(SCRIPT)(messages)


def look(where: str) -> str:
    inner("disk")
    return "seen"


def run_sync() -> None:
    with relight.open() as rl, rl.session("fix", **OWN) as s:
        s.run(ask_and_look, tools={"look": look}, prompt="a prompt of the user")


def run_async() -> None:
    async def ask(messages: list[dict[str, Any]]) -> Any:
        await asyncio.sleep(0)
        return ask_and_look(messages)

    async def look_slowly(where: str) -> str:
        await asyncio.sleep(0)
        return look(where)

    async def main() -> None:
        async with relight.aio.open() as rl, await rl.session("fix", **OWN) as s:
            await s.run(ask, tools={"look": look_slowly}, prompt="a prompt of the user")

    asyncio.run(main())


@pytest.mark.usefixtures("relight_store")
@pytest.mark.parametrize("run", [run_sync, run_async])
def test_replies_tools_and_commits_are_spans_in_the_programs_own(run: Any, recorded_spans: RecordedSpans) -> None:
    with trace.get_tracer("mine").start_as_current_span("job") as job:
        run()
    first, last = recorded_spans.named("chat claude-x")
    tool = recorded_spans.one("execute_tool look")
    commits = recorded_spans.named("relight commit")
    for one in (first, tool, last, *commits):
        assert one.parent is not None and one.parent.span_id == job.get_span_context().span_id
    for name, parents in (("http", [first, last]), ("disk", [tool])):
        made = [one.parent.span_id for one in recorded_spans.named(name) if one.parent is not None]
        assert made == [one.context.span_id for one in parents if one.context is not None]
    asked = dict(first.attributes or {})
    assert asked["gen_ai.operation.name"] == "chat" and asked["gen_ai.provider.name"] == "anthropic"
    assert asked["gen_ai.request.model"] == "claude-x" and asked["relight.session"] == "fix"
    assert (asked["gen_ai.usage.input_tokens"], asked["gen_ai.usage.output_tokens"]) == (10, 5)
    assert asked["gen_ai.response.finish_reasons"] == ("tool_use",)
    ran = dict(tool.attributes or {})
    assert (ran["gen_ai.operation.name"], ran["gen_ai.tool.name"]) == ("execute_tool", "look")
    assert ran["gen_ai.tool.call.id"] == "call_0_0"
    assert (first.kind, tool.kind) == (SpanKind.CLIENT, SpanKind.INTERNAL)
    assert [dict(one.attributes or {})["relight.seq"] for one in commits] == list(range(1, len(commits) + 1))
    told = " ".join(one.to_json() for one in recorded_spans.exporter.get_finished_spans())
    assert "a prompt of the user" not in told and "seen" not in told and "here" not in told, "no content"


@pytest.mark.usefixtures("relight_store")
def test_errors_are_recorded_and_each_retry_is_a_span(recorded_spans: RecordedSpans) -> None:
    def look(where: str) -> str:
        raise LookupError("nothing there")

    model = ScriptedModel([ConnectionError("reset"), *SCRIPT], form="openai")
    with relight.open() as rl, rl.session("fix") as s:
        retry = relight.Retry(first_seconds=0.001)
        s.run(model, tools={"look": look}, prompt="go", retry=retry)
    failed, answered, _ = recorded_spans.named("chat")
    assert failed.status.status_code == StatusCode.ERROR and answered.status.status_code == StatusCode.UNSET
    assert dict(failed.attributes or {})["error.type"] == "ConnectionError"
    assert dict(answered.attributes or {})["gen_ai.provider.name"] == "openai", "told by the form of the reply"
    tool = recorded_spans.one("execute_tool look")
    [event] = tool.events
    assert dict(event.attributes or {}) == {"exception.type": "LookupError", "exception.message": "nothing there"}


@pytest.mark.usefixtures("relight_store")
def test_a_span_ends_where_the_program_is_interrupted(recorded_spans: RecordedSpans) -> None:
    def interrupted(messages: list[dict[str, Any]]) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), relight.open() as rl, rl.session("fix") as s:
        s.run(interrupted, prompt="go")
    assert recorded_spans.one("chat").status.status_code == StatusCode.UNSET
