"""The model that Claude Code would start with: from the command, the environment, its settings, in that order.

An alias (`opus`) is resolved by the environment, or known only to the agent. Any other name counts as a model's full
name, whatever serves it, so that a budget can be refused if the model has no price.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from relight.agents.native.argv import CommandLine, names
from relight.agents.native.names import home_of
from relight.ports.agent import Surroundings

_FAMILIES: Final = names("opus sonnet haiku fable")
_ALIASES: Final = _FAMILIES | names("default best opusplan")
_WINDOW: Final = re.compile(r"\[\d+[km]\]$", re.IGNORECASE)
_SETTINGS_BYTES: Final = 1024 * 1024


def model_of(line: CommandLine | None, surroundings: Surroundings) -> str | None:
    """The model's full name; None if only the agent knows it."""
    given = line.value("--settings") if line is not None else None
    settings = list(_settings(given, surroundings))
    environment = dict(surroundings.environment)
    for one in settings:
        environment |= _texts(one.get("env"))
    named = [line.value("--model") if line is not None else None, environment.get("ANTHROPIC_MODEL")]
    named += [one.get("model") for one in reversed(settings)]
    model = next((one.strip() for one in named if isinstance(one, str) and one.strip()), None)
    return _meant(model, environment) if model is not None else None


def _meant(model: str, environment: Mapping[str, str]) -> str | None:
    alias = _WINDOW.sub("", model.lower())
    if alias not in _ALIASES:
        return model
    return environment.get(f"ANTHROPIC_DEFAULT_{alias.upper()}_MODEL") or None if alias in _FAMILIES else None


def _settings(given: str | None, surroundings: Surroundings) -> Iterator[dict[str, Any]]:
    """Settings of the user, the project, the project's local file and the command; later ones take precedence."""
    moved, here = surroundings.environment.get("CLAUDE_CONFIG_DIR"), Path(surroundings.directory)
    own = here / moved if moved else home_of(surroundings.environment) / ".claude"
    for path in (own / "settings.json", here / ".claude/settings.json", here / ".claude/settings.local.json"):
        yield _read(path)
    if given is not None:
        yield _object(given) if given.lstrip().startswith("{") else _read(here / given)


def _read(path: Path) -> dict[str, Any]:
    """The settings in a file; empty if it cannot be read: the agent reports that itself."""
    try:
        if not path.is_file() or path.stat().st_size > _SETTINGS_BYTES:
            return {}
        return _object(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _texts(given: Any) -> dict[str, str]:
    pairs = given.items() if isinstance(given, dict) else ()
    return {name: value for name, value in pairs if isinstance(value, str)}
