"""A provider's whole response, taken apart: the messages to send back, the usage, the stop reason.

Responses come as dicts or as objects of an SDK (anything with `model_dump`). What is kept of a message is what the
provider accepts in the next request: not its id, usage or stop reason, and no fields that the SDK added or left None.
Nothing is imported from an SDK.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from relight.journal.conversation.reply_ends import EMPTY_REPLY, PROVIDER_RUN, REFUSED_REPLY
from relight.journal.formats.anthropic import ANTHROPIC
from relight.journal.formats.bedrock import BEDROCK
from relight.journal.formats.content import text_of
from relight.journal.formats.format import Format, ProviderDict
from relight.journal.formats.gemini import GEMINI
from relight.journal.formats.openai_chat import OPENAI_CHAT
from relight.journal.formats.openai_responses import OPENAI_RESPONSES
from relight.journal.provider_errors import StreamEnded

_SDK_FIELDS: Final = frozenset({"parsed", "parsed_output", "parsed_arguments", "annotations"})
"""of a chat message or a content block: what an SDK parsed, and what the provider does not accept back"""
_NULLABLE: Final = frozenset({"content", "outputs", "code"})
"""fields that some providers require even if they are None"""
_RESPONSE_FIELDS: Final = frozenset({"created_by", "parsed_arguments"})
"""of an item of the Responses API, and not of what it takes"""
_ESCAPED: Final = "_"
"""what the SDKs put behind a field whose name is a word of Python: the dump of `async` is `async_`"""
_THINKING: Final = ("thinking", "redacted_thinking")
_BLOCKED: Final = "content_filter"
_SEARCHES: Final = "tool_search_tool_"
_NOT_ENDED: Final = "not ended: the turn was broken off"


class WholeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One response of a provider."""

    format: Format
    messages: list[Any]
    usage: Any = None
    """the provider's own mapping"""
    stop: str | None = None
    """why the model stopped, as the provider names it"""
    failure: Mapping[str, Any] | None = None
    """the error inside a response that failed"""
    model: str | None = None
    """the model that answered, as the provider names it"""


def is_sdk_object(value: Any) -> bool:
    """Whether an SDK made it: an object that can be dumped as pydantic's can."""
    # Asked for every message of every step, and nearly every one is a dict: the union below is built at each call.
    if type(value) is dict:
        return False
    return not isinstance(value, dict | str | type) and callable(getattr(value, "model_dump", None))


def plain(value: Any) -> Any:
    """The value with all objects of an SDK in it as the JSON data that the SDK itself would send."""
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if not is_sdk_object(value):
        return value
    dump, hidden = value.model_dump, getattr(value, "__api_exclude__", None)
    try:
        return dump(mode="json", by_alias=True, exclude_unset=True, exclude=hidden, warnings=False)
    except TypeError:  # an object that only has the method's name in common with pydantic's
        return dump()


def whole_response(returned: ProviderDict) -> WholeResponse | None:
    """The parts of a whole response; None if it is something else. ValueError says why it has no single reply.
    StreamEnded: what an SDK's stream helper gave as its final message is what had come when the connection ended."""
    for read in _READERS:
        if (found := read(returned)) is not None:
            model = _text(_either(returned, "model", "modelVersion", "model_version"))
            return found if model is None else msgspec.structs.replace(found, model=model)
    return None


def _anthropic(returned: ProviderDict) -> WholeResponse | None:
    if returned.get("type") != "message" or returned.get("role") != "assistant":
        return None
    if "stop_reason" not in returned and "usage" not in returned:
        return None
    _check_ended(returned, "stop_reason")
    message = {"role": "assistant", "content": returned.get("content")}
    details = returned.get("stop_details")
    explanation = details.get("explanation") if isinstance(details, dict) else None
    if message["content"] == [] and isinstance(explanation, str) and explanation:
        message["content"] = [{"type": "text", "text": f"{REFUSED_REPLY} {explanation}"}]
    return WholeResponse(
        format=ANTHROPIC,
        messages=[message],
        usage=_mapping(returned.get("usage")),
        stop=_text(returned.get("stop_reason")),
    )


def _chat(returned: ProviderDict) -> WholeResponse | None:
    choices = returned.get("choices")
    if not isinstance(choices, list):
        return None
    if len(choices) != 1 or not isinstance(choices[0], dict):
        raise ValueError(f"a chat completion with {len(choices)} choices, of which relight cannot choose one")
    choice = _choice(choices[0])
    if choice is None:
        raise ValueError("a completion whose choice has no message")
    return msgspec.structs.replace(choice, usage=_mapping(returned.get("usage")))


def _choice(returned: ProviderDict) -> WholeResponse | None:
    message = returned.get("message")
    if not isinstance(message, dict) or "finish_reason" not in returned:
        return None
    _check_ended(returned, "finish_reason")
    return WholeResponse(format=OPENAI_CHAT, messages=[message], stop=_text(returned.get("finish_reason")))


def _check_ended(returned: ProviderDict, reason: str) -> None:
    """StreamEnded for half a reply. A provider gives every whole one a reason why it stopped; only while a reply is
    streamed is it null, and the SDKs' `get_final_message` and `get_final_completion` do not check for that."""
    if reason in returned and returned[reason] is None:
        raise StreamEnded


def _responses(returned: ProviderDict) -> WholeResponse | None:
    output, status = returned.get("output"), _text(returned.get("status"))
    if not isinstance(output, list) or (returned.get("object") != "response" and status is None):
        return None
    if status in ("queued", "in_progress"):
        raise ValueError(f"a response that is {status}: wait for its end before it is returned")
    details = returned.get("incomplete_details")
    reason = _text(details.get("reason")) if isinstance(details, dict) else None
    failed = _mapping(returned.get("error")) if status == "failed" else None
    stop = None if status == "completed" else reason or status
    usage = _mapping(returned.get("usage"))
    if not output and status in ("completed", "incomplete"):
        output = [OPENAI_RESPONSES.assistant(EMPTY_REPLY)]
    return WholeResponse(format=OPENAI_RESPONSES, messages=output, usage=usage, stop=stop, failure=failed)


def _bedrock(returned: ProviderDict) -> WholeResponse | None:
    output = returned.get("output")
    message = output.get("message") if isinstance(output, dict) else None
    if not isinstance(message, dict) or "stopReason" not in returned:
        return None
    usage = _mapping(returned.get("usage"))
    return WholeResponse(format=BEDROCK, messages=[message], usage=usage, stop=_text(returned.get("stopReason")))


def _gemini(returned: ProviderDict) -> WholeResponse | None:
    candidates = returned.get("candidates")
    feedback = _mapping(_either(returned, "promptFeedback", "prompt_feedback"))
    if not isinstance(candidates, list) and feedback is None:
        return None
    usage = _mapping(_either(returned, "usageMetadata", "usage_metadata"))
    if not candidates and feedback is not None:  # the prompt was blocked, so there is no candidate
        blocked = _text(_either(feedback, "blockReason", "block_reason")) or _BLOCKED
        refused = GEMINI.assistant(f"{REFUSED_REPLY} {blocked}")
        return WholeResponse(format=GEMINI, messages=[refused], usage=usage, stop=_BLOCKED)
    if not isinstance(candidates, list) or len(candidates) != 1 or not isinstance(candidates[0], dict):
        raise ValueError(
            f"a response of Gemini with {len(candidates or ())} candidates, of which relight cannot choose one"
        )
    content, stop = candidates[0].get("content"), _text(_either(candidates[0], "finishReason", "finish_reason"))
    message = {"role": "model", **content} if isinstance(content, dict) else {"role": "model", "parts": []}
    return WholeResponse(format=GEMINI, messages=[message], usage=usage, stop=stop)


_READERS: Final[tuple[Callable[[ProviderDict], WholeResponse | None], ...]] = (
    _anthropic, _chat, _choice, _responses, _bedrock, _gemini,
)  # fmt: skip


# -- what a provider accepts in the next request ----------------------------------------------------------------------


def sendable(message: ProviderDict, format: Format) -> ProviderDict:
    """The message without what the provider would refuse to read again."""
    if format is ANTHROPIC or format is BEDROCK:
        return _with_content(message, format)
    if format is OPENAI_CHAT:
        return _chat_message(message)
    if format is OPENAI_RESPONSES:
        return _item(message)
    if format is GEMINI:
        return {**message, "parts": _as_sent(message.get("parts")) or [{"text": EMPTY_REPLY}]}
    return message


def _as_sent(value: Any) -> Any:
    """What Gemini's SDK dumped, as it is sent: bytes (signatures, images) as text, and fields without a value left
    out."""
    if isinstance(value, dict):
        return {name: _as_sent(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_as_sent(one) for one in value]
    return urlsafe_b64encode(value).decode() if isinstance(value, bytes) else value


def refusal_in(message: ProviderDict) -> bool:
    """Whether it has a refusal in a field or part of its own, as OpenAI's models refuse."""
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        return True
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return any(isinstance(part, dict) and part.get("type") == "refusal" for part in parts)


def sendable_reply(messages: list[ProviderDict], format: Format) -> list[ProviderDict]:
    """All of a reply as it can be sent back. OpenAI refuses reasoning that nothing follows, as in a reply that was cut
    off while the model reasoned."""
    kept = [sendable(one, format) for one in messages]
    if format is OPENAI_RESPONSES:
        while kept and kept[-1].get("type") == "reasoning":
            kept.pop()
        return kept or [format.assistant(EMPTY_REPLY)]
    return kept


def _with_content(message: ProviderDict, format: Format) -> ProviderDict:
    """Anthropic and Bedrock refuse texts without a word, messages without content in the middle of a conversation, and
    those that end with thinking."""
    content = message.get("content")
    if not isinstance(content, list):
        is_empty = isinstance(content, str) and not content.strip()
        return {**message, "content": EMPTY_REPLY} if is_empty else message
    blocks = [_lean(block) for block in content if not _is_empty_text(block)]
    if not blocks or _is_thinking(blocks[-1]):
        blocks += format.assistant(EMPTY_REPLY)["content"]
    return {**message, "content": blocks}


def _is_empty_text(block: Any) -> bool:
    text = block.get("text") if isinstance(block, dict) and block.get("type", "text") == "text" else None
    return isinstance(text, str) and not text.strip()


def _is_thinking(block: Any) -> bool:
    return isinstance(block, dict) and (block.get("type") in _THINKING or "reasoningContent" in block)


def _chat_message(message: ProviderDict) -> ProviderDict:
    kept: ProviderDict = _lean(message)
    if kept.get("content", "") is None and not {"tool_calls", "refusal", "audio"} & kept.keys():
        kept["content"] = ""
    if isinstance(content := kept.get("content"), list):
        kept["content"] = [_lean(part) for part in content]
    if isinstance(calls := kept.get("tool_calls"), list):
        kept["tool_calls"] = [_chat_call(call) for call in calls]
        if not calls:
            del kept["tool_calls"]
    audio = kept.get("audio")
    if isinstance(audio, dict) and "id" in audio:
        kept["audio"] = {"id": audio["id"]}
    return kept


def _chat_call(call: Any) -> Any:
    kept = _lean(call)
    if isinstance(kept, dict):
        kept.pop("index", None)  # of a streamed piece
        if isinstance(kept.get("function"), dict):
            kept["function"] = _lean(kept["function"])
    return kept


def _item(item: ProviderDict) -> ProviderDict:
    kept: ProviderDict = {
        name.removesuffix(_ESCAPED): one
        for name, one in item.items()
        if (one is not None or name in ("outputs", "code")) and name not in _RESPONSE_FIELDS
    }
    if isinstance(content := kept.get("content"), list):
        kept["content"] = [
            {name: one for name, one in part.items() if one is not None and name != "parsed"}
            if isinstance(part, dict)
            else part
            for part in content
        ]
    if isinstance(action := kept.get("action"), dict):
        kept["action"] = {name: one for name, one in action.items() if one is not None}
    return kept


def _lean(block: Any) -> Any:
    """A copy without fields that are None or that the SDK added."""
    if not isinstance(block, dict):
        return block
    return {
        name.removesuffix(_ESCAPED): one
        for name, one in block.items()
        if (one is not None or name in _NULLABLE) and name not in _SDK_FIELDS
    }


def _mapping(value: Any) -> Any:
    return value if isinstance(value, dict) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _either(given: ProviderDict, *names: str) -> Any:
    return next((given[name] for name in names if given.get(name) is not None), None)


# -- calls that the provider has begun and not ended ------------------------------------------------------------------


def is_users(format: Format, message: ProviderDict) -> bool:
    """Whether it is what a user says, and no result of a call."""
    return not format.is_assistant(message) and not format.answers(message)


def ended_turn(format: Format, before: Sequence[ProviderDict], added: list[ProviderDict]) -> list[ProviderDict]:
    """What is added to the conversation. Where a user's turn begins, the calls that Anthropic has not ended (it paused
    the turn, or cut it off) get results in front of it: unavailable, in the provider's own words. It continues such a
    turn only as long as nothing but results follows, and refuses every request after that."""
    if format is not ANTHROPIC or not added or not is_users(format, added[0]):
        return added
    begun, ended = [], set()
    for message in reversed(before):
        if is_users(format, message):
            break
        content = message.get("content")
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        begun += [block for block in reversed(blocks) if block.get("type") in PROVIDER_RUN]
        ended |= {text_of(block.get("tool_use_id")) for block in blocks}
    results = [_not_ended(block) for block in reversed(begun) if text_of(block.get("id")) not in ended]
    return [{"role": "assistant", "content": results}, *added] if results else added


def _not_ended(block: ProviderDict) -> ProviderDict:
    answered = {"tool_use_id": block.get("id")}
    if block["type"] == "mcp_tool_use":
        return {"type": "mcp_tool_result", **answered, "is_error": True, "content": _NOT_ENDED}
    name = text_of(block.get("name"))
    kind = "tool_search_tool_result" if name.startswith(_SEARCHES) else f"{name}_tool_result"
    error = {"type": f"{kind}_error", "error_code": "unavailable"}
    return {"type": kind, **answered, "content": error}
