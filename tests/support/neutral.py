"""A conversation as a model was sent it, in one form for every API and agent: a hand-over is checked by comparing two.

It reads the bodies of requests, independently of relight's own readers. What agents say for themselves (instructions,
reminders, surroundings) is left out, and so are ids, which hand-overs may change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from tests.support.fake_model import Request
from tests.support.fake_model.conversation import is_filler

Said = tuple[str, ...]
"""a kind, and what was said: user, assistant, image, result, or the operation of a call with its arguments"""
_HARNESS = re.compile(r"\s*(<[a-z_-]+[^<>]*>|# AGENTS\.md|\[image|<image|Attached (image\(s\)|media) from tool result)")
_MARK = re.compile(r"^\[error\] ?|^\(see attached image\)$")
"""what a writer puts before a failure, and pi in place of no text"""
_SHELLS = frozenset({"Bash", "bash", "exec_command", "shell", "shell_command", "run_shell_command"})
_PATHS = ("file_path", "filePath", "path")


def said_to(request: Request) -> list[Said]:
    """What the model was told and had said itself, in order; images after the text of their message."""
    body = request.body
    found = {"messages": _messages, "responses": _responses, "chat": _chat, "gemini": _gemini}[request.api](body)
    known = [("user", one[1].strip('"')) if one[0] == "user" else one for one in found]  # opencode quotes a prompt
    return [one for one in known if one[0] not in ("user", "assistant", "system") or _counts(one)]


def _counts(one: Said) -> bool:
    is_harness = one[0] == "system" or (one[0] == "user" and _HARNESS.match(one[1]) is not None)
    return bool(one[1].strip()) and not is_filler(one[1]) and not is_harness


def asked(name: str, arguments: Any) -> Said:
    """A call by what it does, whatever the agent calls its tool."""
    given: dict[str, Any] = arguments if isinstance(arguments, dict) else {"input": arguments}
    path = next((str(given[key]) for key in _PATHS if key in given), "")
    if name in _SHELLS:
        words: Any = given.get("command", given.get("cmd", ""))
        return "shell", words if isinstance(words, str) else words[-1]
    if name.lower() in ("write", "write_file"):
        return "write", path, given["content"]
    if name.lower() in ("edit", "replace"):
        [edit] = given.get("edits") or [given]
        old, new = (next(str(edit[key]) for key in keys if key in edit) for keys in _EDITS)
        return "edit", path, old, new
    if name == "apply_patch":
        return _patch(str(given["input"]))
    if name.lower() in ("read", "read_file", "view_image"):
        return "read", path
    return name, json.dumps(given, sort_keys=True)


_EDITS = (("old_string", "oldString", "oldText", "old"), ("new_string", "newString", "newText", "new"))


def _patch(text: str) -> Said:
    _, first, *lines, _ = text.strip().split("\n")
    action, path = first.split(" File: ", 1)
    sides = ["".join(f"{line[1:]}\n" for line in lines if line.startswith(sign)) for sign in "-+"]
    return ("write", path, sides[1]) if action == "*** Add" else ("edit", path, *sides)


def _image(data: str) -> Said:
    return "image", sha256(data.rpartition(",")[2].encode()).hexdigest()[:12]


def _result(text: str) -> Said:
    return "result", _MARK.sub("", text).strip()


def _messages(body: Any) -> Iterator[Said]:
    for message in body["messages"]:
        content = message["content"]
        blocks: Any = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "text":
                yield message["role"], block["text"]  # Claude Code has messages of the system among them
            elif block["type"] == "tool_use":
                yield asked(block["name"], block["input"])
            elif block["type"] == "image":
                yield _image(block["source"]["data"])
            elif block["type"] == "tool_result":
                inner = block.get("content") or ""
                parts: Any = [{"type": "text", "text": inner}] if isinstance(inner, str) else inner
                yield _result("\n".join(part["text"] for part in parts if part["type"] == "text"))
                yield from (_image(part["source"]["data"]) for part in parts if part["type"] == "image")


def _responses(body: Any) -> Iterator[Said]:
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "function_call":
            yield asked(item["name"], json.loads(item["arguments"]))
        elif kind == "custom_tool_call":
            yield asked(item["name"], {"input": item["input"]})
        elif kind.endswith("_output"):
            parts = item["output"] if isinstance(item["output"], list) else [{"text": item["output"]}]
            yield _result("\n".join(part["text"] for part in parts if "text" in part))
            yield from (_image(part["image_url"]) for part in parts if "image_url" in part)
        elif kind == "message" and item["role"] in ("user", "assistant"):
            for part in item["content"]:
                yield (item["role"], part["text"]) if "text" in part else _image(part["image_url"])


def _chat(body: Any) -> Iterator[Said]:
    for message in body["messages"]:
        content = message.get("content") or ""
        parts: Any = [{"text": content}] if isinstance(content, str) else content
        if message["role"] == "tool":
            yield _result("\n".join(part["text"] for part in parts if "text" in part))
        elif message["role"] in ("user", "assistant"):
            yield from ((message["role"], part["text"]) for part in parts if "text" in part)
        yield from (_image(part["image_url"]["url"]) for part in parts if "image_url" in part)
        for call in message.get("tool_calls") or ():
            yield asked(call["function"]["name"], json.loads(call["function"]["arguments"]))


def _gemini(body: Any) -> Iterator[Said]:
    for content in body["contents"]:
        role = "assistant" if content["role"] == "model" else "user"
        for part in content["parts"]:
            if "functionCall" in part:
                yield asked(part["functionCall"]["name"], part["functionCall"].get("args"))
            elif "functionResponse" in part:
                given = part["functionResponse"]
                yield _result("\n".join(str(text) for text in given["response"].values()))
                yield from (_image(one["inlineData"]["data"]) for one in given.get("parts", ()))
            elif "inlineData" in part:
                yield _image(part["inlineData"]["data"])
            elif not part.get("thought"):
                yield role, part["text"]
