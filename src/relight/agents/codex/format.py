"""Lines of a Codex rollout: a Responses item inside each `response_item`, and lines about the thread.

A `compacted` line replaces the items it carries. Lines about the thread (its description, turn settings, tokens, the
end of a turn) have no content here. Text that the harness wrote as the user is attributed to the system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from relight.agents.native.line_format import LineFormat
from relight.journal.formats.content import text_of
from relight.journal.formats.format import CallSite, ProviderDict, ToolResult
from relight.journal.formats.openai_responses import OPENAI_RESPONSES
from relight.values.view import Message, Text

_NOTHING: Final[ProviderDict] = {}
_HARNESS: Final = (
    "<environment_context>",
    "<user_instructions>",
    "<turn_aborted>",
    "<skills_instructions>",
    "# AGENTS.md instructions",
)


class Codex(LineFormat):
    """The format of `~/.codex/sessions/**/rollout-*.jsonl`."""

    name = "codex"
    spans = True

    def recognises(self, message: ProviderDict) -> bool:
        kind, payload = message.get("type"), message.get("payload")
        return isinstance(kind, str) and isinstance(payload, dict) and isinstance(message.get("timestamp"), str)

    def is_assistant(self, message: ProviderDict) -> bool:
        inner = _inner(message)
        return bool(inner) and OPENAI_RESPONSES.is_assistant(inner)

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        return OPENAI_RESPONSES.calls(_inner(message))

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        return OPENAI_RESPONSES.answers(_inner(message))

    def fragment(self, result: ToolResult) -> ProviderDict:
        return _outer(OPENAI_RESPONSES.fragment(result))

    def faults(self, message: ProviderDict) -> list[str]:
        return OPENAI_RESPONSES.faults(_inner(message))

    def read(self, messages: Sequence[ProviderDict]) -> list[Message]:
        return [part for index, line in enumerate(messages) for part in _read(line, index)]

    def user(self, text: str) -> ProviderDict:
        return _outer(OPENAI_RESPONSES.user(text))

    def assistant(self, text: str) -> ProviderDict:
        return _outer(OPENAI_RESPONSES.assistant(text))


CODEX: Final = Codex()


def _outer(item: ProviderDict) -> ProviderDict:
    return {"type": "response_item", "payload": item}


def _inner(line: ProviderDict) -> ProviderDict:
    payload = line.get("payload")
    return payload if isinstance(payload, dict) and line.get("type") == "response_item" else _NOTHING


def _read(line: ProviderDict, index: int) -> list[Message]:
    items: list[Any] = [_inner(line)]
    payload = line.get("payload")
    if line.get("type") == "compacted" and isinstance(payload, dict):
        history = payload.get("replacement_history")
        items = history if isinstance(history, list) else []
        if not items and (summary := text_of(payload.get("message"))):
            return [Message(role="system", blocks=(Text(text=summary),), index=index)]
    found = [item for item in items if isinstance(item, dict) and item]
    parts = [_placed(part, index) for part in OPENAI_RESPONSES.read(found)]
    return parts or [Message(role="system", blocks=(), index=index)]


def _placed(part: Message, index: int) -> Message:
    first = part.blocks[0] if part.blocks else None
    harness = part.role == "user" and isinstance(first, Text) and first.text.lstrip().startswith(_HARNESS)
    return Message(role="system" if harness else part.role, blocks=part.blocks, index=index)
