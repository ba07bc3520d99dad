"""Parses what a model function returned into messages of the session's format, or refuses it with a reason.

A reply that relight cannot read would have calls that never run and an end that is never noticed, so it is refused at
once. What a provider adds besides calls (a new kind of block, another field) is accepted as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from relight.errors import InvalidMessage
from relight.journal.conversation.provider_responses import (
    WholeResponse,
    plain,
    refusal_in,
    sendable_reply,
    whole_response,
)
from relight.journal.conversation.reply_ends import PROVIDER_RUN
from relight.journal.formats.anthropic import ANTHROPIC
from relight.journal.formats.bedrock import BEDROCK
from relight.journal.formats.format import Format, ProviderDict
from relight.journal.formats.gemini import GEMINI
from relight.journal.formats.openai_chat import OPENAI_CHAT
from relight.journal.formats.openai_responses import OPENAI_RESPONSES
from relight.journal.provider_errors import FailedReply

_FORMATS: Final[tuple[Format, ...]] = (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, BEDROCK, GEMINI)
_NAMES: Final = {
    "anthropic": "Anthropic Messages",
    "openai_chat": "OpenAI Chat Completions",
    "openai_responses": "OpenAI Responses",
    "bedrock": "Bedrock Converse",
    "gemini": "Gemini generateContent",
}
_RETURN: Final = {
    "anthropic": "what client.messages.create(...) returns",
    "openai_chat": "what client.chat.completions.create(...) returns",
    "openai_responses": "what client.responses.create(...) returns",
    "bedrock": "what client.converse(...) returns",
    "gemini": "what client.models.generate_content(...) returns",
}
_ANY: Final = (
    "what the provider's SDK returned (an object, its model_dump(), a stream), its message as a dict, its output items "
    "as a list of dicts, or relight.Reply(message, usage, stop_reason)"
)
_OURS: Final = ("tool_use", *PROVIDER_RUN)
_CONTENT: Final = frozenset({"text", "tool_use", "thinking", "redacted_thinking"})
_ASKS: Final = frozenset({"tool_use", "tool_calls", "function_call"})
"""why a model stops that waits for results of its calls. Some helpers of SDKs leave out calls that they do not know."""
_SHOWN: Final = 120


class ParsedReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply that can be committed."""

    messages: list[ProviderDict]
    usage: Any = None
    """the provider's own mapping, if the reply contains it"""
    stop: str | None = None
    """why the model stopped, as the provider names it"""
    model: str | None = None
    """the model that answered, if the reply says so"""


def parse_reply(returned: Any, *, known: Format | None, default: Format) -> ParsedReply:
    """What was returned, as a reply of the session; InvalidMessage if it is none.

    `known` is the format that the conversation has shown, `default` the one assumed until then.
    """
    data = plain(returned)
    whole = _whole(data, known) if isinstance(data, dict) else None
    if whole is not None and whole.failure is not None:
        raise FailedReply(whole.failure)
    if _is_content(data):
        data = {"role": "assistant", "content": data}
    messages = whole.messages if whole is not None else data if isinstance(data, list) else [data]
    if not messages:
        raise _refused("an empty list" if whole is None else "a response without output", known)
    for one in messages:
        if not isinstance(one, dict):
            raise _refused(_what(one) if one is data else f"a list with {_what(one)} in it", known)
    own = known or _told_by(messages, whole) or default
    if not own.native:
        messages = sendable_reply(messages, own)
        _check(messages, own, known)
    if whole is None:
        whole = WholeResponse(format=own, messages=messages)
    stop = whole.stop
    if any(map(refusal_in, messages)):
        stop = "refusal"
    elif stop is None and any(one.get("status") == "incomplete" for one in messages):
        stop = "incomplete"
    if stop in _ASKS and not any(map(own.calls, messages)):
        raise _refused(f"a reply that ended to have tools called ({stop}), without a call in it", known)
    return ParsedReply(messages=messages, usage=whole.usage, stop=stop, model=whole.model)


def _is_content(data: Any) -> bool:
    """Whether it is the content of a message of Anthropic's. Items of the Responses API are of other types."""
    blocks = data if isinstance(data, list) else []
    kinds = {block.get("type") for block in blocks if isinstance(block, dict) and "role" not in block}
    return bool(kinds & _CONTENT) and all(isinstance(block, dict) and "type" in block for block in blocks)


def _whole(data: ProviderDict, known: Format | None) -> WholeResponse | None:
    try:
        return whole_response(data)
    except ValueError as error:
        raise _refused(str(error), known) from None


def _told_by(messages: list[ProviderDict], whole: WholeResponse | None) -> Format | None:
    if whole is not None:
        return whole.format
    return next((one for one in _FORMATS if any(map(one.recognises, messages))), None)


def unseen_call(message: ProviderDict, format: Format) -> str | None:
    """Name of a call in this message that the session's format does not recognise; None if there is none."""
    if isinstance(message.get("function_call"), dict):
        return "a function_call, the form that came before tool_calls"
    choices = message.get("choices")
    if isinstance(choices, list) and any(_asks(one.get("message")) for one in choices if isinstance(one, dict)):
        return "tool_calls inside a whole chat completion"
    if format.native or format.calls(message):
        return None
    for other in _FORMATS:
        if other is not format and other.calls(message):
            return f"a call in the form of {_NAMES[other.name]}"
    blocks = [block for block in _content(message) if isinstance(block, dict)]
    strange = [kind for block in blocks if _is_strange_use(kind := block.get("type"))]
    if strange:
        return f"a {strange[0]}, which is no kind of call that relight knows"
    return _unseen_item(message) if format is OPENAI_RESPONSES else None


def refuse_unseen(messages: Sequence[ProviderDict], format: Format) -> None:
    """InvalidMessage if the newest reply contains a call that would not be recognised."""
    for message in reversed(messages):
        if (call := unseen_call(message, format)) is not None:
            name = _NAMES.get(format.name, format.name)
            raise InvalidMessage(
                call,
                says=f"the newest message has {call}, which a conversation in the form of {name} does not run",
                hints=["append the reply in the form of one provider, or append the result of that call yourself"],
            )
        if not format.is_assistant(message):
            return


def _check(messages: list[ProviderDict], own: Format, known: Format | None) -> None:
    for message in messages:
        if (call := unseen_call(message, own)) is not None:
            raise _refused(call, known)
        foreign = next((one for one in _FORMATS if one is not own and one.recognises(message)), None)
        # Several providers of Chat Completions put thinking into the content as Anthropic does; it contains no calls.
        thinks = foreign is ANTHROPIC and own is OPENAI_CHAT
        if foreign is not None and not own.recognises(message) and not thinks:
            raise _refused(f"a message in the form of {_NAMES[foreign.name]}", known)
        if (why := _fault(message, own)) is not None:
            raise _refused(why, known)
    if not any(map(own.is_assistant, messages)):
        raise _refused("no message of the model's", known)
    ids = [call.id for message in messages for call in own.calls(message)]
    if twice := next((one for one in ids if ids.count(one) > 1), None):
        raise _refused(f"two calls with the id {twice!r}, of which one would never be run", known)


def _fault(message: ProviderDict, own: Format) -> str | None:
    """Why it is not a valid reply message of this format; None if it is one."""
    role = message.get("role")
    if own is OPENAI_RESPONSES and (role is None or message.get("type") == "additional_tools"):
        return None if isinstance(message.get("type"), str) else _shape(message)
    if own is GEMINI:
        return None if role == "model" and own.recognises(message) else _shape(message)
    if role != "assistant":
        return None if own.answers(message) else _shape(message)
    content = message.get("content")
    if own is BEDROCK and not isinstance(content, list):
        return f"content that is {_what(content)}"
    if content is None:
        return "a message without content" if own is ANTHROPIC else _fault_of_calls(message)
    if not isinstance(content, str | list):
        return f"content that is {_what(content)}"
    for part in _content(message):
        if not isinstance(part, dict):
            return f"content with {_what(part)} in it"
        if own is not BEDROCK and not isinstance(part.get("type"), str):
            return f"content with a block without a type: {_keys(part)}"
    return _fault_of_calls(message)


def _fault_of_calls(message: ProviderDict) -> str | None:
    calls = message.get("tool_calls")
    if calls is None:
        return None
    if not isinstance(calls, list):
        return f"tool_calls that are {_what(calls)}"
    for call in calls:
        if not isinstance(call, dict) or not any(isinstance(call.get(one), dict) for one in ("function", "custom")):
            return "an entry of tool_calls that is neither a function nor a custom call"
    return None


def _unseen_item(item: ProviderDict) -> str | None:
    """An item of the Responses API that expects an output other than a tool result."""
    kind = item.get("type")
    if kind == "mcp_approval_request":
        return "an mcp_approval_request, which waits for an mcp_approval_response"
    if not isinstance(kind, str) or not kind.endswith("_call") or OPENAI_RESPONSES.calls(item):
        return None
    if item.get("execution") == "server":
        return None
    return f"a {kind}, which waits for an output of its own" if isinstance(item.get("call_id"), str) else None


def _refused(what: str, own: Format | None) -> InvalidMessage:
    """`own`: the format of the session, if it has shown one."""
    known = ", ".join(_NAMES.values())
    right = _RETURN.get(own.name if own is not None else "", _ANY)
    form = "a form that relight knows"
    if own is not None:
        form = f"the form of {_NAMES.get(own.name, own.name)}, as this session is in"
    says = f"the model function returned {what}, which is no reply in {form}; return {right}"
    return InvalidMessage(what, says=says, hints=[f"known are {known}"])


def _shape(message: ProviderDict) -> str:
    role = message.get("role")
    return f"a dict with the role {role!r}" if role is not None else f"a dict that is no message: {_keys(message)}"


def _keys(message: Mapping[Any, Any]) -> str:
    keys = ", ".join(map(str, message)) or "it is empty"
    return keys if len(keys) <= _SHOWN else keys[:_SHOWN] + "…"


def _what(value: Any) -> str:
    if value is None:
        return "None"
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else f"a {kind.__name__}"


def _content(message: ProviderDict) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _asks(message: Any) -> bool:
    return isinstance(message, dict) and bool(message.get("tool_calls") or message.get("function_call"))


def _is_strange_use(kind: Any) -> bool:
    return isinstance(kind, str) and kind.endswith("tool_use") and kind not in _OURS
