"""Settings from a file: `relight/config.toml` in the user's configuration directory, or the one RELIGHT_CONFIG names.

A key is the name of a setting in lower case, without `relight_`: `store = "postgresql://..."` is RELIGHT_STORE. What
the environment says wins. The file is read once, when a store is first opened, and what it says is put into the
environment of this process, so that everybody who reads a setting, children included, reads the same. Names that are
not ours are not taken: keys for object storage have files of their own.
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
"""not in the file: it cannot name itself, and an agent that is started reads what it says, a token included"""
_MAX_BYTES: Final = 1_000_000


def apply(environment: MutableMapping[str, str]) -> None:
    """Add what the file says to what is not set. UsageError where there is something wrong with the file."""
    path = place(environment)
    if path is None:
        return
    for name, value in read(path).items():
        environment.setdefault(name, value)


def place(environment: Mapping[str, str]) -> Path | None:
    """The file, where there is one."""
    named = environment.get(FILE)
    if named:
        return Path(named).absolute()
    base = environment.get("XDG_CONFIG_HOME")
    home = environment.get("HOME")
    if not base and not home:
        return None
    if base:
        path = Path(base, "relight", "config.toml")
    elif sys.platform == "darwin":
        path = Path(home or "", "Library", "Application Support", "relight", "config.toml")
    else:
        path = Path(home or "", ".config", "relight", "config.toml")
    return path if os.path.exists(path) else None


@cache
def read(path: Path) -> dict[str, str]:
    """Names and values, as the environment would hold them."""
    import tomllib

    from relight.settings import SETTINGS

    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1)
    except OSError as error:
        hints = [f"make the file, or leave {FILE} unset"]
        raise UsageError(
            f"{path}: the settings cannot be read: {(error.strerror or '').lower()}", hints=hints
        ) from None
    if len(text) > _MAX_BYTES:
        raise UsageError(f"{path}: over {_MAX_BYTES:,} bytes; that is no file of settings")
    try:
        given = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        hints = ['a line is a name and a value: store = "postgresql://host/database"']
        raise UsageError(f"{path}: not TOML: {error}", hints=hints) from None
    names = [one.name for one in SETTINGS if one.for_people and may_stand(one.name)]
    known = {key_of(name): name for name in names}
    return {_known(path, key, known): _text(path, key, value) for key, value in given.items()}


def may_stand(name: str) -> bool:
    """May this setting be in the file?"""
    return name.startswith(OURS) and name not in NEVER


def key_of(name: str) -> str:
    """The name of a setting, as it stands in the file."""
    return name.removeprefix(OURS).lower()


def _known(path: Path, key: str, known: Mapping[str, str]) -> str:
    name = known.get(key)
    if name is None:
        from difflib import get_close_matches

        near = get_close_matches(key.removeprefix(OURS.lower()), known, n=1)
        hints = [f"did you mean: {near[0]}"] if near else ["the names: docs/reference/settings.md"]
        raise UsageError(f"{path}: there is no setting {key[:60]!a}", hints=hints)
    return name


def _text(path: Path, key: str, value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str | int | float) and "\0" not in str(value):
        return str(value)
    raise UsageError(f"{path}: {key} is a text, a number, true or false", hints=[f'{key} = "..."'])
