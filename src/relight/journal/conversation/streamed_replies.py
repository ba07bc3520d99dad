"""The pieces of a streamed reply, put together into the provider's whole response.

Known are the events of Anthropic Messages, of the Responses API and of Bedrock's ConverseStream, and the chunks of Chat
Completions and Gemini; events that SDKs add between them are ignored. A stream that ends before its provider says that
the reply is whole raises StreamEnded, which is transient: nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from relight.journal.formats.content import parse_arguments
from relight.journal.provider_errors import FailedReply, StreamEnded

_Events = Sequence[dict[str, Any]]
_RESPONSES_ENDS: Final = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_APPENDED: Final = {"text_delta": "text", "thinking_delta": "thinking"}
_BEDROCK_FAILURE: Final = "Exception"


def assembled(events: _Events) -> dict[str, Any] | None:
    """The whole response; None if these are no events of a stream that is known."""
    unwrapped = [event["chunk"] if isinstance(event.get("chunk"), dict) else event for event in events]
    for event in unwrapped:
        kind = event.get("type")
        if kind == "error":
            error = event.get("error")
            raise FailedReply(error if isinstance(error, dict) else event)
        if kind == "message_start":
            return _anthropic(unwrapped)
        if isinstance(kind, str) and kind.startswith("response."):
            return _responses(unwrapped)
        if "messageStart" in event:
            return _bedrock(unwrapped)
        if _is_gemini(event):
            return _gemini(unwrapped)
        if isinstance(event.get("choices"), list):
            return _chat(unwrapped)
    return None


def is_event(data: dict[str, Any]) -> bool:
    """Whether it begins the stream of a reply, and is no whole reply."""
    data = data["chunk"] if isinstance(data.get("chunk"), dict) else data
    kind, choices = data.get("type"), data.get("choices")
    if isinstance(choices, list):
        return all(isinstance(one, dict) and "message" not in one for one in choices)
    begins = kind == "message_start" or (isinstance(kind, str) and kind.startswith("response."))
    return begins or "messageStart" in data or _is_gemini(data)


def _anthropic(events: _Events) -> dict[str, Any]:
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for event in events:
        kind, index = event.get("type"), event.get("index", 0)
        if kind == "message_start":
            message = dict(event["message"])
        elif kind == "content_block_start":
            blocks[index] = dict(event["content_block"])
        elif kind == "content_block_delta":
            _add_anthropic(blocks[index], event["delta"], inputs, index)
        elif kind == "message_delta":
            message.update({name: one for name, one in event.get("delta", {}).items() if one is not None})
            counts = {name: one for name, one in (event.get("usage") or {}).items() if one is not None}
            message["usage"] = {**(message.get("usage") or {}), **counts}
        elif kind == "error":
            raise FailedReply(event.get("error") or event)
        elif kind == "message_stop":
            for at, text in inputs.items():
                blocks[at]["input"] = _object(text)
            return {**message, "content": [blocks[at] for at in sorted(blocks)]}
    raise StreamEnded


def _add_anthropic(block: dict[str, Any], delta: dict[str, Any], inputs: dict[int, str], index: int) -> None:
    kind = delta.get("type", "")
    if kind in _APPENDED:
        field = _APPENDED[kind]
        block[field] = block.get(field, "") + delta[field]
    elif kind == "input_json_delta":
        inputs[index] = inputs.get(index, "") + delta["partial_json"]
    elif kind == "signature_delta":
        block["signature"] = delta["signature"]
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
    elif kind == "compaction_delta":
        block.update({name: one for name, one in delta.items() if name != "type" and one is not None})


def _object(text: str) -> dict[str, Any]:
    """Arguments that were streamed as text. What is no object is wrapped in one, because a provider accepts only that:
    the tool then refuses it, and the model sees what it wrote."""
    parsed = parse_arguments(text)
    return parsed if isinstance(parsed, dict) else {"INVALID_JSON": parsed}


def _chat(events: _Events) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    usage, model, finish, last = None, None, None, 0
    for event in events:
        usage, model = event.get("usage") or usage, event.get("model") or model
        if event.get("error"):
            raise FailedReply(event["error"])
        choices = [one for one in event.get("choices") or () if isinstance(one, dict)]
        if any(choice.get("index", 0) for choice in choices):
            return {"choices": [{}, {}]}  # refused as any completion with several choices
        for choice in choices:
            finish = choice.get("finish_reason") or finish
            for name, one in (choice.get("delta") or {}).items():
                if name == "tool_calls":
                    for call in one or ():
                        # Some compatible servers omit the index: a piece with an id begins another call.
                        last = call.get("index", last + 1 if call.get("id") and last in calls else last)
                        _add_call(calls.setdefault(last, {}), call)
                elif isinstance(one, str) and name != "role":
                    message[name] = (message.get(name) or "") + one
                elif one is not None and name != "role":
                    message[name] = [*message.get(name, ()), *one] if isinstance(one, list) else one
    if finish is None:
        raise StreamEnded
    if calls:
        message["tool_calls"] = [calls[at] for at in sorted(calls)]
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage, "model": model}


def _add_call(call: dict[str, Any], piece: dict[str, Any]) -> None:
    for name, one in piece.items():
        if isinstance(one, dict):
            inner = call.setdefault(name, {})
            for field, text in one.items():
                grows = field in ("arguments", "input") and isinstance(text, str)
                inner[field] = inner.get(field, "") + text if grows else text or inner.get(field)
        elif one is not None and name != "index":
            call[name] = one


def _responses(events: _Events) -> dict[str, Any]:
    for event in reversed(events):
        if event.get("type") in _RESPONSES_ENDS and isinstance(event.get("response"), dict):
            return _with_items(event["response"], events)
        if event.get("type") == "error":
            raise FailedReply(event)
    raise StreamEnded


def _with_items(response: dict[str, Any], events: _Events) -> dict[str, Any]:
    """Some servers send the items only as they are done, and end with an empty response."""
    if response.get("output"):
        return response
    done = [event["item"] for event in events if event.get("type") == "response.output_item.done" and "item" in event]
    return {**response, "output": done}


def _bedrock(events: _Events) -> dict[str, Any]:
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    role, stop, usage = "assistant", None, None
    for event in events:
        for kind, told in event.items():
            if kind.endswith(_BEDROCK_FAILURE):
                raise FailedReply({"code": kind, **(told if isinstance(told, dict) else {})})
            index = told.get("contentBlockIndex", 0)
            if kind == "messageStart":
                role = told.get("role", role)
            elif kind == "contentBlockStart":
                blocks[index] = {name: dict(one) for name, one in told.get("start", {}).items()}
            elif kind == "contentBlockDelta":
                _add_bedrock(blocks.setdefault(index, {}), told.get("delta", {}), inputs, index)
            elif kind == "messageStop":
                stop = told.get("stopReason")
            elif kind == "metadata":
                usage = told.get("usage")
    if stop is None:
        raise StreamEnded
    for at, block in blocks.items():
        if "toolUse" in block:
            block["toolUse"]["input"] = _object(inputs.get(at, ""))
    content = [blocks[at] for at in sorted(blocks) if blocks[at]]
    return {"output": {"message": {"role": role, "content": content}}, "stopReason": stop, "usage": usage}


def _add_bedrock(block: dict[str, Any], delta: dict[str, Any], inputs: dict[int, str], index: int) -> None:
    if "text" in delta:
        block["text"] = block.get("text", "") + delta["text"]
    elif "toolUse" in delta:
        inputs[index] = inputs.get(index, "") + delta["toolUse"].get("input", "")
    elif "toolResult" in delta:
        result = block.setdefault("toolResult", {})
        result["content"] = [*result.get("content", ()), *delta["toolResult"]]
    elif "redactedContent" in delta.get("reasoningContent", ()):
        block["reasoningContent"] = delta["reasoningContent"]
    elif "reasoningContent" in delta:
        told = block.setdefault("reasoningContent", {}).setdefault("reasoningText", {})
        for field in ("text", "signature"):
            if field in delta["reasoningContent"]:
                told[field] = told.get(field, "") + delta["reasoningContent"][field]


def _gemini(events: _Events) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    whole: dict[str, Any] = {}
    finish = None
    for event in events:
        whole.update({name: one for name, one in event.items() if name != "candidates" and one is not None})
        for candidate in (event.get("candidates") or ())[:1]:
            finish = candidate.get("finishReason") or candidate.get("finish_reason") or finish
            for part in (candidate.get("content") or {}).get("parts") or ():
                if parts and _is_text(part) and _is_text(parts[-1]) and part.get("thought") == parts[-1].get("thought"):
                    parts[-1] = {**parts[-1], "text": parts[-1]["text"] + part["text"]}
                else:
                    parts.append(part)
    is_blocked = finish is None and any(whole.get(name) for name in ("promptFeedback", "prompt_feedback"))
    if is_blocked and not parts:
        return {**whole, "candidates": []}
    if finish is None and not is_blocked:
        raise StreamEnded
    content = {"role": "model", "parts": parts}
    return {**whole, "candidates": [{"content": content, "finishReason": finish}]}


def _is_gemini(event: dict[str, Any]) -> bool:
    """Whether it is a chunk of Gemini's. One that blocks the prompt has no candidates."""
    return isinstance(event.get("candidates"), list) or any(
        isinstance(event.get(name), dict) for name in ("promptFeedback", "prompt_feedback")
    )


def _is_text(part: dict[str, Any]) -> bool:
    """A part that is nothing but text; one with a signature must stay as it was sent."""
    return isinstance(part.get("text"), str) and part.keys() <= {"text", "thought"}
