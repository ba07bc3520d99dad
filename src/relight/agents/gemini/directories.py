"""Paths and configuration of Gemini CLI: one directory for each working directory, with its sessions in `chats`.

The directory is named in `projects.json`, and in a file `.project_root` inside of it, by which Gemini CLI finds
it if the former has no entry. The name of a session file has its time and the first eight characters of its id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

from relight.agents.native import jsonl
from relight.agents.native.configuration import read_configuration
from relight.agents.native.names import checked_id, home_of, inside, is_id, micros, own_directory, place_in, recent
from relight.ports.agent import Begun, Line, Surroundings
from relight.system import private_directories

_SHORT: Final = 8
_ROOT: Final = ".project_root"
_CHATS: Final = "chats"
_MAX_PROJECTS: Final = 5000
_OF_THE_MACHINE: Final = ("/etc/gemini-cli", "/Library/Application Support/GeminiCli")


def gemini_home(surroundings: Surroundings) -> Path:
    """The directory of its configuration and sessions."""
    moved = surroundings.environment.get("GEMINI_CLI_HOME")
    home = Path(surroundings.directory, moved) if moved else home_of(surroundings.environment)
    return own_directory(home / ".gemini", surroundings.environment)


def _projects(surroundings: Surroundings) -> Path:
    return own_directory(gemini_home(surroundings) / "tmp", surroundings.environment)


def project_hash(directory: str) -> str:
    """How a session names the working directory it was begun in."""
    return sha256(os.path.realpath(directory).encode()).hexdigest()


def new_session(native_id: str, surroundings: Surroundings, *, at_us: int) -> Path:
    """The path for a new session, in the directory of this project, which is made if there is none. UsageError for an
    invalid id."""
    short = checked_id(native_id)[:_SHORT]
    project = _project(surroundings) or _made(surroundings)
    at = datetime.fromtimestamp(at_us / 1_000_000, UTC).strftime("%Y-%m-%dT%H-%M")
    return place_in(project / _CHATS, _projects(surroundings)) / f"session-{at}-{short}.jsonl"


def _project(surroundings: Surroundings) -> Path | None:
    """The directory of this project; None if Gemini CLI has not run in it."""
    home, here = _projects(surroundings), os.path.realpath(surroundings.directory)
    registered = read_configuration(gemini_home(surroundings) / "projects.json").get("projects")
    slug = registered.get(here) if isinstance(registered, dict) else None
    if isinstance(slug, str) and re.fullmatch(r"[a-z0-9-]+", slug) and _root_of(home / slug) in (None, here):
        return home / slug
    return next((project for project, root in _known(home) if root == here), None)


def _made(surroundings: Surroundings) -> Path:
    """A new directory for this project, marked as its own."""
    home, here = _projects(surroundings), os.path.realpath(surroundings.directory)
    slug = re.sub(r"[^a-z0-9]+", "-", os.path.basename(here).lower()).strip("-") or "project"
    for number in count():  # ends: each taken name is a directory that exists
        project = place_in(home / (f"{slug}-{number}" if number else slug), home)
        private_directories.make(project)
        with suppress(FileExistsError):
            with open(project / _ROOT, "x", encoding="utf-8") as marker:
                marker.write(here)
            return project
    raise AssertionError("not reached")


def _known(home: Path) -> Iterator[tuple[Path, str]]:
    """Directories of projects, each with the working directory it is of."""
    try:
        with os.scandir(home) as found:
            entries = [Path(one.path) for one in islice(found, _MAX_PROJECTS) if one.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for project in sorted(entries):
        root = _root_of(project)
        if root is not None:
            yield project, root


def _root_of(project: Path) -> str | None:
    try:
        return (project / _ROOT).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _sessions(surroundings: Surroundings) -> Iterator[tuple[int, Path, str]]:
    """Session files of all projects with their modification times, newest first, and the directories they are of."""
    home = _projects(surroundings)
    roots = dict(_known(home))
    for at_us, path in recent(home, depth=2):
        root = roots.get(path.parent.parent)
        is_session = path.name.startswith("session-") and path.parent.name == _CHATS
        if is_session and root is not None and inside(path, home) is not None:
            yield at_us, path, root


def header_of(path: Path) -> Line:
    """The first line of a session, which has its id and time; empty if it is none."""
    line = jsonl.first(path) or {}
    return line if is_id(line.get("sessionId")) else {}


def locate(native_id: str, surroundings: Surroundings) -> Path | None:
    """The file of this session; None unless it was begun in this working directory: Gemini CLI finds only those."""
    here = os.path.realpath(surroundings.directory)
    if not is_id(native_id):
        return None
    found = (path for _, path, root in _sessions(surroundings) if root == here and native_id[:_SHORT] in path.name)
    return next((path for path in found if header_of(path).get("sessionId") == native_id), None)


def everywhere(surroundings: Surroundings, *, most: int) -> list[Begun]:
    """The sessions of all directories, most recently modified first."""
    found: list[Begun] = []
    for at_us, path, root in _sessions(surroundings):
        if len(found) >= most:
            break
        if header := header_of(path):
            found.append(Begun(native_id=header["sessionId"], directory=root, touched_us=at_us))
    return found


def begun(surroundings: Surroundings, *, since_us: int = 0) -> list[str]:
    """Ids of the sessions of this directory by the time they were begun, newest first."""
    here = os.path.realpath(surroundings.directory)
    found = []
    for at_us, path, root in _sessions(surroundings):
        header = header_of(path) if at_us >= since_us and root == here else {}
        at = micros(header.get("startTime"))
        if at is not None and at >= since_us // 1000 * 1000:  # its clock has milliseconds
            found.append((at, header["sessionId"]))
    return [name for _, name in sorted(found, reverse=True)]


def default_model(surroundings: Surroundings) -> str | None:
    """The model that the environment or its settings name."""
    settings = read_configuration(gemini_home(surroundings) / "settings.json").get("model")
    named = settings.get("name") if isinstance(settings, dict) else None
    return surroundings.environment.get("GEMINI_MODEL") or (named if isinstance(named, str) else None)


def settings(surroundings: Surroundings) -> list[dict[str, Any]]:
    """The settings of the machine, the user and the working directory that count here."""
    named = surroundings.environment.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
    system = [Path(named)] if named else [Path(place, "settings.json") for place in _OF_THE_MACHINE]
    given = surroundings.environment.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH")
    defaults = [Path(given)] if given else [path.with_name("system-defaults.json") for path in system]
    own = [gemini_home(surroundings), Path(surroundings.directory, ".gemini")]
    return [read_configuration(path) for path in (*system, *defaults, *(place / "settings.json" for place in own))]
