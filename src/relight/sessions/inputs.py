"""What a program hands over (messages, usage, reasons, a model's reply), checked before it is committed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import msgspec

from relight.errors import UsageError
from relight.journal.jsonable import check_text
from relight.values.status import kept_text
from relight.values.usage import Usage, unknown_members, usage_from


class Reply(msgspec.Struct, frozen=True):
    """What a model function may return where a message alone does not say what it cost."""

    messages: dict[str, Any] | list[dict[str, Any]]
    usage: Usage | Mapping[str, Any] | None = None
    """as the provider spells it, or its SDK's own object"""
    stop_reason: str | None = None
    """why the model stopped, in the provider's word: `stop_reason`, `finish_reason`, `status`"""


def a_message(value: Any) -> dict[str, Any]:
    """The value where it is a dict; its content is checked when it is encoded."""
    if isinstance(value, dict):
        return value
    hints = ["pass the provider's own dict: message.model_dump(mode='json', exclude_unset=True)"]
    raise UsageError(f"a message is a dict, not {type(value).__name__}", hints=hints)


def spent_of(usage: Usage | Mapping[str, Any] | None) -> Usage | None:
    """What a reply cost. A number that nobody knows beside known ones is warned of: a provider may add one any day,
    and a reply that is paid for is not thrown away for it."""
    spent = usage_from(usage)
    strange = unknown_members(usage) if isinstance(usage, Mapping) else []
    if strange:
        warnings.warn(f"relight: usage has members that are not counted: {', '.join(strange)}", stacklevel=4)
    return spent


def reason_of(text: str) -> str:
    """Why it ended, as it is stored: whole, within its bound."""
    return kept_text(check_text(text, "the reason"))
