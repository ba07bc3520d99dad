"""Conversations of Claude Code in the neutral view and back, for a hand-over from or to another agent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from relight.agents.claude_code.format import CLAUDE_CODE
from relight.agents.claude_code.tree import is_boundary, is_summary, reply_of
from relight.agents.native.names import derived_id, stamp
from relight.journal.conversion import plain
from relight.journal.conversion.convert import in_neutral_terms
from relight.journal.conversion.tools import Tool, native_call
from relight.ports.agent import Line
from relight.values.view import Call, Message, Text

TOOLS: Final = (
    Tool(op="shell", name="Bash", fields={"cmd": "command", "why": "description"}),
    Tool(op="write", name="Write", fields={"path": "file_path", "content": "content"}),
    Tool(
        op="edit",
        name="Edit",
        fields={"path": "file_path", "old": "old_string", "new": "new_string", "all": "replace_all"},
    ),
    Tool(op="read", name="Read", fields={"path": "file_path", "offset": "offset", "limit": "limit"}),
)
_HARNESS: Final = re.compile(
    r"\s*<(command-name|command-message|local-command-|bash-input|bash-stdout|system-reminder)"
)


class ClaudeDialect:
    """Reader and writer of transcript lines, as `journal.conversion.convert.Dialect`."""

    tools = TOOLS
    format = CLAUDE_CODE.name
    max_result = None

    def command(self, *, screen: bool) -> tuple[str, ...]:
        """The command of a session that another agent began."""
        return ("claude",) if screen else ("claude", "-p", "--output-format", "stream-json", "--verbose")

    def spoken(self, lines: Sequence[Line]) -> list[Message]:
        """One message for each reply, although its blocks and their results are lines in any order."""
        found: list[Message] = []
        replies: dict[str, int] = {}
        for line in lines:
            reply = reply_of(line)
            for message in CLAUDE_CODE.read([line]):
                if reply and reply in replies and message.role == "assistant":
                    at = replies[reply]
                    found[at] = msgspec.structs.replace(found[at], blocks=found[at].blocks + message.blocks)
                    continue
                if reply:
                    replies[reply] = len(found)
                found.append(_attributed(message, is_summary(line)))
        return in_neutral_terms(found, TOOLS)

    def written(self, messages: Sequence[Message], *, at_us: int) -> list[Line]:
        """One line for each message."""
        named = [_in_its_terms(message) for message in messages]
        found: list[Line] = []
        parent: str | None = None
        for index, said in enumerate(plain.anthropic(named)):
            name = derived_id("handed over", str(at_us), str(index))
            asks = any(isinstance(block, Call) for block in named[index].blocks)
            reply = {
                "id": f"msg_{name.replace('-', '')}",
                "type": "message",
                "stop_reason": "tool_use" if asks else "end_turn",
            }
            found.append(
                {
                    "parentUuid": parent,
                    "isSidechain": False,
                    "type": said["role"],
                    "message": {**said, **reply} if said["role"] == "assistant" else said,
                    "uuid": name,
                    "timestamp": stamp(at_us + index * 1000),
                    "userType": "external",
                }
            )
            parent = name
        return found

    def line_faults(self, line: Line) -> list[str]:
        return CLAUDE_CODE.faults(line)

    def is_compaction(self, line: Line) -> bool:
        return is_boundary(line)


CLAUDE_DIALECT: Final = ClaudeDialect()


def _attributed(message: Message, summary: bool) -> Message:
    """What the user typed for the harness alone is the system's; the summary of what was compacted is the user's."""
    if summary:
        return msgspec.structs.replace(message, role="user")
    first = message.blocks[0] if message.blocks else None
    is_harness = message.role == "user" and isinstance(first, Text) and _HARNESS.match(first.text) is not None
    return msgspec.structs.replace(message, role="system") if is_harness else message


def _in_its_terms(message: Message) -> Message:
    blocks = tuple(native_call(one, TOOLS) if isinstance(one, Call) else one for one in message.blocks)
    return msgspec.structs.replace(message, blocks=blocks)
