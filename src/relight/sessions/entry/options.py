"""The options that a program opens a session with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypedDict


class SessionOptions(TypedDict, total=False):
    """What a session is opened with; for an existing one it says how it continues."""

    agent: str | None
    provider: str | None
    model: str | None
    task: str | None
    key: str | None
    labels: Mapping[str, str] | None
    metadata: Mapping[str, Any] | None
    workspace: str | os.PathLike[str] | Mapping[str, str] | None
    snapshot: str | float | None
    lease_seconds: float | None
    budget: float | None
    budget_tokens: int | None
    time_limit: float | None
    redact: bool | None


def refuse_unknown(options: Mapping[str, object], verb: str) -> None:
    """TypeError for an option that is none, as for the argument of any function."""
    for unknown in options.keys() - SessionOptions.__annotations__.keys():
        raise TypeError(f"{verb}() got an unexpected keyword argument {unknown!r}")
