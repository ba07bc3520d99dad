"""Checks for what a program passes in (messages, usage, reasons, replies), before it is committed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import msgspec

from relight.errors import UsageError
from relight.journal.jsonable import check_text
from relight.values.status import bounded_text
from relight.values.usage import Usage, unknown_members, usage_from


class Reply(msgspec.Struct, frozen=True):
    """What a model function may return if a message alone does not say what it cost."""

    messages: dict[str, Any] | list[dict[str, Any]]
    usage: Usage | Mapping[str, Any] | None = None
    """the provider's own mapping, or its SDK's object"""
    stop_reason: str | None = None
    """why the model stopped, as the provider names it: `stop_reason`, `finish_reason`, `status`"""


def a_message(value: Any) -> dict[str, Any]:
    """The value if it is a dict; its content is checked when it is encoded."""
    if isinstance(value, dict):
        return value
    hints = ["pass the provider's own dict: message.model_dump(mode='json', exclude_unset=True)"]
    raise UsageError(f"a message must be a dict, not {type(value).__name__}", hints=hints)


def spent_of(usage: Usage | Mapping[str, Any] | None) -> Usage | None:
    """The usage of a reply. Unknown members beside known ones only cause a warning: a provider may add one at any
    time, and a reply that has been paid for must not be lost because of it."""
    spent = usage_from(usage)
    strange = unknown_members(usage) if isinstance(usage, Mapping) else []
    if strange:
        warnings.warn(f"relight: usage has members that are not counted: {', '.join(strange)}", stacklevel=4)
    return spent


def reason_of(text: str) -> str:
    """A reason as it is stored: checked, and cut at its bound."""
    return bounded_text(check_text(text, "the reason"))
