"""Anthropic Messages: one message object, or its stream of events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.support.fake_model.answer import Answer, Piece, error_of, slices

SIGNATURE: Final = "ZmFrZS1zaWduYXR1cmU="
_EMPTY: Final[dict[str, dict[str, Any]]] = {
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}
"""what a block lacks when it is announced"""


def whole(answer: Answer) -> dict[str, Any]:
    """The answer to a request that does not stream."""
    return {
        **_shell(answer),
        "content": list(_blocks(answer)),
        "stop_reason": _stop(answer),
        "usage": _usage(answer, answer.output_tokens),
    }


def stream(answer: Answer) -> Iterator[Piece]:
    """The events of a streaming answer."""
    yield "message_start", {"type": "message_start", "message": {**_shell(answer), "usage": _usage(answer, 1)}}
    yield "ping", {"type": "ping"}
    for index, block in enumerate(_blocks(answer)):
        yield from _streamed(index, block)
    if answer.turn.error is not None:
        yield "error", {"type": "error", "error": error_of(answer.turn)}
        return
    ended = {"stop_reason": _stop(answer), "stop_sequence": None}
    usage = {"output_tokens": answer.output_tokens}
    yield "message_delta", {"type": "message_delta", "delta": ended, "usage": usage}
    yield "message_stop", {"type": "message_stop"}


def failure(status: int, message: str) -> dict[str, Any]:
    """The body of an HTTP error."""
    kinds = {
        400: "invalid_request_error",
        401: "authentication_error",
        404: "not_found_error",
        413: "request_too_large",
    }
    kinds |= {403: "permission_error", 429: "rate_limit_error", 529: "overloaded_error"}
    return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}


def _shell(answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.number:06d}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(answer: Answer, output: int) -> dict[str, Any]:
    cache = {
        "cache_creation_input_tokens": answer.used("written"),
        "cache_read_input_tokens": answer.used("cached"),
        "cache_creation": {"ephemeral_5m_input_tokens": answer.used("written"), "ephemeral_1h_input_tokens": 0},
    }
    return {"input_tokens": answer.input_tokens, "output_tokens": output, "service_tier": "standard", **cache}


def _stop(answer: Answer) -> str:
    return answer.turn.stop or ("tool_use" if answer.calls else "end_turn")


def _blocks(answer: Answer) -> Iterator[dict[str, Any]]:
    if answer.turn.thinking:
        yield {"type": "thinking", "thinking": answer.turn.thinking, "signature": SIGNATURE}
    if answer.turn.text:
        yield {"type": "text", "text": answer.turn.text}
    for call in answer.calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": call.input}


def _streamed(index: int, block: dict[str, Any]) -> Iterator[Piece]:
    begun, deltas = {**block, **_EMPTY[block["type"]]}, list(_deltas(block))
    yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in deltas:
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": index}


def _deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match block["type"]:
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": part} for part in slices(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "text":
            yield from ({"type": "text_delta", "text": part} for part in slices(block["text"]))
        case _:
            text = json.dumps(block["input"])
            yield from ({"type": "input_json_delta", "partial_json": part} for part in slices(text))
