"""What relight writes down, field by field: whose it is, and so whether it is redacted. Pure.

Every field of a stored value that can hold a text is declared here, once; numbers need not be:

    about   relight's own words about a session, or words that a person gave it to show: always redacted
    data    the program's: kept as it is, unless the session or its owner asks for redaction, or it is a coding agent's
    name    what it is found by, or started with: never changed; refused where it holds a secret
    plain   ids, words of ours, numbers, places on this machine: not touched
    inside  another declared value, or several

A field that is not declared fails a test, so that a new one cannot be forgotten. Messages without anything about them
cost a few attribute reads here: whoever asks does not even make a redactor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from relight.errors import UsageError
from relight.values.call import Intent, OpenEffect, Outcome
from relight.values.session import Head, Identity
from relight.values.status import Asking, Failure, StatusChange
from relight.values.step import AttemptStart, Carried, Changes

if TYPE_CHECKING:
    from relight.journal.redaction.redactor import Redactor

Kind = Literal["about", "data", "name", "plain", "inside", "asked"]
_T = TypeVar("_T", bound=msgspec.Struct)


def _fields(**kinds: str) -> dict[str, Kind]:
    return {name: kind for kind, names in kinds.items() for name in names.split()}  # type: ignore[misc]


DECLARED: Final[Mapping[type[msgspec.Struct], Mapping[str, Kind]]] = {
    Identity: _fields(
        name="name former_name key env",
        about="agent provider model models task labels metadata command unrecorded",
        plain="id parent directory runtime workspace pools snapshot policy secrets place stop_attempt redact"
        " spawned_by created_us",
    ),
    Head: _fields(
        about="reason question",
        inside="failure asking",
        data="said",
        plain="session seq head digest since message_count turns open status wake_us attempt resumed_from usage"
        " size_bytes native handle updated_us ended_us epoch lease place",
    ),
    Changes: _fields(
        about="note",
        inside="intents outcomes status attempt carried",
        asked="answer",
        data="messages state unset partial record",
        plain="usage snapshot tools used prompt stop native",
    ),
    StatusChange: _fields(about="reason question", inside="failure asking", data="result", plain="status wake_us"),
    Asking: _fields(about="choices", data="default", plain="kind key"),
    Failure: _fields(about="text fields", plain="kind"),
    AttemptStart: _fields(about="reason", plain="number resumed_from owner rung handle"),
    Intent: _fields(data="name arguments", plain="id effect asked_seq session hooked"),
    Outcome: _fields(data="content", plain="id asked_seq status synthetic carried_from"),
    OpenEffect: _fields(data="name", plain="id effect asked_seq intent_seq started_us"),
    Carried: _fields(
        about="reasons",
        inside="open asking",
        data="state once answers answered partial partials prompt",
        plain="asked generations tools prompts prompt_from prompt_given",
    ),
}


def redacted(record: _T, redactor: Callable[[], Redactor], *, data: bool = False) -> _T:
    """The value as it may be written; the same object where nothing is to be hidden. `data`: the program's own too."""
    changed: dict[str, Any] = {}
    for field, kind in DECLARED[type(record)].items():
        if kind in ("plain", "name") or (kind == "data" and not data):
            continue
        value = getattr(record, field)
        if not value:
            continue
        if kind == "inside":
            after = _inside(value, redactor, data)
        elif kind == "asked" and not data:
            after = _asked(value, redactor())
        else:
            after = value if type(value) is msgspec.Raw else redactor().value(value)
        if after is not value:
            changed[field] = after
    return msgspec.structs.replace(record, **changed) if changed else record


def _inside(value: Any, redactor: Callable[[], Redactor], data: bool) -> Any:
    if isinstance(value, msgspec.Struct):
        return redacted(value, redactor, data=data)
    after = [redacted(one, redactor, data=data) for one in value]
    return value if all(new is old for new, old in zip(after, value, strict=True)) else after


def refuse_secrets_in(identity: Identity, redactor: Callable[[], Redactor]) -> None:
    """UsageError where something that is kept as it is holds a secret."""
    refuse_secret(identity.name, "the name", redactor)
    refuse_secret(identity.key, "the key", redactor)
    for name, value in identity.env.items():
        if redactor().text(said := f"{name}={value}") != said:
            raise UsageError(
                f"the value of the variable {name} looks like a secret, and would be recorded; nothing was written",
                hints=[f"let it come from the environment, and record its name alone: relight run --secret {name}"],
            )


def _asked(answer: Any, redactor: Redactor) -> Any:
    """Question, answer, key, reason: the answer is the program's, and the key is what it is found by."""
    after = [redactor.value(one) if place in (0, 3) else one for place, one in enumerate(answer)]
    return answer if all(new is old for new, old in zip(after, answer, strict=True)) else after


def refuse_secret(text: str | None, what: str, redactor: Callable[[], Redactor]) -> None:
    """A name is shown in lists, addresses and logs, and cannot be redacted, because it is found by it: UsageError."""
    if text is not None and (kind := redactor().secret_in(text)) is not None:
        raise UsageError(
            f"{what} holds a secret ({kind}), and is shown wherever the session is; nothing was written",
            hints=["choose another one, without the secret in it"],
        )
