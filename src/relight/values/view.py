"""The neutral view of a conversation: messages made of blocks, the same for every provider.

Derived from the provider's own dicts and never stored, so it may omit what no reader needs (item ids, cache marks,
citations); `Message.index` leads back to the original dict. Content without a block type appears as a text such as
`[document]`. Provider formats are known only to `relight.journal.formats`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Role = Literal["user", "assistant", "tool", "system"]
Op = Literal["shell", "write", "edit", "read", "patch", "other"]
ResultStatus = Literal["ok", "error", "unknown"]

_NAMES: Final[dict[Op, str]] = {
    "shell": "bash shell shell_command exec_command local_shell run_command execute_command run_shell_command"
    " run_terminal_cmd terminal powershell",
    "write": "write write_file create_file write_to_file",
    "edit": "edit multiedit edit_file str_replace replace search_replace notebookedit replace_in_file"
    " str_replace_editor str_replace_based_edit_tool",
    "read": "read read_file view view_file open_file notebookread",
    "patch": "apply_patch patch",
}
_OPS: Final[dict[str, Op]] = {name: op for op, names in _NAMES.items() for name in names.split()}


def op_of(name: str) -> Op:
    """The agent-independent meaning of a tool, by its name; `other` if the name is unknown."""
    return _OPS.get(name.lower(), "other")


class Text(msgspec.Struct, frozen=True, kw_only=True, tag="text"):
    """Text of a user or of the model."""

    text: str


class Placeholder(Text, frozen=True, kw_only=True, tag="text"):
    """Stands for content without a block type, as a text that is not in the conversation."""


class Image(msgspec.Struct, frozen=True, kw_only=True, tag="image"):
    """An image: its bytes or its URL."""

    media: str = ""
    """the media type, empty where it is not known"""
    data: str = ""
    """base64, empty where there is a url"""
    url: str = ""


class Reason(msgspec.Struct, frozen=True, kw_only=True, tag="reason"):
    """Reasoning of the model. Bound to its provider and model: it cannot be sent to another."""

    text: str = ""
    opaque: str = ""
    """signature or encrypted content, as the provider gave it"""


class Call(msgspec.Struct, frozen=True, kw_only=True, tag="call"):
    """A tool call requested by the model."""

    id: str
    name: str
    arguments: dict[str, Any] | str
    """the parsed object, or the text if it does not parse"""
    op: Op


class Result(msgspec.Struct, frozen=True, kw_only=True, tag="result"):
    """The result of a call. Its images are separate blocks directly after it."""

    call: str
    """id of the call it answers"""
    status: ResultStatus = "ok"
    text: str = ""
    synthetic: bool = False
    """written by relight, not by the tool"""


Block = Text | Image | Reason | Call | Result


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of one role, or the part of a provider dict that belongs to one role."""

    role: Role
    blocks: tuple[Block, ...]
    index: int
    """position of the provider dict it came from"""
