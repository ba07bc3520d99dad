"""Environment variables that are part of how a session is started: values of `env`, names of secrets.

A value is kept with the session and set again by every start, whoever starts it and wherever. A secret is a name: its
value comes from the environment of whoever starts the session, is never stored, and is redacted wherever it shows.
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
"""of all values together; they are part of a row that is read often"""


def checked_env(context: Context, given: Mapping[str, str | None] | None) -> dict[str, str]:
    """Variables to keep with a session; None as a value: as it is here. UsageError for one that is no variable, is not
    set, or looks like a secret."""
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"env is a mapping, not {type(given).__name__}")
    found: dict[str, str] = {}
    for name, value in (given or {}).items():
        _check_name(name)
        known = context.environment.get(name) if value is None else check_text(value, f"env.{name}")
        if known is None:
            raise UsageError(f"{name} is not set here", hints=[f"give its value: {name}=VALUE"])
        if "\0" in known:
            raise UsageError(f"the value of {name} has a zero byte in it")
        if secret_names({name: known}) or context.redactor().text(known) != known:
            hints = ["name it as a secret instead: then its value is never stored, and a resume asks for it"]
            raise UsageError(f"the value of {name} looks like a secret, and this one would be stored", hints=hints)
        found[name] = known
    if len(found) > _MAX or sum(map(len, found.values())) > _MAX_BYTES:
        raise UsageError(f"at most {_MAX} variables with {_MAX_BYTES // 1024} kB are kept with a session")
    return found


def checked_secrets(context: Context, given: Sequence[str] | None, *, here: bool) -> list[str]:
    """Names of secrets. `here`: it is started on this machine, so they have to be set."""
    if isinstance(given, str):
        raise UsageError("secrets is a list of names")
    names = list(dict.fromkeys(given or ()))
    for name in names:
        _check_name(name)
    unset = [name for name in names if not context.environment.get(name)]
    if here and unset:
        raise UsageError(f"not set here: {', '.join(unset)}", hints=["set them where it is started"])
    if len(names) > _MAX:
        raise UsageError(f"at most {_MAX} secrets are named")
    return names


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{name!a} is no name of a variable", hints=["letters, digits and _, for example MODE"])
    if name in SET_BY_US:
        raise UsageError(f"{name} is set by relight itself")
