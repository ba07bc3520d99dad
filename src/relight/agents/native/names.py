"""Native ids, timestamps and paths of agents, validated.

Ids are untrusted data: only a UUID is accepted and becomes part of a path. A path is accepted only if it is inside the
agent's home after following links.
"""

from __future__ import annotations

import os
import re
import secrets
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from relight.errors import UsageError
from relight.ports.agent import Begun
from relight.ports.runtime import CONFINED_VARIABLE

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_MAX_DIRECTORIES: Final = 500
_MAX_FILES: Final = 5000
_OURS: Final = uuid.UUID("7f1b4f0e-6f2a-5f5e-9a64-2c3d5b7b9f11")


def is_id(value: Any) -> bool:
    """Whether it is a UUID, as native ids are."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def checked_id(value: str) -> str:
    """The id, if it is a UUID; else UsageError."""
    if not is_id(value):
        raise UsageError(f"{value!r} is not the id of an agent's session: a UUID in lower case")
    return value


def derived_id(*parts: str) -> str:
    """A UUID derived from these parts: the same parts give the same id."""
    return str(uuid.uuid5(_OURS, "\0".join(parts)))


def random_id() -> str:
    """A random UUID (version 4)."""
    return str(uuid.uuid4())


def timed_id() -> str:
    """A UUID that sorts by time (version 7)."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    number = number & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62))


def stamp(at_us: int) -> str:
    """A time as agents write it: 2026-11-15T08:58:37.605Z."""
    at = datetime.fromtimestamp(at_us / 1_000_000, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def micros(value: Any) -> int | None:
    """The time of such a text, in microseconds; None if it cannot be parsed."""
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return int(at.timestamp() * 1_000_000) if at.tzinfo is not None else None


def home_of(environment: Mapping[str, str]) -> Path:
    """The user's home as a process with this environment sees it."""
    return Path(environment.get("HOME") or os.path.expanduser("~"))


def own_directory(directory: Path, environment: Mapping[str, str]) -> Path:
    """A directory of the agent's state. UsageError if the agent is confined to its home and a link leads out of it: it
    could make us read and write files outside of its sandbox."""
    if environment.get(CONFINED_VARIABLE):
        place_in(directory, home_of(environment))
    return directory


def inside(path: Path, home: Path) -> Path | None:
    """The path, if it is a regular file below this directory after following links; else None."""
    try:
        real = path.resolve(strict=True)
        below = real.is_relative_to(home.resolve(strict=True))
    except (OSError, RuntimeError):
        return None
    return path if below and real.is_file() else None


def place_in(directory: Path, home: Path) -> Path:
    """A directory below the home to write into. UsageError if a link leads out of the home."""
    if not directory.resolve().is_relative_to(home.resolve()):
        hints = ["a symbolic link leads out of it; remove the link or move the agent's state"]
        raise UsageError(f"{directory} does not lie in the agent's own directory {home}", hints=hints)
    return directory


def recent(home: Path, *, depth: int) -> list[tuple[int, Path]]:
    """Transcripts so many directories below a home, with their modification times, newest first. The number of files
    read is bounded; links are not followed."""
    level = [home]
    for _ in range(depth):
        below = [
            Path(entry.path)
            for directory in level
            for entry in _entries(directory)
            if entry.is_dir(follow_symlinks=False)
        ]
        level = sorted(below, reverse=True)[:_MAX_DIRECTORIES]
    found: list[tuple[int, Path]] = []
    for directory in level:
        for entry in _entries(directory):
            if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    found.append((entry.stat().st_mtime_ns // 1000, Path(entry.path)))
        if len(found) >= _MAX_FILES:
            break
    return sorted(found, reverse=True)


def newest(
    home: Path, *, depth: int, most: int, id_of: Callable[[Path], str], directory_of: Callable[[Path], Any]
) -> list[Begun]:
    """The sessions of a home by their transcripts, most recently modified first, at most `most`: those that have an id
    and a directory they were begun in."""
    named = ((us, path, id_of(path)) for us, path in recent(home, depth=depth))
    inner = ((us, name, directory_of(path)) for us, path, name in named if name and inside(path, home) is not None)
    found = (Begun(native_id=name, directory=at, touched_us=us) for us, name, at in inner if isinstance(at, str))
    return list(islice(found, most))


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(islice(entries, _MAX_FILES))
    except OSError:
        return []
