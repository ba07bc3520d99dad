"""OpenAI Responses: one response object of items, or its stream of numbered events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.fake_model.answer import Answer, Piece, error_of, slices
from tests.support.fake_model.tools import as_json


def whole(answer: Answer) -> dict[str, Any]:
    """The answer to a request that does not stream."""
    reason = answer.turn.stop
    ended: dict[str, Any] = {"status": "completed"}
    if reason:
        ended = {"status": "incomplete", "incomplete_details": {"reason": reason}}
    return {**_shell(answer), **ended, "output": list(_items(answer)), "usage": _usage(answer)}


def stream(answer: Answer) -> Iterator[Piece]:
    """The events of a streaming answer."""
    for number, (name, data) in enumerate(_events(answer)):
        yield name, {"type": name, "sequence_number": number, **data}


def failure(status: int, message: str) -> dict[str, Any]:
    """The body of an HTTP error."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _events(answer: Answer) -> Iterator[Piece]:
    begun = {**_shell(answer), "status": "in_progress"}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(_items(answer)):
        yield from _streamed(index, item)
    if answer.turn.error is not None:
        failed = {**_shell(answer), "status": "failed", "error": error_of(answer.turn)}
        yield "response.failed", {"response": failed}
    else:
        finished = whole(answer)
        yield f"response.{finished['status']}", {"response": finished}


def _streamed(index: int, item: dict[str, Any]) -> Iterator[Piece]:
    location = {"output_index": index, "item_id": item["id"]}
    yield "response.output_item.added", {"output_index": index, "item": {**item, **_empty(item)}}
    if item["type"] == "message" and "text" in item["content"][0]:
        [part] = item["content"]
        inside = {**location, "content_index": 0}
        yield "response.content_part.added", {**inside, "part": {**part, "text": ""}}
        for piece in slices(part["text"]):
            yield "response.output_text.delta", {**inside, "delta": piece}
        yield "response.output_text.done", {**inside, "text": part["text"]}
        yield "response.content_part.done", {**inside, "part": part}
    elif item["type"] == "function_call":
        for piece in slices(item["arguments"]):
            yield "response.function_call_arguments.delta", {**location, "delta": piece}
        yield "response.function_call_arguments.done", {**location, "arguments": item["arguments"]}
    elif item["type"] == "custom_tool_call":
        for piece in slices(item["input"]):
            yield "response.custom_tool_call_input.delta", {**location, "delta": piece}
        yield "response.custom_tool_call_input.done", {**location, "input": item["input"]}
    yield "response.output_item.done", {"output_index": index, "item": item}


def _empty(item: dict[str, Any]) -> dict[str, Any]:
    """What an item lacks when it is announced."""
    fields: dict[str, dict[str, Any]] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "custom_tool_call": {"input": ""},
    }
    return {**fields.get(item["type"], {}), **({"status": "in_progress"} if "status" in item else {})}


def _shell(answer: Answer) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.number:06d}",
        "object": "response",
        "created_at": 1_700_000_000 + answer.number,
        "model": answer.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "input_tokens": answer.prompt_tokens,
        "input_tokens_details": {"cached_tokens": answer.used("cached"), "cache_write_tokens": answer.used("written")},
        "output_tokens": answer.output_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.used("reasoning")},
        "total_tokens": answer.prompt_tokens + answer.output_tokens,
    }


def _items(answer: Answer) -> Iterator[dict[str, Any]]:
    number = f"{answer.number:06d}"
    if answer.turn.thinking:
        summary = [{"type": "summary_text", "text": answer.turn.thinking}]
        yield {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": "ZmFrZQ=="}
    if answer.turn.refusal:
        said = {"type": "refusal", "refusal": answer.turn.refusal}
        yield {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [said]}
    if answer.turn.text:
        part = {"type": "output_text", "text": answer.turn.text, "annotations": [], "logprobs": []}
        yield {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [part]}
    for location, call in enumerate(answer.calls):
        made = {"call_id": call.id, "name": call.name, "status": "completed"}
        made |= {"namespace": call.namespace} if call.namespace else {}
        if call.custom:
            yield {"type": "custom_tool_call", "id": f"ctc_{number}_{location}", **made, "input": as_json(call.input)}
        else:
            yield {"type": "function_call", "id": f"fc_{number}_{location}", **made, "arguments": as_json(call.input)}
