"""Parses what a model function returned into messages of the session's format, or refuses it with a reason.

A reply that relight cannot read would have calls that never run and an end that is never noticed, so it is refused at
once. What a provider adds besides calls (a new kind of block, another field) is accepted as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from relight.errors import InvalidMessage
from relight.journal.formats.anthropic import ANTHROPIC
from relight.journal.formats.format import Format, ProviderDict
from relight.journal.formats.openai_chat import OPENAI_CHAT
from relight.journal.formats.openai_responses import OPENAI_RESPONSES

CUT_OFF: Final = "not run: the reply that asks for it was cut off, so its arguments may be incomplete"
MAX_PAUSES: Final = 20
"""replies in a row in which a provider may pause its own turn"""
_FORMATS: Final[tuple[Format, ...]] = (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES)
_NAMES: Final = {
    "anthropic": "Anthropic Messages",
    "openai_chat": "OpenAI Chat Completions",
    "openai_responses": "OpenAI Responses",
}
_RETURN: Final = {
    "anthropic": (
        'relight.Reply({"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in reply.content]}, '
        "reply.usage, reply.stop_reason)"
    ),
    "openai_chat": (
        "relight.Reply(reply.choices[0].message.model_dump(exclude_none=True), reply.usage, "
        "reply.choices[0].finish_reason)"
    ),
    "openai_responses": (
        "relight.Reply([item.model_dump(exclude_none=True) for item in reply.output], reply.usage, reply.status)"
    ),
}
_ANY: Final = (
    "the provider's own message as a dict, its output items as a list of dicts, or relight.Reply(message, usage, "
    "stop_reason); for example " + _RETURN["openai_chat"]
)
_CUT: Final = frozenset(
    {"max_tokens", "length", "incomplete", "max_output_tokens", "content_filter", "model_context_window_exceeded"}
)
_PAUSED: Final = frozenset({"pause_turn"})
_PROVIDER_RUN: Final = ("server_tool_use", "mcp_tool_use")
_OURS: Final = ("tool_use", *_PROVIDER_RUN)
_SHOWN: Final = 120


class ParsedReply(msgspec.Struct, frozen=True, kw_only=True):
    """A reply that can be committed."""

    messages: list[ProviderDict]
    usage: Any = None
    """the provider's own mapping, if the reply contains it"""
    stop: str | None = None
    """why the model stopped, as the provider names it"""


def parse_reply(returned: Any, *, known: Format | None, default: Format) -> ParsedReply:
    """What was returned, as a reply of the session; InvalidMessage if it is none.

    `known` is the format that the conversation has shown, `default` the one assumed until then.
    """
    if isinstance(returned, Mapping) and not isinstance(returned, dict):
        returned = dict(returned)
    if isinstance(returned, dict):
        if (unwrapped := _anthropic_whole(returned)) is not None:
            _check([unwrapped.messages[0]], known, default)
            return unwrapped
        if (why := _whole_response(returned)) is not None:
            raise _refused(why, known)
        messages = [returned]
    elif isinstance(returned, list | tuple):
        messages = list(returned)
    else:
        raise _refused(_what(returned), known)
    if not messages:
        raise _refused("an empty list", known)
    for one in messages:
        if not isinstance(one, dict):
            raise _refused(f"a list with {_what(one)} in it", known)
    _check(messages, known, default)
    return ParsedReply(messages=messages, stop="incomplete" if any(map(_is_incomplete, messages)) else None)


def is_cut_off(stop: str | None) -> bool:
    """Whether the reply ended before the model was done. It is then no result, and its calls may lack arguments."""
    return stop in _CUT


def is_paused(messages: Sequence[ProviderDict], stop: str | None) -> bool:
    """Whether the provider wants the same conversation again, to continue with tools that it runs itself."""
    if stop in _PAUSED:
        return True
    content = messages[-1].get("content") if messages else None
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    begun = [block.get("id") for block in blocks if block.get("type") in _PROVIDER_RUN]
    ended = {block.get("tool_use_id") for block in blocks}
    return any(one not in ended for one in begun)


def unseen_call(message: ProviderDict, format: Format) -> str | None:
    """Name of a call in this message that the session's format does not recognise; None if there is none."""
    if any(isinstance(part, dict) and {"functionCall", "function_call"} & part.keys() for part in _parts(message)):
        return "a function call in Gemini's form"
    blocks = [block for block in _content(message) if isinstance(block, dict)]
    if any("toolUse" in block for block in blocks):
        return "a toolUse of Bedrock's Converse"
    if isinstance(message.get("function_call"), dict):
        return "a function_call, the form that came before tool_calls"
    choices = message.get("choices")
    if isinstance(choices, list) and any(_asks(one.get("message")) for one in choices if isinstance(one, dict)):
        return "tool_calls inside a whole chat completion"
    for other in _FORMATS:
        if other is not format and not format.native and other.calls(message) and not format.calls(message):
            return f"a call in the form of {_NAMES[other.name]}"
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


def _check(messages: list[ProviderDict], known: Format | None, default: Format) -> None:
    own = known or next((one for one in _FORMATS if any(map(one.recognises, messages))), default)
    if own.native:
        return
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


def _fault(message: ProviderDict, own: Format) -> str | None:
    """Why it is not a valid reply message of this format; None if it is one."""
    role = message.get("role")
    if own is OPENAI_RESPONSES and role is None:
        return None if isinstance(message.get("type"), str) else _shape(message)
    if role != "assistant":
        return None if own.answers(message) else _shape(message)
    content = message.get("content")
    if content is None:
        return "a message without content" if own is ANTHROPIC else _fault_of_calls(message)
    if not isinstance(content, str | list):
        return f"content that is {_what(content)}"
    for part in _content(message):
        if not isinstance(part, dict):
            return f"content with {_what(part)} in it"
        if not isinstance(part.get("type"), str):
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
    return f"a {kind}, which waits for an output of its own" if isinstance(item.get("call_id"), str) else None


def _anthropic_whole(message: ProviderDict) -> ParsedReply | None:
    """Anthropic's `Message` as the SDK dumps it; only role and content may be sent back."""
    if message.get("type") != "message" or message.get("role") != "assistant" or "stop_reason" not in message:
        return None
    stop, usage = message["stop_reason"], message.get("usage")
    return ParsedReply(
        messages=[{"role": "assistant", "content": message.get("content")}],
        usage=usage if isinstance(usage, dict) else None,
        stop=stop if isinstance(stop, str) else None,
    )


def _whole_response(returned: ProviderDict) -> str | None:
    if isinstance(returned.get("choices"), list):
        return "a whole chat completion (`choices`), not the message in it"
    if isinstance(returned.get("candidates"), list):
        return "a whole response of Gemini (`candidates`)"
    if isinstance(returned.get("output"), list):
        return "a whole response of OpenAI (`output`), not the items in it"
    if isinstance(returned.get("output"), dict) and "stopReason" in returned:
        return "a whole response of Bedrock's Converse (`output`, `stopReason`)"
    if isinstance(returned.get("message"), dict) and "finish_reason" in returned:
        return "a choice of a chat completion, not the message in it"
    return None


def _is_incomplete(message: ProviderDict) -> bool:
    return message.get("status") == "incomplete"


def _refused(what: str, own: Format | None) -> InvalidMessage:
    """`own`: the format of the session, if it has shown one."""
    known = ", ".join(_NAMES.values())
    right = _RETURN.get(own.name if own is not None else "", _ANY)
    form = f" of {_NAMES.get(own.name, own.name)}, as this session is in" if own is not None else f": {known}"
    says = f"the model function returned {what}, which is no reply in a form that relight knows{form}; return {right}"
    if own is not None:
        says = f"the model function returned {what}, which is no reply in the form{form}; return {right}"
    return InvalidMessage(what, says=says, hints=[f"known are {known}"])


def _shape(message: ProviderDict) -> str:
    role = message.get("role")
    return f"a dict with the role {role!a}" if role is not None else f"a dict that is no message: {_keys(message)}"


def _keys(message: Mapping[Any, Any]) -> str:
    keys = ", ".join(map(str, message)) or "it is empty"
    return keys if len(keys) <= _SHOWN else keys[:_SHOWN] + "…"


def _what(value: Any) -> str:
    if value is None:
        return "None"
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else f"a {kind.__name__}"


def _parts(message: ProviderDict) -> Iterable[Any]:
    parts = message.get("parts")
    return parts if isinstance(parts, list) else ()


def _content(message: ProviderDict) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _asks(message: Any) -> bool:
    return isinstance(message, dict) and bool(message.get("tool_calls") or message.get("function_call"))


def _is_strange_use(kind: Any) -> bool:
    return isinstance(kind, str) and kind.endswith("tool_use") and kind not in _OURS
