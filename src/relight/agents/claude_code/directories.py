"""Paths of Claude Code's sessions: one directory per project, named after the project's real path."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from relight.agents.native import jsonl
from relight.agents.native.names import checked_id, home_of, inside, is_id, micros, newest, own_directory, place_in
from relight.ports.agent import Begun, Surroundings

_LONGEST: Final = 200
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_GLANCE_BYTES: Final = 64 * 1024
_SPOKEN: Final = ("user", "assistant", "system")
_OPENING_BYTES: Final = 256 * 1024
"""of a transcript that are searched for its first message"""


def projects(surroundings: Surroundings) -> Path:
    """The directory with the sessions of all projects."""
    moved = surroundings.environment.get("CLAUDE_CONFIG_DIR")
    home = Path(surroundings.directory, moved) if moved else home_of(surroundings.environment) / ".claude"
    return own_directory(home / "projects", surroundings.environment)


def project_key(directory: str) -> str:
    """The name of a project's directory: each UTF-16 unit that is not a letter or digit becomes a dash."""
    path = os.path.realpath(directory)
    units = path.encode("utf-16-be", "surrogatepass")
    wide = "".join(chr(int.from_bytes(units[index : index + 2], "big")) for index in range(0, len(units), 2))
    key = re.sub(r"[^a-zA-Z0-9]", "-", wide)
    return key if len(key) <= _LONGEST else f"{key[:_LONGEST]}-{_hash(wide)}"


def transcript(native_id: str, surroundings: Surroundings) -> Path:
    """The path of a session's transcript, existing or not. UsageError for an invalid id."""
    home = projects(surroundings)
    directory = place_in(home / project_key(surroundings.directory), home)
    return directory / f"{checked_id(native_id)}.jsonl"


def locate(native_id: str, surroundings: Surroundings) -> Path | None:
    """The transcript's path, if `--resume` would find it; else None."""
    if not is_id(native_id):
        return None
    home = projects(surroundings)
    return inside(home / project_key(surroundings.directory) / f"{native_id}.jsonl", home)


def begun(surroundings: Surroundings, *, since_us: int = 0) -> list[str]:
    """Ids of the sessions of this directory by the time they were begun, newest first, without empty ones."""
    home = projects(surroundings)
    directory = home / project_key(surroundings.directory)
    try:
        names = [name.removesuffix(".jsonl") for name in os.listdir(directory) if name.endswith(".jsonl")]
    except OSError:
        return []
    found = []
    for name in names:
        path = inside(directory / f"{name}.jsonl", home) if is_id(name) else None
        at = _began(path) if path is not None else None
        if at is not None and at >= since_us:
            found.append((at, name))
    return [name for _, name in sorted(found, reverse=True)]


def everywhere(surroundings: Surroundings, *, most: int) -> list[Begun]:
    """The sessions of all projects, most recently modified first. Their directories are read from the transcripts,
    because a project directory's name is ambiguous."""
    return newest(
        projects(surroundings), depth=1, most=most, id_of=_id_of, directory_of=lambda path: _directory(path) or None
    )


def _id_of(path: Path) -> str:
    return path.stem if is_id(path.stem) else ""


def _directory(path: Path) -> str:
    """The directory it was begun in; empty if it has no message."""
    try:
        with path.open("rb") as file:
            lines = jsonl.parse(file.read(_GLANCE_BYTES)).lines
    except OSError:
        return ""
    if not any(line.get("type") in _SPOKEN for line in lines):
        return ""
    return next((cwd for line in lines if isinstance(cwd := line.get("cwd"), str)), "")


def _began(path: Path) -> int | None:
    """The time of the first message."""
    try:
        with path.open("rb") as file:
            opening = file.read(_OPENING_BYTES)
    except OSError:
        return None
    lines = jsonl.parse(opening).lines
    if not any(line.get("type") in _SPOKEN for line in lines):
        return None
    return next((at for line in lines if (at := micros(line.get("timestamp"))) is not None), None)


def _hash(text: str) -> str:
    """A 32-bit string hash in base 36, computed as Claude Code's JavaScript does."""
    number = 0
    for unit in text:
        number = (number * 31 + ord(unit)) & 0xFFFFFFFF
    number = abs(number - (1 << 32) if number >= 1 << 31 else number)
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
