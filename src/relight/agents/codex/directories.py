"""Paths and configuration of Codex: one directory of rollouts per day, file names that end with the thread's id."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from relight.agents.codex.rollout import META, payload_of
from relight.agents.native import jsonl
from relight.agents.native.names import checked_id, home_of, inside, is_id, micros, newest, own_directory, place_in
from relight.ports.agent import Begun, Line, Surroundings

_ID_CHARS: Final = 36
_DEFAULT: Final = "openai"
_BUILT_IN: Final = (_DEFAULT, "ollama", "lmstudio", "oss", "amazon-bedrock")


class Providers(msgspec.Struct, frozen=True, kw_only=True):
    """Whose models Codex can call here. It refuses a thread of a provider that it does not know."""

    configured: str
    known: frozenset[str]

    def choose(self, former: Any) -> str:
        """That of the thread where it is known here, else the configured one."""
        return former if isinstance(former, str) and former in self.known else self.configured


def codex_home(surroundings: Surroundings) -> Path:
    """CODEX_HOME: the directory of its configuration and rollouts."""
    moved = surroundings.environment.get("CODEX_HOME")
    home = Path(surroundings.directory, moved) if moved else home_of(surroundings.environment) / ".codex"
    return own_directory(home, surroundings.environment)


def sessions_of(surroundings: Surroundings) -> Path:
    """The directory with all rollouts."""
    return own_directory(codex_home(surroundings) / "sessions", surroundings.environment)


def _config(surroundings: Surroundings, name: str = "config.toml") -> dict[str, Any]:
    try:
        return tomllib.loads((codex_home(surroundings) / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def providers_of(surroundings: Surroundings) -> Providers:
    """Its configuration; empty if it cannot be read."""
    config = _config(surroundings)
    configured, defined = config.get("model_provider"), config.get("model_providers")
    known = {*_BUILT_IN, *(defined if isinstance(defined, dict) else ())}
    return Providers(configured=configured if isinstance(configured, str) else _DEFAULT, known=frozenset(known))


def model_of(surroundings: Surroundings, profile: str | None = None) -> str | None:
    """The model that its configuration names, with the file of the profile above it."""
    layers = [] if profile is None or "/" in profile else [f"{profile}.config.toml"]
    for name in (*layers, "config.toml"):
        model = _config(surroundings, name).get("model")
        if isinstance(model, str) and model:
            return model
    return None


def key_of(surroundings: Surroundings) -> str | None:
    """The variable that the configured provider takes its credentials from, where the configuration names one."""
    config = _config(surroundings)
    providers, configured = config.get("model_providers"), config.get("model_provider")
    provider = providers.get(configured) if isinstance(providers, dict) and isinstance(configured, str) else None
    named = provider.get("env_key") if isinstance(provider, dict) else None
    return named if isinstance(named, str) and named else None


def home_above(path: Path) -> Path:
    """The directory with all rollouts that this one is among."""
    return path.parents[3] if len(path.parents) > 3 else path.parent


def new_rollout(native_id: str, surroundings: Surroundings, *, at_us: int) -> Path:
    """The path for a new thread's rollout. UsageError for an invalid id."""
    home, at = sessions_of(surroundings), datetime.fromtimestamp(at_us / 1_000_000, UTC)
    directory = place_in(home / at.strftime("%Y/%m/%d"), home)
    return directory / f"rollout-{at.strftime('%Y-%m-%dT%H-%M-%S')}-{checked_id(native_id)}.jsonl"


def locate(native_id: str, home: Path) -> Path | None:
    """The rollout of this thread; if there are several, the newest."""
    if not is_id(native_id):
        return None
    found = [path for path in _rollouts(home) if id_of(path) == native_id and inside(path, home) is not None]
    return found[-1] if found else None


def id_of(path: Path) -> str:
    """The thread id in a rollout's name; empty if there is none."""
    name = path.name.removesuffix(".jsonl")[-_ID_CHARS:]
    return name if is_id(name) else ""


def begun(surroundings: Surroundings, *, since_us: int = 0) -> list[str]:
    """Ids of the threads of this directory by the time they were begun, newest first."""
    home, directory = sessions_of(surroundings), os.path.realpath(surroundings.directory)
    found = []
    for path in _rollouts(home):
        if inside(path, home) is None or not _touched_since(path, since_us):
            continue
        meta = jsonl.first(path) or {}
        payload, at = payload_of(meta), _began(meta)
        cwd = payload.get("cwd")
        if at is not None and at >= since_us and isinstance(cwd, str) and os.path.realpath(cwd) == directory:
            found.append((at, id_of(path)))
    return [name for _, name in sorted(found, reverse=True)]


def everywhere(surroundings: Surroundings, *, most: int) -> list[Begun]:
    """All threads, most recently modified first."""
    return newest(
        sessions_of(surroundings),
        depth=3,
        most=most,
        id_of=id_of,
        directory_of=lambda path: payload_of(jsonl.first(path) or {}).get("cwd"),
    )


def since(path: Path) -> Iterator[Path]:
    """The rollouts of the day on which this one was begun, and of later days."""
    home = home_above(path)
    days = [one for one in sorted(home.glob("*/*/*")) if one >= path.parent] if home != path.parent else [path.parent]
    for day in days:
        yield from sorted(day.glob("rollout-*.jsonl"))


def _touched_since(path: Path, since_us: int) -> bool:
    try:
        return path.stat().st_mtime_ns // 1000 >= since_us
    except OSError:
        return False


def _began(meta: Line) -> int | None:
    if meta.get("type") != META:
        return None
    return micros(payload_of(meta).get("timestamp")) or micros(meta.get("timestamp"))


def _rollouts(home: Path) -> Iterator[Path]:
    """All rollouts, oldest day first. Links to directories are not followed."""
    for at, directories, files in os.walk(home):
        directories.sort()
        for name in sorted(files):
            path = Path(at, name)
            if name.startswith("rollout-") and name.endswith(".jsonl") and id_of(path):
                yield path
