"""OpenAI Chat Completions: one completion, or its chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.fake_model.answer import Answer, Piece, error_of, slices
from tests.support.fake_model.responses import failure
from tests.support.fake_model.tools import as_json

__all__ = ["failure", "stream", "whole"]


def whole(answer: Answer) -> dict[str, Any]:
    """The answer to a request that does not stream."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.turn.text or None, "annotations": []}
    message["refusal"] = answer.turn.refusal or None
    if answer.calls:
        message["tool_calls"] = [_call(answer, location) for location in range(len(answer.calls))]
    choice = {"index": 0, "message": message, "finish_reason": _stop(answer), "logprobs": None}
    return {**_shell(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def stream(answer: Answer) -> Iterator[Piece]:
    """The chunks of a streaming answer."""
    yield _chunk(answer, {"role": "assistant", "content": ""})
    for part in slices(answer.turn.text):
        yield _chunk(answer, {"content": part})
    for part in slices(answer.turn.refusal):
        yield _chunk(answer, {"refusal": part})
    for location in range(len(answer.calls)):
        call = _call(answer, location)
        arguments = call["function"].pop("arguments")
        begun = {**call, "index": location, "function": {**call["function"], "arguments": ""}}
        yield _chunk(answer, {"tool_calls": [begun]})
        for part in slices(arguments):
            yield _chunk(answer, {"tool_calls": [{"index": location, "function": {"arguments": part}}]})
    if answer.turn.error is not None:
        yield "", {"error": error_of(answer.turn)}
        return
    yield _chunk(answer, {}, _stop(answer))
    yield "", {**_shell(answer, "chat.completion.chunk"), "choices": [], "usage": _usage(answer)}
    yield "", "[DONE]"


def _shell(answer: Answer, kind: str) -> dict[str, Any]:
    created = 1_700_000_000 + answer.number
    return {"id": f"chatcmpl-{answer.number:06d}", "object": kind, "created": created, "model": answer.model}


def _chunk(answer: Answer, delta: dict[str, Any], stop: str | None = None) -> Piece:
    choice = {"index": 0, "delta": delta, "finish_reason": stop, "logprobs": None}
    return "", {**_shell(answer, "chat.completion.chunk"), "choices": [choice]}


def _call(answer: Answer, location: int) -> dict[str, Any]:
    call = answer.calls[location]
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": as_json(call.input)}}


def _stop(answer: Answer) -> str:
    return answer.turn.stop or ("tool_calls" if answer.calls else "stop")


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.prompt_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.used("cached"), "cache_write_tokens": answer.used("written")},
        "completion_tokens_details": {"reasoning_tokens": answer.used("reasoning")},
    }
