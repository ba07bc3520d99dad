"""The secrets in this process's environment, and a redactor for them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relight.journal.redaction.redactor import Redactor


@cache
def redactor() -> Redactor:
    """A redactor for the secrets in this process's environment; cached."""
    from relight.journal.redaction.redactor import Redactor

    return Redactor(secrets_of(os.environ))


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables with secret values: those with telling names, and those that RELIGHT_SECRETS lists."""
    from relight.journal.redaction.redactor import secret_names

    declared = [name for name in environment.get("RELIGHT_SECRETS", "").split(",") if name in environment]
    return {name: environment[name] for name in (*secret_names(environment), *declared)}
