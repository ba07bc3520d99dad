"""Tools: real commands and real files. A shell command gets a session of its own, and outlives a killed agent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_SECONDS: Final = 120.0
_SCHEMAS: Final[dict[str, dict[str, str]]] = {
    "Bash": {"command": "string"},
    "Edit": {"file_path": "string", "old_string": "string", "new_string": "string"},
    "Read": {"file_path": "string"},
    "Write": {"file_path": "string", "content": "string"},
}
OFFERED: Final = [
    {
        "name": name,
        "description": name,
        "input_schema": {
            "type": "object",
            "properties": {field: {"type": kind} for field, kind in fields.items()},
            "required": list(fields),
        },
    }
    for name, fields in _SCHEMAS.items()
]
"""as they are offered to the model"""
_RUNNING: Final[set[int]] = set()
_LOOKING: Final = ("cat ", "echo ", "ls", "pwd", "sleep ", "true", "wc ")


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a call ended: what the model reads, and what hooks and transcript are told beside it."""

    text: str
    reported: Any
    failed: bool = False


def changes_nothing(name: str, given: Mapping[str, Any]) -> bool:
    """May this call run beside others?"""
    if name == "Bash":
        command = str(given.get("command", ""))
        return command.startswith(_LOOKING) and not set(command) & set(">|&;`$")
    return name == "Read"


def run(name: str, given: Mapping[str, Any], directory: str) -> Done:
    """Do it."""
    try:
        match name:
            case "Bash":
                return _bash(str(given["command"]), directory)
            case "Write":
                return _write(Path(given["file_path"]), str(given["content"]))
            case "Edit":
                return _edit(Path(given["file_path"]), str(given["old_string"]), str(given["new_string"]))
            case "Read":
                return _read(Path(given["file_path"]))
            case _:
                return _failed(f"No such tool available: {name}")
    except (OSError, KeyError, TypeError) as error:
        return _failed(f"{type(error).__name__}: {error}")


def _failed(text: str) -> Done:
    return Done(text=text, reported=f"Error: {text}", failed=True)


def _bash(command: str, directory: str) -> Done:
    child = subprocess.Popen(
        ["/bin/bash", "-c", command],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    _RUNNING.add(child.pid)
    try:
        output = child.communicate(timeout=_SECONDS)[0].rstrip("\n")
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        return _failed(f"Command timed out after {_SECONDS:.0f} s")
    finally:
        _RUNNING.discard(child.pid)
    if child.returncode:
        return _failed(f"Exit code {child.returncode}" + (f"\n{output}" if output else ""))
    return Done(text=output, reported={"stdout": output, "stderr": "", "interrupted": False, "isImage": False})


def end_all() -> None:
    """End the shell commands that run now: the user interrupted them."""
    for pid in list(_RUNNING):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _write(path: Path, content: str) -> Done:
    kind = "update" if path.exists() else "create"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return Done(
        text=f"File {kind}d successfully at: {path}", reported={"type": kind, "filePath": str(path), "content": content}
    )


def _edit(path: Path, old: str, new: str) -> Done:
    before = path.read_text(encoding="utf-8")
    if before.count(old) != 1:
        return _failed(f"String to replace found {before.count(old)} times in file.\nString: {old}")
    path.write_text(before.replace(old, new), encoding="utf-8")
    return Done(
        text=f"The file {path} has been updated successfully.",
        reported={"filePath": str(path), "oldString": old, "newString": new},
    )


def _read(path: Path) -> Done:
    content = path.read_text(encoding="utf-8")
    shown = "\n".join(f"{number}\t{line}" for number, line in enumerate(content.split("\n"), 1))
    return Done(text=shown, reported={"type": "text", "file": {"filePath": str(path), "content": content}})
