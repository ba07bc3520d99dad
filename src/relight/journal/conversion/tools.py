"""Tools of agents in neutral terms: a shell command, a file written, edited or read, whatever the agent calls its tool.

A neutral call is named after its operation, with the argument names of `_REQUIRED`; further arguments keep their names.
Every reader knows this form too, so a call that the target has no tool for is written as it is, and nothing is lost.
All other calls keep their name and arguments.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from relight.values.view import Call, Op

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "shell": ("cmd",),
    "write": ("path", "content"),
    "edit": ("path", "old", "new"),
    "read": ("path",),
}
"""operation → the arguments it needs, all text; optional ones: `dir` and `why` of shell, `all` of edit"""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of an agent that does what a neutral operation does."""

    op: Op
    name: str
    fields: Mapping[str, str]
    """neutral argument → the agent's"""


def neutral_call(call: Call, tools: Sequence[Tool]) -> Call:
    """The call in neutral terms, if it is one of these tools and has the arguments it needs; else as a foreign tool."""
    given = call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}
    for tool in (*(one for one in tools if one.name == call.name), *_named_by_operation(call.name)):
        names = {native: neutral for neutral, native in tool.fields.items()}
        arguments = {names.get(name, name): value for name, value in given.items()}
        if len(arguments) == len(given) and _is_whole(tool.op, arguments):
            if tool.op == "edit" and arguments.get("all") is False:  # the default, which some agents write out
                del arguments["all"]
            return Call(id=call.id, name=tool.op, arguments=arguments, op=tool.op)
    return Call(id=call.id, name=call.name, arguments=given, op="other")


def native_call(call: Call, tools: Sequence[Tool]) -> Call:
    """A neutral call as the agent's first tool for it; unchanged if it has none. Further arguments are left out if the
    tool has no place for them; the directory of a shell command becomes a part of the command then."""
    arguments: dict[str, Any] = call.arguments if isinstance(call.arguments, dict) else {}
    for tool in tools:
        if tool.op == call.op and set(_REQUIRED[tool.op]) <= set(tool.fields):
            if "dir" not in tool.fields and isinstance(arguments.get("dir"), str) and tool.op == "shell":
                arguments = {**arguments, "cmd": f"cd {shlex.quote(arguments['dir'])} && {arguments['cmd']}"}
            placed = {tool.fields[name]: value for name, value in arguments.items() if name in tool.fields}
            return Call(id=call.id, name=tool.name, arguments=placed, op=call.op)
    return call


def _named_by_operation(name: str) -> tuple[Tool, ...]:
    return (Tool(op=name, name=name, fields={}),) if name in _REQUIRED else ()  # type: ignore[arg-type]


def _is_whole(op: Op, arguments: Mapping[str, Any]) -> bool:
    return all(isinstance(arguments.get(name), str) for name in _REQUIRED[op])
