"""Checks for what a program passes in (messages, usage, reasons, replies), before it is committed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec

from relight.errors import InvalidMessage, UsageError
from relight.journal.codec import isolated
from relight.journal.conversation.model_replies import parse_reply
from relight.journal.conversation.provider_responses import is_sdk_object, plain
from relight.journal.fold import Fold
from relight.journal.jsonable import check_text
from relight.values.status import bounded_text
from relight.values.usage import Usage, unknown_members, usage_from


class SdkObject(Protocol):
    """An object of a provider's SDK, or any other that pydantic can dump."""

    def model_dump(self) -> Any:
        """Its data."""


class Reply(msgspec.Struct, frozen=True):
    """What a model function may return if a message alone does not say what it cost."""

    messages: Mapping[str, Any] | Sequence[Any] | SdkObject
    """the message, or the items of the reply: dicts, or objects of an SDK"""
    usage: Usage | Mapping[str, Any] | SdkObject | None = None
    """the provider's own mapping, or its SDK's object"""
    stop_reason: str | None = None
    """why the model stopped, as the provider names it: `stop_reason`, `finish_reason`, `status`"""


def a_message(value: Any) -> dict[str, Any]:
    """A copy of the message that no caller shares, with blocks of an SDK in it as data. InvalidMessage if it is not
    JSON."""
    if not isinstance(value, dict):
        hints = ["pass what the provider's SDK returned, or its message as a dict"]
        raise UsageError(f"a message must be a dict, not {type(value).__name__}", hints=hints)
    try:
        return isolated(value)
    except InvalidMessage:
        # Objects of an SDK are looked for only now: nearly every message is JSON, and every step would ask.
        content = value.get("content")
        if not isinstance(content, list) or not any(map(is_sdk_object, content)):
            raise
    return isolated(cast(dict[str, Any], plain(value)))


def appended(message: Any, usage: Any, fold: Fold) -> tuple[Sequence[Any], Any, str | None, str | None]:
    """What is appended, with its usage, stop reason and model: dicts as they are, an SDK's reply taken apart."""
    if type(message) is dict:
        return [message], usage, None, None
    given = message if isinstance(message, list | tuple) else [message]
    if not any(map(is_sdk_object, given)):
        return given, usage, None, None
    reply = parse_reply(message, known=fold.recognised, default=fold.format)
    return reply.messages, usage if usage is not None else reply.usage, reply.stop, reply.model


def spent_of(usage: Usage | Mapping[str, Any] | SdkObject | None) -> Usage | None:
    """The usage of a reply. Unknown members beside known ones only cause a warning: a provider may add one at any
    time, and a reply that has been paid for must not be lost because of it."""
    spent = usage_from(usage)
    strange = unknown_members(usage) if isinstance(usage, Mapping) else []
    if strange:
        warnings.warn(f"relight: usage has members that are not counted: {', '.join(strange)}", stacklevel=6)
    return spent


def reason_of(text: str) -> str:
    """A reason as it is stored: checked, and cut at its bound."""
    return bounded_text(check_text(text, "the reason"))
