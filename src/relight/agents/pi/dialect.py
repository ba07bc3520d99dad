"""Conversations of pi in the neutral view and back, for a hand-over from or to another agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from relight.agents.native.names import derived_id, stamp
from relight.agents.pi.format import PI, outer
from relight.agents.pi.session_lines import NO_USAGE
from relight.journal.conversion.convert import in_neutral_terms
from relight.journal.conversion.plain import answers_of
from relight.journal.conversion.tools import Tool, native_call
from relight.ports.agent import Line
from relight.values.view import Block, Call, Image, Message, Text

TOOLS: Final = (
    Tool(op="shell", name="bash", fields={"cmd": "command"}),
    Tool(op="write", name="write", fields={"path": "path", "content": "content"}),
    Tool(op="read", name="read", fields={"path": "path", "offset": "offset", "limit": "limit"}),
    Tool(op="edit", name="edit", fields={"path": "path", "old": "oldText", "new": "newText"}),
)
_OURS: Final = {"api": "relight", "provider": "relight", "model": "relight"}
_ID_CHARS: Final = 8


class PiDialect:
    """Reader and writer of session lines, as `journal.conversion.convert.Dialect`."""

    tools = TOOLS
    format = PI.name
    max_result = None

    def command(self, *, screen: bool) -> tuple[str, ...]:
        """The command of a session that another agent began."""
        return ("pi",) if screen else ("pi", "-p", "--mode", "json")

    def spoken(self, lines: Sequence[Line]) -> list[Message]:
        found = [
            msgspec.structs.replace(message, role="user") if self.is_compaction(lines[message.index]) else message
            for message in PI.read(lines)
        ]
        return in_neutral_terms(found, TOOLS)

    def written(self, messages: Sequence[Message], *, at_us: int) -> list[Line]:
        found: list[Line] = []
        names: dict[str, str] = {}
        parent: str | None = None
        for message in messages:
            for inner in _inner(message, names):
                name = derived_id("handed over", str(at_us), str(len(found)))[:_ID_CHARS]
                at = at_us + len(found) * 1000
                inner["timestamp"] = at // 1000
                found.append({**outer(inner), "id": name, "parentId": parent, "timestamp": stamp(at)})
                parent = name
        return found

    def line_faults(self, line: Line) -> list[str]:
        return PI.faults(line)

    def is_compaction(self, line: Line) -> bool:
        return line.get("type") in ("compaction", "branch_summary")


PI_DIALECT: Final = PiDialect()


def _inner(message: Message, names: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The messages of one neutral message. `names`: tools by call, which a result names again."""
    if message.role == "tool":
        for result, images in answers_of(message):
            said: list[Block] = [Text(text=result.text)] if result.text else []
            yield {
                "role": "toolResult",
                "toolCallId": result.call,
                "toolName": names.get(result.call, ""),
                "content": [_block(one) for one in (*said, *images)],
                "isError": result.status != "ok",
            }
        return
    blocks = [native_call(one, TOOLS) if isinstance(one, Call) else one for one in message.blocks]
    names.update((one.id, one.name) for one in blocks if isinstance(one, Call))
    content = [_block(one) for one in blocks]
    if message.role == "user":
        yield {"role": "user", "content": content}
        return
    reason = "toolUse" if any(isinstance(one, Call) for one in blocks) else "stop"
    yield {"role": "assistant", "content": content, **_OURS, "usage": NO_USAGE, "stopReason": reason}


def _block(block: Block) -> dict[str, Any]:
    if isinstance(block, Call):
        return {"type": "toolCall", "id": block.id, "name": block.name, "arguments": block.arguments}
    if isinstance(block, Image):
        return {"type": "image", "data": block.data, "mimeType": block.media}
    assert isinstance(block, Text)
    return {"type": "text", "text": block.text}
