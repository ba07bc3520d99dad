"""Conversations of Codex in the neutral view and back, for a hand-over from or to another agent.

Files are written and edited by `apply_patch`. A patch is used where it says exactly what the neutral call says;
otherwise the call is written under its neutral name.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from relight.agents.codex.format import CODEX
from relight.agents.codex.rollout import COMPACTED, ITEM, payload_of
from relight.agents.native.names import derived_id, stamp
from relight.journal.conversion import plain
from relight.journal.conversion.convert import in_neutral_terms
from relight.journal.conversion.tools import Tool, native_call
from relight.ports.agent import Line
from relight.values.view import Block, Call, Message, Result, Text

TOOLS: Final = (
    Tool(op="shell", name="exec_command", fields={"cmd": "cmd", "dir": "workdir", "why": "justification"}),
    Tool(op="shell", name="shell_command", fields={"cmd": "command", "dir": "workdir", "why": "justification"}),
    Tool(op="shell", name="shell", fields={"cmd": "command", "dir": "workdir", "why": "justification"}),
)
_IMAGE_TOOL: Final = "view_image"
_PATCH: Final = "apply_patch"
_WRAPPER: Final = re.compile(r"</?image\b[^<>]*>\s*", re.ASCII)
_MAX_RESULT: Final = 11_000
"""Codex itself cuts an imported result to about 12,000 characters"""


class CodexDialect:
    """Reader and writer of rollout lines, as `journal.conversion.convert.Dialect`."""

    tools = TOOLS
    format = CODEX.name
    max_result = _MAX_RESULT

    def command(self, *, screen: bool) -> tuple[str, ...]:
        """The command of a session that another agent began."""
        return ("codex",) if screen else ("codex", "exec", "--json", "--skip-git-repo-check")

    def spoken(self, lines: Sequence[Line]) -> list[Message]:
        directory = next((cwd for line in lines if isinstance(cwd := payload_of(line).get("cwd"), str)), "")
        found = []
        for message in CODEX.read(lines):
            blocks = tuple(_read(block, directory) for block in message.blocks)
            role = "user" if _is_summary(lines[message.index]) else message.role
            found.append(msgspec.structs.replace(message, role=role, blocks=blocks))
        return in_neutral_terms(found, TOOLS)

    def written(self, messages: Sequence[Message], *, at_us: int) -> list[Line]:
        patches = set[str]()
        turns = enumerate(messages)
        items = [item for index, message in turns for item in _items(message, patches, f"{at_us}:{index}")]
        return [{"timestamp": stamp(at_us + index * 1000), **item} for index, item in enumerate(items)]

    def line_faults(self, line: Line) -> list[str]:
        return CODEX.faults(line)

    def is_compaction(self, line: Line) -> bool:
        return line.get("type") == COMPACTED


CODEX_DIALECT: Final = CodexDialect()


# ---------------------------------------------------------------- reading


def _is_summary(line: Line) -> bool:
    """Whether it is a compaction that left a summary and no items."""
    return line.get("type") == COMPACTED and not payload_of(line).get("replacement_history")


def _read(block: Block, directory: str) -> Block:
    if isinstance(block, Text):
        # Images of a prompt are wrapped by tags of Codex's own.
        return Text(text="") if _WRAPPER.fullmatch(block.text) else block
    if not isinstance(block, Call):
        return block
    arguments: Any = block.arguments
    words = arguments.get("command") if isinstance(arguments, dict) else None
    if isinstance(words, list) and all(isinstance(word, str) for word in words):
        script = words[2] if len(words) == 3 and words[1] in ("-lc", "-c") else shlex.join(words)
        return msgspec.structs.replace(block, arguments={**arguments, "command": script})
    if block.name == _IMAGE_TOOL and isinstance(arguments, dict) and list(arguments) == ["path"]:
        return Call(id=block.id, name="read", arguments=arguments, op="read")
    if block.name == _PATCH:
        text = arguments.get("input") if isinstance(arguments, dict) else arguments
        return _patched(block, text, directory) if isinstance(text, str) else block
    return block


def _patched(call: Call, text: str, directory: str) -> Call:
    """A patch of one file in neutral terms, if it has an exact equivalent."""
    lines = text.strip("\n").split("\n")
    if len(lines) < 3 or (lines[0], lines[-1]) != ("*** Begin Patch", "*** End Patch"):
        return call
    action, _, path = lines[1].partition(" File: ")
    body, at = lines[2:-1], os.path.join(directory, path) if directory else path
    if action == "*** Add" and all(line.startswith("+") for line in body):
        content = "".join(f"{line[1:]}\n" for line in body)
        return Call(id=call.id, name="write", arguments={"path": at, "content": content}, op="write")
    if action == "*** Update" and body[:1] == ["@@"]:
        removed = [line[1:] for line in body[1:] if line.startswith("-")]
        added = [line[1:] for line in body[1:] if line.startswith("+")]
        in_order = [f"-{line}" for line in removed] + [f"+{line}" for line in added]
        if removed and in_order == body[1:]:
            old, new = ("".join(f"{line}\n" for line in side) for side in (removed, added))
            return Call(id=call.id, name="edit", arguments={"path": at, "old": old, "new": new}, op="edit")
    return call


# ---------------------------------------------------------------- writing


def _items(message: Message, patches: set[str], turn: str) -> Iterator[Line]:
    """The lines of one message. `patches`: ids of the calls so far that are patches; their results differ in kind."""
    named = tuple(_in_its_terms(block) for block in message.blocks)
    for item in plain.openai_responses([msgspec.structs.replace(message, blocks=named)]):
        yield {"type": ITEM, "payload": _as_patch(item, patches)}
    if message.role == "assistant" and not any(isinstance(block, Call) for block in named):
        yield {"type": "event_msg", "payload": {"type": "task_complete", "turn_id": derived_id("handed over", turn)}}


def _as_patch(item: Line, patches: set[str]) -> Line:
    """A patch, or the result of one, as Codex has it: a call whose input is a text."""
    if item.get("name") == _PATCH and list(arguments := json.loads(item["arguments"])) == ["input"]:
        patches.add(item["call_id"])
        return {"type": "custom_tool_call", "name": _PATCH, "input": arguments["input"], "call_id": item["call_id"]}
    return {**item, "type": "custom_tool_call_output"} if item.get("call_id") in patches else item


def _in_its_terms(block: Block) -> Block:
    if isinstance(block, Call):
        patch = _patch(block)
        return (
            Call(id=block.id, name=_PATCH, arguments={"input": patch}, op="patch")
            if patch
            else native_call(block, TOOLS)
        )
    return _unmarked(block)


def _patch(call: Call) -> str:
    """The patch that says exactly this; empty if there is none."""
    arguments: Any = call.arguments
    if call.op == "write":
        body = ["*** Add", *(f"+{line}" for line in arguments["content"].split("\n")[:-1])]
    elif call.op == "edit":
        sides = (("-", arguments["old"]), ("+", arguments["new"]))
        body = ["*** Update", "@@", *(f"{sign}{line}" for sign, side in sides for line in side.split("\n")[:-1])]
    else:
        return ""
    text = "\n".join(["*** Begin Patch", f"{body[0]} File: {arguments['path']}", *body[1:], "*** End Patch"])
    read = _patched(Call(id=call.id, name=_PATCH, arguments={"input": text}, op="other"), text, "")
    return text if read.arguments == arguments else ""


def _unmarked(block: Block) -> Block:
    """A failed result whose own text says so needs no mark."""
    if not isinstance(block, Result) or block.status != "error":
        return block
    item = {"type": ITEM, "payload": {"type": "function_call_output", "call_id": "x", "output": block.text}}
    [read] = CODEX.read([item])
    says_it = read.blocks and isinstance(read.blocks[0], Result) and read.blocks[0].status == "error"
    kept = bool(says_it) and read.blocks[0] == msgspec.structs.replace(block, call="x")
    return msgspec.structs.replace(block, status="ok") if kept else block
