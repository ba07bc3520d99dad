"""What a tool call says, by what its tool does: a command, a difference, a file that is read, or its arguments as JSON.

Decided by the agent-independent meaning of a tool (values/view.py `op_of`), so that Claude Code, Codex and one's own
tools look alike. Arguments that have an unexpected form are shown as they are: nothing is left out.
"""

from __future__ import annotations

import json
import shlex
from typing import Any, Final, Literal

import msgspec

from relight.server.reading.difference import Line, difference, hunk_lines, patch_lines
from relight.values.view import op_of

Form = Literal["command", "difference", "file", "json", "terminal", "text"]
# Names of arguments, without case and underscores: `file_path` of one agent is `filePath` of another.
_COMMAND: Final = ("command", "cmd", "script")
_PATH: Final = ("filepath", "path", "filename", "notebookpath", "targetfile", "absolutepath")
_OLD: Final = ("oldstring", "oldstr", "oldtext", "search")
_NEW: Final = ("newstring", "newstr", "newtext", "replace", "newsource")
_CONTENT: Final = ("content", "contents", "filetext", "text", "contentstext")
_PATCH: Final = ("input", "patch", "patchtext", "diff")
_SAID: Final = ("description", "justification", "reason", "explanation")


class Shown(msgspec.Struct, kw_only=True):
    """A call or a result in the form in which it is read."""

    form: Form
    about: str = ""
    """path of the file, or the purpose of a command as the agent gave it"""
    text: str = ""
    lines: list[Line] = []
    rest: str = ""
    """the arguments that the form does not show, as JSON"""
    folded: bool = False


def shown_call(name: str, arguments: dict[str, Any] | str) -> Shown:
    """The arguments of a call."""
    op = op_of(name)
    if isinstance(arguments, str):
        if op == "patch" or arguments.lstrip().startswith("*** Begin Patch"):
            return Shown(form="difference", lines=patch_lines(arguments))
        return Shown(form="command" if op == "shell" else "text", text=arguments)
    given = dict(arguments)
    made: Shown | None = None
    if op == "shell":
        made = _command(given)
    elif op == "patch":
        text = _take(given, _PATCH)
        made = Shown(form="difference", lines=patch_lines(text)) if text is not None else None
    elif op in ("edit", "write"):
        made = _changed(given)
    elif op == "read":
        path = _take(given, _PATH)
        made = Shown(form="file", about=path) if path is not None else None
    if made is None:
        return Shown(form="json", text=as_json(arguments))
    if given:
        made.rest = as_json(given)
    return made


def _take(given: dict[str, Any], names: tuple[str, ...]) -> str | None:
    """Remove and return the first text among these arguments."""
    found = {one.replace("_", "").lower(): one for one, value in given.items() if isinstance(value, str)}
    name = next((found[one] for one in names if one in found), None)
    return given.pop(name) if name is not None else None


def _command(given: dict[str, Any]) -> Shown | None:
    words = next((given[one] for one in _COMMAND if _is_words(given.get(one))), None)
    if words is not None:
        given.pop(next(one for one in _COMMAND if _is_words(given.get(one))))
        patch = words[1] if len(words) == 2 and words[0] == "apply_patch" else ""
        if patch:
            return Shown(form="difference", lines=patch_lines(patch))
        # `bash -lc TEXT` is how an agent runs a line of shell: the line is what it means.
        text = words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else shlex.join(words)
        return Shown(form="command", text=text, about=_take(given, _SAID) or "")
    text = _take(given, _COMMAND)
    return Shown(form="command", text=text, about=_take(given, _SAID) or "") if text is not None else None


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _changed(given: dict[str, Any]) -> Shown | None:
    """The difference that an edit or a write asks for."""
    path = _take(given, _PATH) or ""
    edits = given.get("edits")
    if isinstance(edits, list) and edits and all(isinstance(one, dict) for one in edits):
        lines: list[Line] = []
        rest = [dict(one) for one in edits]
        for one in rest:
            before, after = _take(one, _OLD), _take(one, _NEW)
            if before is None or after is None:
                return None
            lines += [("hunk", "@@"), *difference(before, after)]
        given.pop("edits")
        given |= {"edits": rest} if any(rest) else {}
        return Shown(form="difference", about=path, lines=lines)
    before, after = _take(given, _OLD), _take(given, _NEW)
    if after is not None:
        return Shown(form="difference", about=path, lines=difference(before, after) if before else _added(after))
    content = _take(given, _CONTENT)
    return Shown(form="difference", about=path, lines=_added(content)) if content is not None else None


def _added(text: str) -> list[Line]:
    return [("add", f"+{line}") for line in text.removesuffix("\n").split("\n")]


def shown_result(name: str, content: Any, *, failed: bool) -> Shown:
    """The result of a call of this tool; a failure is never folded."""
    op = op_of(name)
    content = _parsed(content)
    if isinstance(content, dict):
        if op == "shell" and isinstance(content.get("stdout"), str):
            parts = (content["stdout"], content.get("stderr"))
            rest = {key: one for key, one in content.items() if key not in ("stdout", "stderr") and one}
            text = "\n".join(one for one in parts if isinstance(one, str) and one)
            return Shown(form="terminal", text=text, rest=as_json(rest) if rest else "")
        if op == "read" and isinstance(file := content.get("file"), dict) and isinstance(file.get("content"), str):
            return Shown(form="text", text=file["content"], about=str(file.get("filePath", "")), folded=not failed)
        if op in ("edit", "write") and (lines := hunk_lines(content.get("structuredPatch"))):
            return Shown(form="difference", about=str(content.get("filePath", "")), lines=lines)
        return Shown(form="json", text=as_json(content), folded=op in ("edit", "write") and not failed)
    text = content if isinstance(content, str) else as_json(content)
    if op == "shell":
        return Shown(form="terminal", text=text)
    return Shown(form="text", text=text, folded=op == "read" and not failed)


def _parsed(content: Any) -> Any:
    """The object that a text contains, if it is JSON of one: some formats hold every result as text."""
    if not isinstance(content, str) or not content.startswith("{") or len(content) > 1_000_000:
        return content
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return content
    return found if isinstance(found, dict) else content


def as_json(value: Any) -> str:
    """A value as readable text: strings as they are, other data as indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
