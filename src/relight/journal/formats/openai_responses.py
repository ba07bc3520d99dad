"""OpenAI Responses items: calls, their outputs, messages and reasoning are items of one flat list.

One reply is a run of items that the model produced, without an output or another role's message in between; the outputs
of all its calls come after the last of its calls, in call order. Input messages may be typed, or the short form
`{"role", "content"}`.

Calls that the provider answers itself (web search, code interpreter, ...) are ordinary items. So is `computer_call`:
its output must be a screenshot, which cannot be synthesised. There is no field for a failed function output: its text
begins with `[error]`; Codex's own text about the exit code is read as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from relight.journal.formats.content import (
    ERROR_MARK,
    are_blocks,
    arguments_of,
    blocks_of,
    image_at,
    is_kind,
    json_text,
    marked,
    placeholder,
    result_block,
    result_blocks,
    text_of,
)
from relight.journal.formats.format import CallSite, OwnMessages, ProviderDict, ToolResult
from relight.values.view import Block, Message, Reason, Role, Text

_CALLS: Final[dict[str, tuple[str, str]]] = {
    "function_call": ("", "arguments"),
    "custom_tool_call": ("", "input"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
}
"""type of call → the tool's name where the item has none, the field that holds its arguments"""
_OUTPUTS: Final = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
    }
)
_OTHER_ITEMS: Final = frozenset(
    {
        "reasoning",
        "item_reference",
        "program",
        "program_output",
        "additional_tools",
        "compaction",
        "computer_call_output",
        "tool_search_output",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
    }
)
_PARTS: Final = frozenset({"input_text", "output_text", "input_image", "input_file"})
_RESULT_CONTENT: Final = frozenset({"input_text", "input_image", "input_file"})
_NOT_THE_MODEL: Final = frozenset(
    {"item_reference", "computer_call_output", "tool_search_output", "mcp_approval_response"}
)
_ID_HEADS: Final = {"function_call": "fc", "message": "msg", "reasoning": "rs"}
_ROLES: Final[dict[str, Role]] = {"user": "user", "assistant": "assistant"}
_FAILED_EXIT: Final = re.compile(r"^Process exited with code (?!0$)-?\d+$", re.MULTILINE)
_EXIT_CHARS: Final = 400
"""length of Codex's own header in an output"""


class OpenAIResponses(OwnMessages):
    """The format of `client.responses.create(input=[...])` and of Codex's history."""

    name = "openai_responses"
    spans = True

    def recognises(self, message: ProviderDict) -> bool:
        kind, content = message.get("type"), message.get("content")
        if isinstance(kind, str) and ("role" not in message or kind == "additional_tools"):
            return kind in _CALLS or kind in _OUTPUTS or kind in _OTHER_ITEMS or kind.endswith("_call")
        if isinstance(content, list) and content:
            return any(isinstance(part, dict) and is_kind(part.get("type"), _PARTS) for part in content)
        return kind == "message" and "stop_reason" not in message

    def is_assistant(self, message: ProviderDict) -> bool:
        role = message.get("role")
        if role is not None:
            return bool(role == "assistant")
        kind = message.get("type")
        return isinstance(kind, str) and kind not in _OUTPUTS and kind not in _NOT_THE_MODEL

    def calls(self, message: ProviderDict) -> tuple[CallSite, ...]:
        kind = message.get("type")
        return (_site(message, kind),) if isinstance(kind, str) and kind in _CALLS else ()

    def answers(self, message: ProviderDict) -> tuple[str, ...]:
        kind = message.get("type")
        return (_id(message),) if isinstance(kind, str) and kind in _OUTPUTS else ()

    def fragment(self, result: ToolResult) -> ProviderDict:
        item = _answer(result, json_text(result.content))
        return item if result.caller is None else {**item, "caller": result.caller}

    def faults(self, message: ProviderDict) -> list[str]:
        kind, found = text_of(message.get("type")), []
        if kind == "function_call" and not isinstance(message.get("arguments"), str):
            found.append(f"the arguments of call {_id(message)!r} are no text")
        head, item = _ID_HEADS.get(kind), message.get("id")
        if head is not None and isinstance(item, str) and not item.startswith(head):
            found.append(f"the item id {item!r} does not begin with {head}")
        return found

    def read(self, messages: Sequence[ProviderDict]) -> list[Message]:
        return [_read(item, index) for index, item in enumerate(messages)]

    def user(self, text: str) -> ProviderDict:
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}

    def assistant(self, text: str) -> ProviderDict:
        return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


OPENAI_RESPONSES: Final = OpenAIResponses()


def _id(item: ProviderDict) -> str:
    """The call's id. Items of the local shell may have it as `id`."""
    call_id = item.get("call_id")
    if isinstance(call_id, str):
        return call_id
    return text_of(item.get("id")) if text_of(item.get("type")).startswith("local_shell") else ""


def _site(item: ProviderDict, kind: str) -> CallSite:
    default, field = _CALLS[kind]
    name, arguments = text_of(item.get("name")) or default, arguments_of(item.get(field))
    return CallSite(id=_id(item), name=name, arguments=arguments, kind=kind, caller=item.get("caller"))


def _answer(result: ToolResult, text: str) -> ProviderDict:
    if result.kind == "shell_call":
        outcome = {"type": "exit", "exit_code": 0 if result.status == "ok" else 1}
        output: Any = [{"stdout": text, "stderr": "", "outcome": outcome}]
        return {"type": "shell_call_output", "call_id": result.call_id, "output": output}
    if result.kind == "apply_patch_call":
        status = "completed" if result.status == "ok" else "failed"
        kind = "apply_patch_call_output"
        return {"type": kind, "call_id": result.call_id, "status": status, "output": text}
    # Codex answers a local_shell_call with a function_call_output too.
    kind = "custom_tool_call_output" if result.kind == "custom_tool_call" else "function_call_output"
    return {"type": kind, "call_id": result.call_id, "output": _output(result, text)}


def _output(result: ToolResult, text: str) -> str | list[Any]:
    if not are_blocks(result.content, _RESULT_CONTENT):
        return marked(text, result.status)
    blocks: list[Any] = result.content
    return [{"type": "input_text", "text": ERROR_MARK}, *blocks] if result.status == "error" else blocks


def _read(item: ProviderDict, index: int) -> Message:
    kind = text_of(item.get("type"))
    if kind in _CALLS:
        return Message(role="assistant", blocks=(_site(item, kind).view(),), index=index)
    if kind in _OUTPUTS:
        return Message(role="tool", blocks=_read_output(item), index=index)
    if kind == "reasoning":
        return Message(role="assistant", blocks=(_read_reasoning(item),), index=index)
    if "role" in item or "content" in item:
        role = _ROLES.get(text_of(item.get("role")), "system")
        return Message(role=role, blocks=blocks_of(item.get("content"), _read_part), index=index)
    role = "assistant" if OPENAI_RESPONSES.is_assistant(item) else "system"
    return Message(role=role, blocks=(placeholder(item),), index=index)


def _read_output(item: ProviderDict) -> tuple[Block, ...]:
    output, call = item.get("output"), _id(item)
    if item.get("type") == "shell_call_output" and isinstance(output, list):
        return (_read_shell(call, [run for run in output if isinstance(run, dict)]),)
    failed = True if item.get("status") == "failed" else None
    if isinstance(output, str) and _FAILED_EXIT.search(output, 0, _EXIT_CHARS):
        failed = True
    return result_blocks(call=call, content=blocks_of(output, _read_part), failed=failed)


def _read_shell(call: str, runs: list[dict[str, Any]]) -> Block:
    texts = [text_of(run.get(stream)) for run in runs for stream in ("stdout", "stderr")]
    outcomes = [run["outcome"] for run in runs if isinstance(run.get("outcome"), dict)]
    failed = any(outcome.get("type") == "timeout" or outcome.get("exit_code") for outcome in outcomes)
    return result_block(call=call, text="\n".join(text for text in texts if text), failed=failed)


def _read_reasoning(item: ProviderDict) -> Reason:
    parts = blocks_of(item.get("summary"), _read_part) + blocks_of(item.get("content"), _read_part)
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    return Reason(text=text, opaque=text_of(item.get("encrypted_content")))


def _read_part(part: dict[str, Any]) -> Block:
    kind = text_of(part.get("type"))
    if kind in ("input_text", "output_text", "text", "summary_text", "reasoning_text"):
        return Text(text=text_of(part.get("text")))
    if kind == "refusal":
        return Text(text=text_of(part.get("refusal")))
    if kind == "input_image":
        return image_at(part.get("image_url"))
    return placeholder(part)
