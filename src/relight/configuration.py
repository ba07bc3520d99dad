"""The configuration file: `relight/config.toml` in the user's configuration directory, or what RELIGHT_CONFIG names.

A key is a setting's name in lower case without `relight_`: `store = "postgresql://..."` sets RELIGHT_STORE. Variables
of the environment take precedence. The file is read once, when a store is first opened, and its values are put into the
process's environment, so that child processes see the same settings. Only RELIGHT_ settings are accepted: credentials
for object storage belong in their own files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import Final

from relight.errors import UsageError

OURS: Final = "RELIGHT_"
FILE: Final = "RELIGHT_CONFIG"
NEVER: Final = (FILE, "RELIGHT_TOKEN")
"""not accepted in the file: it cannot name itself, and agents inherit its values, which must not include a token"""
_MAX_BYTES: Final = 1_000_000


def apply(environment: MutableMapping[str, str]) -> None:
    """Add the file's values for variables that are not set. UsageError if the file is invalid."""
    path = find_file(environment)
    if path is None:
        return
    for name, value in read(path).items():
        environment.setdefault(name, value)


def find_file(environment: Mapping[str, str]) -> Path | None:
    """The path of the configuration file; None if there is none."""
    named = environment.get(FILE)
    if named:
        return Path(named).absolute()
    directory = user_directory(environment, "XDG_CONFIG_HOME", ".config")
    path = directory / "config.toml" if directory is not None else None
    return path if path is not None and os.path.exists(path) else None


def user_directory(environment: Mapping[str, str], variable: str, usual: str) -> Path | None:
    """`relight` in the directory that an XDG variable names, else where the system has it; None without a home."""
    base, home = environment.get(variable), environment.get("HOME")
    if base:
        return Path(base, "relight")
    usual = "Library/Application Support" if sys.platform == "darwin" else usual
    return Path(home, usual, "relight") if home else None


@cache
def read(path: Path) -> dict[str, str]:
    """The file's settings as environment variables."""
    import tomllib

    from relight.settings import SETTINGS

    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1)
    except OSError as error:
        hints = [f"create the file, or unset {FILE}"]
        raise UsageError(f"{path}: cannot read the settings: {(error.strerror or '').lower()}", hints=hints) from None
    if len(text) > _MAX_BYTES:
        raise UsageError(f"{path}: larger than {_MAX_BYTES:,} bytes; not a configuration file")
    try:
        given = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        hints = ['a line is a name and a value: store = "postgresql://host/database"']
        raise UsageError(f"{path}: not TOML: {error}", hints=hints) from None
    names = [one.name for one in SETTINGS if one.for_people and is_allowed(one.name)]
    known = {key_of(name): name for name in names}
    return {_known(path, key, known): _text(path, key, value) for key, value in given.items()}


def is_allowed(name: str) -> bool:
    """Whether the file may contain this setting."""
    return name.startswith(OURS) and name not in NEVER


def key_of(name: str) -> str:
    """The key of a setting in the file."""
    return name.removeprefix(OURS).lower()


def _known(path: Path, key: str, known: Mapping[str, str]) -> str:
    name = known.get(key)
    if name is None:
        from difflib import get_close_matches

        near = get_close_matches(key.removeprefix(OURS.lower()), known, n=1)
        hints = [f"did you mean: {near[0]}"] if near else ["all settings: docs/reference/settings.md"]
        raise UsageError(f"{path}: unknown setting {key[:60]!r}", hints=hints)
    return name


def _text(path: Path, key: str, value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str | int | float) and "\0" not in str(value):
        return str(value)
    raise UsageError(f"{path}: {key} must be a string, a number, true or false", hints=[f'{key} = "..."'])
