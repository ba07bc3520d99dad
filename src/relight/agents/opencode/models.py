"""The model that opencode is configured with. A session that another agent began names no model of opencode's, and
opencode continues a session with the model that its last prompt names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from relight.agents.native.names import home_of
from relight.agents.opencode.dialect import OURS
from relight.ports.agent import Line, Surroundings

_NAMES: Final = ("opencode.json", "opencode.jsonc", "config.json")


def configured(surroundings: Surroundings) -> dict[str, str] | None:
    """The provider and model of its configuration: that of the environment, the directory, the home; None if none
    names one, or if it is not plain JSON."""
    for text in (surroundings.environment.get("OPENCODE_CONFIG_CONTENT"), *_files(surroundings)):
        try:
            found: Any = json.loads(text) if text else None
        except ValueError:
            continue
        model = found.get("model") if isinstance(found, dict) else None
        if isinstance(model, str) and "/" in model:
            provider, _, name = model.partition("/")
            return {"providerID": provider, "modelID": name}
    return None


def _files(surroundings: Surroundings) -> Iterator[str | None]:
    named = surroundings.environment.get("OPENCODE_CONFIG")
    above = surroundings.environment.get("XDG_CONFIG_HOME")
    home = Path(above) if above else home_of(surroundings.environment) / ".config"
    directories = (Path(surroundings.directory), home / "opencode")
    for path in (*([Path(named)] if named else []), *(one / name for one in directories for name in _NAMES)):
        try:
            yield path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            yield None


def with_model(lines: Iterable[Line], model: dict[str, str] | None) -> Iterator[Line]:
    """The lines with this model where we have written none of opencode's."""
    for line in lines:
        message = line.get("message")
        data = message.get("data") if isinstance(message, dict) else None
        if model is None or not isinstance(message, dict) or not isinstance(data, dict):
            yield line
        elif data.get("model") == OURS:
            yield {**line, "message": {**message, "data": {**data, "model": model}}}
        elif data.get("providerID") == OURS["providerID"]:
            yield {**line, "message": {**message, "data": {**data, **model}}}
        else:
            yield line
