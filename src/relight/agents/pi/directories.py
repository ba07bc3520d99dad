"""Paths and configuration of pi: one directory of sessions for each working directory, files named by time and id."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from relight.agents.native import jsonl
from relight.agents.native.configuration import read_configuration
from relight.agents.native.names import (
    checked_id,
    home_of,
    inside,
    is_id,
    micros,
    newest,
    own_directory,
    place_in,
    recent,
)
from relight.agents.pi.session_lines import HEADER
from relight.ports.agent import Begun, Line, Surroundings

_ID_CHARS: Final = 36
_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]*")


def pi_home(surroundings: Surroundings) -> Path:
    """The directory of its configuration and sessions."""
    moved = surroundings.environment.get("PI_CODING_AGENT_DIR")
    home = Path(surroundings.directory, moved) if moved else home_of(surroundings.environment) / ".pi" / "agent"
    return own_directory(home, surroundings.environment)


def sessions_of(surroundings: Surroundings) -> Path:
    """The directory with a directory of sessions for each working directory."""
    return own_directory(pi_home(surroundings) / "sessions", surroundings.environment)


def new_session(native_id: str, surroundings: Surroundings, *, at_us: int) -> Path:
    """The path for a new session. UsageError for an invalid id."""
    home, at = sessions_of(surroundings), datetime.fromtimestamp(at_us / 1_000_000, UTC)
    here = re.sub(r"[/\\:]", "-", os.path.realpath(surroundings.directory).lstrip("/"))
    directory = place_in(home / f"--{here}--", home)
    time = at.strftime("%Y-%m-%dT%H-%M-%S-") + f"{at.microsecond // 1000:03d}Z"
    return directory / f"{time}_{checked_id(native_id)}.jsonl"


def id_of(path: Path) -> str:
    """The id in a session's file name; empty if there is none."""
    name = path.name.removesuffix(".jsonl")[-_ID_CHARS:]
    return name if is_id(name) else ""


def locate(native_id: str, surroundings: Surroundings) -> Path | None:
    """The file of this session; None unless it is in pi's own directory and was begun in this working directory: pi
    asks before it continues one of another."""
    home, here = sessions_of(surroundings), os.path.realpath(surroundings.directory)
    found = (path for _, path in recent(home, depth=1) if is_id(native_id) and id_of(path) == native_id)
    own = (path for path in found if inside(path, home) is not None)
    return next((path for path in own if os.path.realpath(str(_header(path).get("cwd"))) == here), None)


def everywhere(surroundings: Surroundings, *, most: int) -> list[Begun]:
    """The sessions of all directories, most recently modified first."""
    home = sessions_of(surroundings)
    return newest(home, depth=1, most=most, id_of=id_of, directory_of=lambda path: _header(path).get("cwd"))


def begun(surroundings: Surroundings, *, since_us: int = 0) -> list[str]:
    """Ids of the sessions of this directory by the time they were begun, newest first."""
    home, here = sessions_of(surroundings), os.path.realpath(surroundings.directory)
    found = []
    for at_us, path in recent(home, depth=1):
        if at_us < since_us or not id_of(path) or inside(path, home) is None:
            continue
        header = _header(path)
        at, cwd = micros(header.get("timestamp")), header.get("cwd")
        # Its clock has milliseconds.
        if at is not None and at >= since_us // 1000 * 1000 and isinstance(cwd, str) and os.path.realpath(cwd) == here:
            found.append((at, id_of(path)))
    return [name for _, name in sorted(found, reverse=True)]


def _header(path: Path) -> Line:
    line = jsonl.first(path) or {}
    return line if line.get("type") == HEADER else {}


def default_model(surroundings: Surroundings) -> str | None:
    """The model that its settings name."""
    named = read_configuration(pi_home(surroundings) / "settings.json").get("defaultModel")
    return named if isinstance(named, str) and named else None


def key_names(surroundings: Surroundings) -> tuple[str, ...]:
    """The variables that providers of the user's own take their keys from."""
    providers = read_configuration(pi_home(surroundings) / "models.json").get("providers")
    given = (
        [one.get("apiKey") for one in providers.values() if isinstance(one, dict)]
        if isinstance(providers, dict)
        else []
    )
    return tuple(key for key in given if isinstance(key, str) and _VARIABLE.fullmatch(key))
