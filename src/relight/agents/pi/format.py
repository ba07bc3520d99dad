"""Lines of a pi session: a message inside each line of type `message`, and lines about the session.

A result has a line of its own. A reply that failed or was aborted is pi's record of an error, not the model's words: pi
does not send it again. Lines about the session (model, thinking level) have no content here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from relight.agents.native.line_format import LineFormat
from relight.journal.formats.content import arguments_of, blocks_of, placeholder, result_blocks, text_of
from relight.journal.formats.format import CallSite, ProviderDict, ToolResult, argument_faults
from relight.values.view import Block, Image, Message, Reason, Role, Text

_NOTHING: Final[ProviderDict] = {}
_FAILED: Final = frozenset({"error", "aborted"})
_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant", "toolResult": "tool"}
_SUMMARIES: Final = frozenset({"compaction", "branch_summary"})


class Pi(LineFormat):
    """The format of `~/.pi/agent/sessions/*/*.jsonl`."""

    name = "pi"
    spans = False

    def recognises(self, message: ProviderDict) -> bool:
        return (
            isinstance(message.get("id"), str)
            and "parentId" in message
            and isinstance(message.get("type"), str)
            and isinstance(message.get("timestamp"), str)
        )

    def is_assistant(self, message: ProviderDict) -> bool:
        inner = inner_of(message)
        return inner.get("role") == "assistant" and not has_failed(inner)

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        inner = inner_of(message)
        content = inner.get("content")
        if inner.get("role") != "assistant" or has_failed(inner) or not isinstance(content, list):
            return ()
        return tuple(_site(one) for one in content if isinstance(one, dict) and one.get("type") == "toolCall")

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        inner = inner_of(message)
        if inner.get("role") != "toolResult":
            return ()
        named = inner.get("toolCallId")
        return (named if isinstance(named, str) else "",)

    def fragment(self, result: ToolResult) -> ProviderDict:
        text = result.content if isinstance(result.content, str) else str(result.content)
        return outer(
            {
                "role": "toolResult",
                "toolCallId": result.call_id,
                "toolName": result.name,
                "content": [{"type": "text", "text": text}],
                "isError": result.status != "ok",
            }
        )

    def faults(self, message: ProviderDict) -> list[str]:
        return argument_faults(self.calls(message))

    def read(self, messages: Sequence[ProviderDict]) -> list[Message]:
        return [_read(line, index) for index, line in enumerate(messages)]

    def user(self, text: str) -> ProviderDict:
        return outer({"role": "user", "content": [{"type": "text", "text": text}]})

    def assistant(self, text: str) -> ProviderDict:
        return outer({"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop"})


PI: Final = Pi()


def outer(message: ProviderDict) -> ProviderDict:
    """A line with this message, without its position."""
    return {"type": "message", "message": message}


def inner_of(line: ProviderDict) -> ProviderDict:
    """The message of a line; empty if it has none."""
    message = line.get("message")
    return message if line.get("type") == "message" and isinstance(message, dict) else _NOTHING


def has_failed(inner: ProviderDict) -> bool:
    """Whether it records that a reply failed or was aborted."""
    reason = inner.get("stopReason")
    return isinstance(reason, str) and reason in _FAILED


def _site(block: dict[str, Any]) -> CallSite:
    named = block.get("id")
    return CallSite(
        id=named if isinstance(named, str) else "",
        name=text_of(block.get("name")),
        arguments=arguments_of(block.get("arguments")),
    )


def _read(line: ProviderDict, index: int) -> Message:
    inner = inner_of(line)
    if not inner:
        kind = line.get("type")
        said = line.get("summary") if isinstance(kind, str) and kind in _SUMMARIES else line.get("content")
        blocks = _content(said) if kind == "custom_message" or isinstance(said, str) else ()
        return Message(role="system", blocks=blocks, index=index)
    role = inner.get("role")
    given = _ROLES.get(role, "system") if isinstance(role, str) else "system"
    if given == "tool":
        failed = inner.get("isError") is True
        blocks = result_blocks(call=PI.answers(line)[0], content=_content(inner.get("content")), failed=failed)
        return Message(role="tool", blocks=blocks, index=index)
    if has_failed(inner):
        return Message(role="system", blocks=_content(text_of(inner.get("errorMessage"))), index=index)
    if role == "bashExecution":
        said = f"$ {text_of(inner.get('command'))}\n{text_of(inner.get('output'))}"
        return Message(role="system", blocks=(Text(text=said),), index=index)
    return Message(role=given, blocks=_content(inner.get("content")), index=index)


def _content(content: Any) -> tuple[Block, ...]:
    return blocks_of(content, _block)


def _block(block: dict[str, Any]) -> Block:
    match block.get("type"):
        case "text":
            return Text(text=text_of(block.get("text")))
        case "image":
            return Image(media=text_of(block.get("mimeType")), data=text_of(block.get("data")))
        case "thinking":
            return Reason(text=text_of(block.get("thinking")), opaque=text_of(block.get("thinkingSignature")))
        case "toolCall":
            return _site(block).view()
        case _:
            return placeholder(block)
