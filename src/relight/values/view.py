"""The neutral view of a conversation: messages of blocks, the same for every provider.

It is derived from the provider's own dicts and never stored, so it may lose what no reader of it needs (ids
of items, cache marks, citations); `Message.index` leads back to the dict that has everything. Kinds of
content that it has no block for appear as a text such as `[document]`.

It does not know any provider's spelling: `relight.journal.formats` does.
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
    """The agent-independent meaning of a tool, by its name; `other` where the name is not well known."""
    return _OPS.get(name.lower(), "other")


class Text(msgspec.Struct, frozen=True, kw_only=True, tag="text"):
    """Words, as they were said."""

    text: str


class Image(msgspec.Struct, frozen=True, kw_only=True, tag="image"):
    """A picture: its bytes or its address."""

    media: str = ""
    """the media type, empty where it is not known"""
    data: str = ""
    """base64, empty where there is a url"""
    url: str = ""


class Reason(msgspec.Struct, frozen=True, kw_only=True, tag="reason"):
    """Thinking. Bound to the provider and model it came from: it cannot be handed to another."""

    text: str = ""
    opaque: str = ""
    """signature or encrypted content, as the provider gave it"""


class Call(msgspec.Struct, frozen=True, kw_only=True, tag="call"):
    """The model asks for a tool."""

    id: str
    name: str
    arguments: dict[str, Any] | str
    """the parsed object, or the text where it is none"""
    op: Op


class Result(msgspec.Struct, frozen=True, kw_only=True, tag="result"):
    """What became of a call. Its images are blocks of their own, directly after it."""

    call: str
    """id of the call it answers"""
    status: ResultStatus = "ok"
    text: str = ""
    synthetic: bool = False
    """written by relight, not by the tool"""


Block = Text | Image | Reason | Call | Result


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One speaker's turn, or the part of a provider dict that belongs to one speaker."""

    role: Role
    blocks: tuple[Block, ...]
    index: int
    """position of the provider dict it came from"""
