"""Lines that we make from opencode's rows: {"opencode": part | call | result | error, "message", "part"}.

A row of a tool changes while the tool runs, and a line never does: so a call and its result are two lines of one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from relight.agents.native.line_format import LineFormat
from relight.journal.formats.content import arguments_of, image_at, placeholder, result_block, text_of
from relight.journal.formats.format import CallSite, ProviderDict, ToolResult, argument_faults
from relight.values.view import Block, Message, Reason, Role, Text

KINDS: Final = frozenset({"part", "call", "result", "error"})
_SILENT: Final = frozenset({"step-start", "step-finish", "snapshot", "patch", "retry"})


class Opencode(LineFormat):
    """The format of sessions in `~/.local/share/opencode/opencode.db`."""

    name = "opencode"
    spans = True

    def recognises(self, message: ProviderDict) -> bool:
        kind = message.get("opencode")
        return isinstance(kind, str) and kind in KINDS

    def is_assistant(self, message: ProviderDict) -> bool:
        is_words = message.get("opencode") == "part" and text_of(part_of(message).get("type")) not in _SILENT
        return (is_words or message.get("opencode") == "call") and role_of(message) == "assistant"

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        if message.get("opencode") != "call":
            return ()
        data = part_of(message)
        return (
            CallSite(
                id=text_of(data.get("callID")),
                name=text_of(data.get("tool")),
                arguments=arguments_of(state_of(data).get("input")),
            ),
        )

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        return (text_of(part_of(message).get("callID")),) if message.get("opencode") == "result" else ()

    def fragment(self, result: ToolResult) -> ProviderDict:
        text = result.content if isinstance(result.content, str) else str(result.content)
        state = {"status": "completed", "output": text} if result.status == "ok" else {"status": "error", "error": text}
        data = {"type": "tool", "tool": result.name, "callID": result.call_id, "state": state}
        return {"opencode": "result", "message": {"data": {"role": "assistant"}}, "part": {"data": data}}

    def faults(self, message: ProviderDict) -> list[str]:
        return argument_faults(self.calls(message))

    def read(self, messages: Sequence[ProviderDict]) -> list[Message]:
        return [_read(line, index) for index, line in enumerate(messages)]

    def user(self, text: str) -> ProviderDict:
        return _text("user", text)

    def assistant(self, text: str) -> ProviderDict:
        return _text("assistant", text)


OPENCODE: Final = Opencode()


def _text(role: str, text: str) -> ProviderDict:
    part = {"data": {"type": "text", "text": text}}
    return {"opencode": "part", "message": {"data": {"role": role}}, "part": part}


def _inner(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def role_of(line: ProviderDict) -> str:
    """The role of the message that a line belongs to."""
    return text_of(_inner(_inner(line, "message"), "data").get("role"))


def part_of(line: ProviderDict) -> dict[str, Any]:
    """The content of a line's part."""
    return _inner(_inner(line, "part"), "data")


def state_of(data: dict[str, Any]) -> dict[str, Any]:
    """How far the tool of a part is."""
    return _inner(data, "state")


def _read(line: ProviderDict, index: int) -> Message:
    kind, data = line.get("opencode"), part_of(line)
    if kind == "error":
        told = text_of(_inner(_inner(line, "error"), "data").get("message"))
        return Message(role="system", blocks=(Text(text=told),) if told else (), index=index)
    if kind == "call":
        return Message(role="assistant", blocks=tuple(site.view() for site in OPENCODE.calls(line)), index=index)
    if kind == "result":
        state = state_of(data)
        failed = state.get("status") == "error"
        text = text_of(state.get("error" if failed else "output"))
        block = result_block(call=OPENCODE.answers(line)[0], text=text, failed=failed)
        images = (image_at(one.get("url")) for one in state.get("attachments") or () if isinstance(one, dict))
        return Message(role="tool", blocks=(block, *images), index=index)
    given: Role = "user" if role_of(line) == "user" else "assistant" if role_of(line) == "assistant" else "system"
    if data.get("synthetic") is True or data.get("ignored") is True:
        given = "system"
    block_ = _block(data, given)
    return Message(role=given if block_ else "system", blocks=(block_,) if block_ else (), index=index)


def _block(data: dict[str, Any], role: Role) -> Block | None:
    kind = text_of(data.get("type"))
    if kind == "text":
        text = text_of(data.get("text"))
        return Text(text=_unquoted(text) if role == "user" else text) if text else None
    if kind == "reasoning":
        return Reason(text=text_of(data.get("text")))
    if kind == "file" and text_of(data.get("mime")).startswith("image/"):
        return image_at(data.get("url"))
    return None if kind in _SILENT or not kind else placeholder(data)


def _unquoted(text: str) -> str:
    """A prompt as it was given: `opencode run` puts an argument that has a space into quotes."""
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return text[1:-1].replace('\\"', '"') if quoted else text
