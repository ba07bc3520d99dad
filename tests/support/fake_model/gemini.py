"""Gemini `generateContent`: one response, or its chunks. A call has an id only if the script gives it one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.support.fake_model.answer import Answer, Piece, error_of, slices

SIGNATURE: Final = "ZmFrZS1zaWduYXR1cmU_"
_STATUSES: Final = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
_MORE: Final = {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}


def whole(answer: Answer) -> dict[str, Any]:
    """The answer to a request that does not stream."""
    return _response(answer, list(_parts(answer)), last=True)


def stream(answer: Answer) -> Iterator[Piece]:
    """The chunks of a streaming answer: texts in pieces, each call whole."""
    for part in _parts(answer):
        if "functionCall" in part:
            yield "", _response(answer, [part])
            continue
        for piece in slices(part["text"]):
            yield "", _response(answer, [{**part, "text": piece}])
    if answer.turn.error is not None:
        yield "", {"error": {"code": 500, "status": "INTERNAL", **error_of(answer.turn)}}
        return
    yield "", _response(answer, [], last=True)


def failure(status: int, message: str) -> dict[str, Any]:
    """The body of an HTTP error."""
    named = {**_STATUSES, **_MORE}.get(status, "UNKNOWN")
    return {"error": {"code": status, "message": message, "status": named}}


def _response(answer: Answer, parts: list[dict[str, Any]], *, last: bool = False) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    found: dict[str, Any] = {
        "candidates": [candidate],
        "modelVersion": answer.model,
        "responseId": f"resp-{answer.number:06d}",
    }
    if last:
        candidate["finishReason"] = answer.turn.stop or "STOP"
        found["usageMetadata"] = _usage(answer)
    return found


def _parts(answer: Answer) -> Iterator[dict[str, Any]]:
    if answer.turn.thinking:
        yield {"text": answer.turn.thinking, "thought": True}
    if answer.turn.text:
        yield {"text": answer.turn.text}
    for scripted, call in zip(answer.turn.calls, answer.calls, strict=True):
        named = {"id": call.id} if scripted.id else {}
        yield {"functionCall": {**named, "name": call.name, "args": call.input}, "thoughtSignature": SIGNATURE}


def _usage(answer: Answer) -> dict[str, int]:
    """Thinking is beside the output, what was read from the cache is part of the input, nothing is written to it."""
    return {
        "promptTokenCount": answer.input_tokens + answer.used("cached"),
        "candidatesTokenCount": answer.output_tokens - answer.used("reasoning"),
        "cachedContentTokenCount": answer.used("cached"),
        "thoughtsTokenCount": answer.used("reasoning"),
        "totalTokenCount": answer.input_tokens + answer.used("cached") + answer.output_tokens,
    }
