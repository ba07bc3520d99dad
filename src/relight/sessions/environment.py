"""Environment variables of a session: values of `env`, names of secrets.

A value is stored with the session and set again by every start, on any machine. Of a secret only the name is stored:
its value comes from the environment of the process that starts the session, and is redacted wherever it appears.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from relight.errors import UsageError
from relight.journal.jsonable import check_text
from relight.journal.redaction.secrets.exact import secret_names
from relight.ports.runtime import SET_BY_US
from relight.sessions.context import Context

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_MAX: Final = 200
_MAX_BYTES: Final = 64 * 1024
"""of all values; they are part of the session row, which is read often"""


def checked_env(context: Context, given: Mapping[str, str | None] | None) -> dict[str, str]:
    """Variables to store with a session; None as a value means the value set here. UsageError for an invalid name, for
    a variable that is not set, or for a value that looks like a secret."""
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"env must be a mapping, not {type(given).__name__}")
    found: dict[str, str] = {}
    for name, value in (given or {}).items():
        _check_name(name)
        known = context.environment.get(name) if value is None else check_text(value, f"env.{name}")
        if known is None:
            raise UsageError(f"{name} is not set here", hints=[f"give its value: {name}=VALUE"])
        if "\0" in known:
            raise UsageError(f"the value of {name} contains a NUL byte")
        if secret_names({name: known}) or context.redactor().text(known) != known:
            hints = ["declare it as a secret instead: its value is then never stored, and every start must provide it"]
            raise UsageError(f"the value of {name} looks like a secret and would be stored", hints=hints)
        found[name] = known
    if len(found) > _MAX or sum(map(len, found.values())) > _MAX_BYTES:
        raise UsageError(f"at most {_MAX} variables of {_MAX_BYTES // 1024} kB in total can be stored with a session")
    return found


def checked_secrets(context: Context, given: Sequence[str] | None, *, here: bool) -> list[str]:
    """Names of secrets. `here`: the session starts on this machine, so they must be set."""
    if isinstance(given, str):
        raise UsageError("secrets is a list of names")
    names = list(dict.fromkeys(given or ()))
    for name in names:
        _check_name(name)
    unset = [name for name in names if not context.environment.get(name)]
    if here and unset:
        raise UsageError(f"not set here: {', '.join(unset)}", hints=["set them in the environment of this command"])
    if len(names) > _MAX:
        raise UsageError(f"at most {_MAX} secrets can be named")
    return names


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"invalid variable name {name!r}", hints=["letters, digits and _, for example MODE"])
    if name in SET_BY_US:
        raise UsageError(f"{name} is set by relight itself")
