"""The model that Codex would start with: from the command, its profile, its configuration, in that order."""

from __future__ import annotations

import tomllib
from typing import Any

from relight.agents.codex import directories
from relight.agents.native.argv import CommandLine
from relight.ports.agent import Surroundings


def model_of(line: CommandLine | None, surroundings: Surroundings) -> str | None:
    """The model's full name; None if only Codex knows it, as for a local provider's default."""
    if line is None:
        return directories.model_of(surroundings)
    named = line.value("--model") or _overridden(line)
    if named or line.has("--oss"):
        return named
    of_user = None if line.has("--ignore-user-config") else directories.model_of(surroundings, line.value("--profile"))
    return of_user


def _overridden(line: CommandLine) -> str | None:
    """By `--config model=NAME`; the last one counts, and a value that is no TOML is the name itself."""
    for part in reversed(line.parts):
        if part.name != "--config" or not part.values:
            continue
        key, _, text = part.values[-1].partition("=")
        if key.strip() == "model":
            named = _value(text.strip())
            return named if isinstance(named, str) and named else None
    return None


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text
