"""Conversations of opencode in the neutral view and back, for a hand-over from or to another agent.

A reply and its results are one message with a part for each; a call and its result are two lines of one part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from relight.agents.opencode.format import OPENCODE
from relight.journal.conversion.convert import in_neutral_terms
from relight.journal.conversion.plain import answers_of
from relight.journal.conversion.tools import Tool, native_call
from relight.ports.agent import Line
from relight.values.view import Block, Call, Image, Message, Result, Text

TOOLS: Final = (
    Tool(op="shell", name="bash", fields={"cmd": "command", "why": "description", "dir": "workdir"}),
    Tool(op="write", name="write", fields={"path": "filePath", "content": "content"}),
    Tool(
        op="edit",
        name="edit",
        fields={"path": "filePath", "old": "oldString", "new": "newString", "all": "replaceAll"},
    ),
    Tool(op="read", name="read", fields={"path": "filePath", "offset": "offset", "limit": "limit"}),
)
_NO_TOKENS: Final = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
OURS: Final = {"providerID": "relight", "modelID": "relight"}
"""in place of a model, which is only known where the session is written"""


class OpencodeDialect:
    """Reader and writer of lines of opencode, as `journal.conversion.convert.Dialect`."""

    tools = TOOLS
    format = OPENCODE.name
    max_result = None

    def command(self, *, screen: bool) -> tuple[str, ...]:
        """The command of a session that another agent began."""
        return ("opencode", "run", "--format", "json")

    def spoken(self, lines: Sequence[Line]) -> list[Message]:
        """One message for each prompt, although its parts are lines of their own."""
        found: list[Message] = []
        asked: Any = None
        at = 0
        for message in OPENCODE.read(lines):
            name = _message_of(lines[message.index]).get("id") if message.role == "user" else None
            if name is not None and name == asked:
                found[at] = msgspec.structs.replace(found[at], blocks=found[at].blocks + message.blocks)
                continue
            if message.role != "system":
                asked, at = name, len(found)
            found.append(message)
        return in_neutral_terms(found, TOOLS)

    def written(self, messages: Sequence[Message], *, at_us: int) -> list[Line]:
        return list(_Writer(at_us // 1000).lines(messages))

    def line_faults(self, line: Line) -> list[str]:
        return OPENCODE.faults(line)

    def is_compaction(self, line: Line) -> bool:
        data = _message_of(line).get("data")
        return isinstance(data, dict) and data.get("mode") == "compaction"


OPENCODE_DIALECT: Final = OpencodeDialect()


class _Writer:
    """Lines with ids and times that only grow, which is the order in which opencode reads them."""

    def __init__(self, at_ms: int) -> None:
        self._ms = at_ms

    def lines(self, messages: Sequence[Message]) -> Iterator[Line]:
        asked = ""
        for index, message in enumerate(messages):
            if message.role == "user":
                row = self._message({"role": "user", "agent": "build", "model": OURS})
                asked = row["id"]
                yield from (self._part(row, _content(block)) for block in message.blocks)
            elif message.role == "assistant":
                follows = messages[index + 1] if index + 1 < len(messages) else None
                results = follows if follows is not None and follows.role == "tool" else None
                yield from self._reply(asked, message, results)

    def _reply(self, asked: str, message: Message, results: Message | None) -> Iterator[Line]:
        data = {"role": "assistant", "parentID": asked, "mode": "build", "agent": "build", **OURS}
        row = self._message({**data, "path": {"cwd": "/", "root": "/"}})
        yield self._part(row, {"type": "step-start"})
        calls: dict[str, Line] = {}
        for block in message.blocks:
            if isinstance(block, Call):
                calls[block.id] = self._call(row, native_call(block, TOOLS))
                yield calls[block.id]
            else:
                yield self._part(row, _content(block))
        for result, images in answers_of(results) if results is not None else ():
            if result.call in calls:
                yield self._result(calls[result.call], result, images)
        reason = "tool-calls" if calls else "stop"
        yield self._part(row, {"type": "step-finish", "reason": reason, "tokens": _NO_TOKENS, "cost": 0})

    def _call(self, row: dict[str, Any], call: Call) -> Line:
        state = {"status": "running", "input": call.arguments, "time": {"start": self._ms + 1}}
        line = self._part(row, {"type": "tool", "tool": call.name, "callID": call.id, "state": state})
        return {**line, "opencode": "call"}

    def _result(self, line: Line, result: Result, images: Sequence[Image]) -> Line:
        self._ms += 1
        data = line["part"]["data"]
        state = {**data["state"], "time": {**data["state"]["time"], "end": self._ms}}
        if result.status == "ok":
            files = [{"id": f"prt_{self._id()}", **_content(image)} for image in images]
            state |= {"status": "completed", "output": result.text, "title": "", "metadata": {}, "attachments": files}
        else:
            state |= {"status": "error", "error": result.text}
        return {**line, "opencode": "result", "part": {**line["part"], "data": {**data, "state": state}}}

    def _message(self, data: dict[str, Any]) -> dict[str, Any]:
        self._ms += 1
        return {"id": f"msg_{self._id()}", "data": {**data, "time": {"created": self._ms}}}

    def _part(self, row: dict[str, Any], data: dict[str, Any]) -> Line:
        self._ms += 1
        timed = {**data, "time": {"start": self._ms, "end": self._ms}} if data["type"] == "text" else data
        part = {"id": f"prt_{self._id()}", "created": self._ms, "data": timed}
        return {"opencode": "part", "message": row, "part": part}

    def _id(self) -> str:
        stamp = (self._ms * 0x1000) & 0xFFFFFFFFFFFF
        return f"{stamp:012x}{sha256(f'handed over {self._ms}'.encode()).hexdigest()[:14]}"


def _message_of(line: Line) -> dict[str, Any]:
    message = line.get("message")
    return message if isinstance(message, dict) else {}


def _content(block: Block) -> dict[str, Any]:
    if isinstance(block, Image):
        url = block.url or f"data:{block.media};base64,{block.data}"
        return {"type": "file", "mime": block.media or "image/png", "filename": "image", "url": url}
    assert isinstance(block, Text)
    return {"type": "text", "text": block.text}
