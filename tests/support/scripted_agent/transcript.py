"""The transcript: one line a content block, each hanging on its parent, in the directory of its project.

A line reaches the disk a little after it was made (a killed agent has lost its last ones), always in order. When a
session is resumed the last thing said decides the branch, and the way leads up from there. A line whose parent cannot
be found is the beginning: what stood before it is lost, as with the real one.
"""

from __future__ import annotations

import json
import os
import re
import threading
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.support.scripted_agent.options import VERSION

Line = dict[str, Any]
_LONGEST: Final = 200


def config_directory(variables: Mapping[str, str]) -> Path:
    """Where all of its state lies."""
    moved = variables.get("CLAUDE_CONFIG_DIR")
    return Path(moved) if moved else Path(variables.get("HOME") or "/") / ".claude"


def location(config: Path, directory: Path, session: str) -> Path:
    """The transcript of a session that runs in this directory."""
    key = re.sub(r"[^a-zA-Z0-9]", "-", os.path.realpath(directory))
    if len(key) > _LONGEST:
        key = f"{key[:_LONGEST]}-{_digest(os.path.realpath(directory))}"
    return config / "projects" / key / f"{session}.jsonl"


def _digest(text: str) -> str:
    """A string's hash as JavaScript programs make one: 32 bits, in base 36."""
    units = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (value * 31 + low + 256 * high) % 2**32
    value = min(value, 2**32 - value)
    letters = ""
    while value or not letters:
        value, rest = divmod(value, 36)
        letters = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + letters
    return letters


def read(path: Path) -> list[Line]:
    """All lines that can be read."""
    found = []
    for text in path.read_bytes().split(b"\n"):
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            found.append(line)
    return found


def branch(lines: Sequence[Line]) -> list[Line]:
    """The lines that the model will be sent, in order."""
    nodes = {line["uuid"]: line for line in lines if isinstance(line.get("uuid"), str) and not line.get("isSidechain")}
    spoken = [line for line in nodes.values() if line.get("type") in ("user", "assistant")]
    way: set[str] = set()
    name: Any = spoken[-1]["uuid"] if spoken else None
    while name in nodes and name not in way:
        way.add(name)
        name = nodes[name].get("parentUuid")
    replies = {reply_of(line) for line in spoken if line["uuid"] in way} - {None}
    kept = [line for line in spoken if line["uuid"] in way or reply_of(line) in replies]
    asked = {block["id"] for line in kept for block in blocks(line, "tool_use")}
    asked -= {block["tool_use_id"] for line in kept for block in blocks(line, "tool_result")}
    names = {line["uuid"] for line in kept}
    for line in spoken:
        answers = {block["tool_use_id"] for block in blocks(line, "tool_result")}
        if line["uuid"] not in names and answers and answers <= asked:
            names.add(line["uuid"])
            asked -= answers
    return [line for line in spoken if line["uuid"] in names]


def reply_of(line: Line) -> str | None:
    """Which reply of the model a line is a part of."""
    return line["message"].get("id") if line.get("type") == "assistant" else None


def blocks(line: Line, kind: str) -> list[dict[str, Any]]:
    """The content blocks of this kind."""
    content = line.get("message", {}).get("content")
    return [block for block in content if block.get("type") == kind] if isinstance(content, list) else []


class Transcript:
    """A session's file while the agent runs."""

    def __init__(self, path: Path, session: str, directory: str, *, flush_ms: float) -> None:
        self.path = path
        self.session = session
        self.last: str | None = None
        """what the next line hangs on"""
        self._directory = directory
        self._delay = flush_ms / 1000
        self._waiting: list[bytes] = []
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def note(self, kind: str, **fields: Any) -> None:
        """A line of bookkeeping, outside of the tree."""
        self._write({"type": kind, **fields, "sessionId": self.session})

    def add(self, kind: str, *, parent: str | None = None, **fields: Any) -> Line:
        """A line of the tree; the next one hangs on it."""
        line = {
            "parentUuid": parent or self.last,
            "isSidechain": False,
            "type": kind,
            **fields,
            "uuid": fields.get("uuid") or str(uuid.uuid4()),
            "timestamp": now(),
            "userType": "external",
            "entrypoint": "sdk-cli",
            "cwd": self._directory,
            "sessionId": self.session,
            "version": VERSION,
            "gitBranch": "HEAD",
        }
        self.last = line["uuid"]
        self._write(line)
        return line

    def take_over(self, lines: Sequence[Line]) -> None:
        """Begin with the lines of another session: a fork."""
        for line in lines:
            self._write({**line, "sessionId": self.session})
            self.last = line.get("uuid", self.last)

    def flush(self) -> None:
        """Everything is on disk."""
        with self._lock:
            data, self._waiting, self._timer = b"".join(self._waiting), [], None
            if data:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with self.path.open("ab") as file:
                    file.write(data)

    def _write(self, line: Line) -> None:
        with self._lock:
            self._waiting.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            if self._timer is None and self._delay:
                self._timer = threading.Timer(self._delay, self.flush)
                self._timer.daemon = True
                self._timer.start()
        if not self._delay:
            self.flush()


def now() -> str:
    """A time as it is written everywhere."""
    at = datetime.now(UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"
