"""Lines of a Claude Code transcript: an Anthropic message, wrapped with its position in a tree.

One line per content block, so a reply is a run of lines, and each result has its own line. Lines without a message
(attachments, boundaries, new kinds) are part of the conversation but have no content here. Text that the harness wrote
as the user is attributed to the system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from relight.journal.formats.anthropic import ANTHROPIC
from relight.journal.formats.content import is_kind, json_text, text_of
from relight.journal.formats.format import CallSite, ProviderDict, ToolResult
from relight.values.view import Message, Text

_SPOKEN: Final = frozenset({"user", "assistant"})
_NOTHING: Final[ProviderDict] = {}

_SYNTHETIC: Final = "<synthetic>"
"""the model name of a reply that Claude Code wrote itself"""


class ClaudeCode:
    """The format of `~/.claude/projects/*/*.jsonl`."""

    name = "claude_code"
    native = True
    spans = True
    shares = False
    opens_with_user = False

    def recognises(self, message: ProviderDict) -> bool:
        return isinstance(message.get("uuid"), str) and "parentUuid" in message and isinstance(message.get("type"), str)

    def is_assistant(self, message: ProviderDict) -> bool:
        return message.get("type") == "assistant" and _inner(message).get("model") != _SYNTHETIC

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        return ANTHROPIC.calls(_inner(message))

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        return ANTHROPIC.answers(_inner(message))

    def split(self, message: ProviderDict) -> tuple[list[tuple[str, ProviderDict]], ProviderDict | None]:
        found, rest = ANTHROPIC.split(_inner(message))
        if not found:
            return [], message
        return found, {**message, "message": rest} if rest is not None else None

    def join(self, fragments: Sequence[ProviderDict], carrier: ProviderDict | None) -> list[ProviderDict]:
        if carrier is None:
            return [{"type": "user", "message": inner} for inner in ANTHROPIC.join(fragments, None)]
        [inner] = ANTHROPIC.join(fragments, carrier["message"])
        return [carrier if inner is carrier["message"] else {**carrier, "message": inner}]

    def fragment(self, result: ToolResult) -> ProviderDict:
        return ANTHROPIC.fragment(result)

    def render(self, results: Sequence[ToolResult]) -> list[ProviderDict]:
        return [line for result in results for line in self.join([self.fragment(result)], None)]

    def faults(self, message: ProviderDict) -> list[str]:
        return ANTHROPIC.faults(_inner(message))

    def read(self, messages: Sequence[ProviderDict]) -> list[Message]:
        return [part for index, line in enumerate(messages) for part in _read(line, index)]

    def user(self, text: str) -> ProviderDict:
        return {"type": "user", "message": ANTHROPIC.user(text)}

    def assistant(self, text: str) -> ProviderDict:
        return {"type": "assistant", "message": ANTHROPIC.assistant(text)}


CLAUDE_CODE: Final = ClaudeCode()


def _inner(line: ProviderDict) -> ProviderDict:
    message = line.get("message")
    return message if isinstance(message, dict) and is_kind(line.get("type"), _SPOKEN) else _NOTHING


def _read(line: ProviderDict, index: int) -> list[Message]:
    inner = _inner(line)
    if not inner:
        text = queued_text(line)
        said = (Text(text=text),) if text is not None else ()
        return [Message(role="user" if said else "system", blocks=said, index=index)]
    from_harness = line.get("isMeta") is True or inner.get("model") == _SYNTHETIC
    return [
        Message(role="system" if from_harness and part.role != "tool" else part.role, blocks=part.blocks, index=index)
        for part in ANTHROPIC.read([inner])
    ]


def queued_text(line: ProviderDict) -> str | None:
    """What was delivered while the agent worked: text that the user typed, or that a sub-agent in the background
    ended. Other attachments are the harness's."""
    attachment = line.get("attachment")
    if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
        return None
    prompt = attachment.get("prompt")
    return text_of(prompt) or json_text(prompt)
