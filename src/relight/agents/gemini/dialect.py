"""Conversations of Gemini CLI in the neutral view and back, for a hand-over from or to another agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from relight.agents.gemini.format import GEMINI_CLI, REPLY, SAID, parts_of
from relight.agents.gemini.records import RESULTS
from relight.agents.native.names import derived_id, stamp
from relight.journal.conversion.convert import in_neutral_terms
from relight.journal.conversion.plain import answers_of
from relight.journal.conversion.tools import Tool, native_call
from relight.ports.agent import Line
from relight.values.view import Block, Call, Image, Message, Text

TOOLS: Final = (
    Tool(op="shell", name="run_shell_command", fields={"cmd": "command", "why": "description", "dir": "dir_path"}),
    Tool(op="write", name="write_file", fields={"path": "file_path", "content": "content"}),
    Tool(op="read", name="read_file", fields={"path": "file_path"}),
    Tool(
        op="edit",
        name="replace",
        fields={"path": "file_path", "old": "old_string", "new": "new_string", "why": "instruction"},
    ),
)
_SUMMARY: Final = "<state_snapshot>"


class GeminiDialect:
    """Reader and writer of lines of Gemini CLI, as `journal.conversion.convert.Dialect`."""

    tools = TOOLS
    format = GEMINI_CLI.name
    max_result = None

    def command(self, *, screen: bool) -> tuple[str, ...]:
        """The command of a session that another agent began."""
        return ("gemini",) if screen else ("gemini", "--output-format", "stream-json")

    def spoken(self, lines: Sequence[Line]) -> list[Message]:
        return in_neutral_terms(GEMINI_CLI.read(lines), TOOLS)

    def written(self, messages: Sequence[Message], *, at_us: int) -> list[Line]:
        found: list[Line] = []
        names: dict[str, str] = {}
        reply = ""
        for number, message in enumerate(messages):
            name = derived_id("handed over", str(at_us), str(number))
            place = {"id": name, "timestamp": stamp(at_us + number * 1000)}
            if message.role == "tool":
                contents = _results(message, names)
                found += [{**place, "id": reply + RESULTS, "type": SAID, "content": one} for one in contents]
                continue
            reply = name if message.role == "assistant" else reply
            blocks = [native_call(one, TOOLS) if isinstance(one, Call) else one for one in message.blocks]
            names.update((one.id, one.name) for one in blocks if isinstance(one, Call))
            words = [_part(one) for one in blocks if not isinstance(one, Call)]
            kind = REPLY if message.role == "assistant" else SAID
            found += [{**place, "type": kind, "content": words}] if words else []
            found += [{**place, "type": kind, "content": [_part(one)]} for one in blocks if isinstance(one, Call)]
        return found

    def line_faults(self, line: Line) -> list[str]:
        return GEMINI_CLI.faults(line)

    def is_compaction(self, line: Line) -> bool:
        return any(_SUMMARY in str(part.get("text", "")) for part in parts_of(line.get("content")))


GEMINI_DIALECT: Final = GeminiDialect()


def _results(message: Message, names: dict[str, str]) -> Iterator[list[dict[str, Any]]]:
    for result, images in answers_of(message):
        output = {"output" if result.status == "ok" else "error": result.text}
        response = {"id": result.call, "name": names.get(result.call, ""), "response": output}
        yield [{"functionResponse": response}, *map(_part, images)]


def _part(block: Block) -> dict[str, Any]:
    if isinstance(block, Call):
        return {"functionCall": {"id": block.id, "name": block.name, "args": block.arguments}}
    if isinstance(block, Image):
        if block.url:
            return {"fileData": {"fileUri": block.url, "mimeType": block.media or "image/png"}}
        return {"inlineData": {"mimeType": block.media, "data": block.data}}
    assert isinstance(block, Text)
    return {"text": block.text}
