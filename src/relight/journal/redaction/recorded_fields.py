"""Which stored fields are redacted: every field that can hold text is declared here once; numbers need not be.

    about   relight's own text about a session, or text that a person gave it to display: always redacted
    data    the program's: stored as it is, unless redaction was requested, or it is a coding agent's
    name    identifies or starts the session: never changed; refused if it holds a secret
    plain   ids, fixed words, numbers, paths on this machine: not touched
    inside  another declared value, or several

An undeclared field fails a test, so that a new one cannot be forgotten. A change with messages only costs a few
attribute reads here: the redactor is not even created.
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
        about="agent provider model models task labels metadata command commands unrecorded",
        plain="id parent directory runtime workspace pools snapshot policy secrets queue_position stop_attempt redact"
        " spawned_by subagent created_us away windows",
    ),
    Head: _fields(
        about="reason question",
        inside="failure asking",
        data="said",
        plain="session seq head digest since message_count turns open status wake_us attempt resumed_from usage"
        " size_bytes native handle updated_us ended_us epoch lease queue_position",
    ),
    Changes: _fields(
        about="note",
        inside="intents outcomes status attempt carried",
        asked="answer",
        data="messages state unset partial stream record",
        plain="usage snapshot tools used prompt stop native children",
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
        plain="asked generations tools prompts prompt_from prompt_given children",
    ),
}


def _redactable(kinds: Mapping[str, Kind], *, data: bool) -> tuple[tuple[str, Kind], ...]:
    skipped = ("plain", "name") if data else ("plain", "name", "data")
    return tuple((field, kind) for field, kind in kinds.items() if kind not in skipped)


_REDACTABLE: Final = {
    (record, data): _redactable(kinds, data=data) for record, kinds in DECLARED.items() for data in (False, True)
}
"""fields to look at, by type and whether the program's own data is redacted; decided once, not for each step"""


def redacted(record: _T, redactor: Callable[[], Redactor], *, data: bool = False) -> _T:
    """The value as it may be written; the same object if there is nothing to hide. `data`: the program's own data
    too."""
    changed: dict[str, Any] = {}
    for field, kind in _REDACTABLE[type(record), data]:
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


def is_data_alone(changes: Changes) -> bool:
    """Whether a step has none of the fields that are always redacted: nearly every one, so this asks by name."""
    return not (
        changes.note
        or changes.intents
        or changes.outcomes
        or changes.status
        or changes.attempt
        or changes.carried
        or changes.answer
    )


def _inside(value: Any, redactor: Callable[[], Redactor], data: bool) -> Any:
    if isinstance(value, msgspec.Struct):
        return redacted(value, redactor, data=data)
    after = [redacted(one, redactor, data=data) for one in value]
    return value if all(new is old for new, old in zip(after, value, strict=True)) else after


def refuse_secrets_in(identity: Identity, redactor: Callable[[], Redactor]) -> None:
    """UsageError if a field that is never redacted holds a secret."""
    refuse_secret(identity.name, "the name", redactor)
    refuse_secret(identity.key, "the key", redactor)
    for name, value in identity.env.items():
        if redactor().text(said := f"{name}={value}") != said:
            raise UsageError(
                f"the value of the variable {name} looks like a secret, and would be recorded; nothing was written",
                hints=[f"let it come from the environment, and record its name alone: relight run --secret {name}"],
            )


def _asked(answer: Any, redactor: Redactor) -> Any:
    """Question, answer, key, reason: the answer is the program's data, and the key identifies it."""
    after = [redactor.value(one) if index in (0, 3) else one for index, one in enumerate(answer)]
    return answer if all(new is old for new, old in zip(after, answer, strict=True)) else after


def refuse_secret(text: str | None, what: str, redactor: Callable[[], Redactor]) -> None:
    """UsageError for a secret in a name: names appear in lists, URLs and logs, and cannot be redacted, because they
    identify."""
    if text is not None and (kind := redactor().secret_in(text)) is not None:
        raise UsageError(
            f"{what} holds a secret ({kind}), and is shown wherever it is used; nothing was written",
            hints=["choose another one, without the secret in it"],
        )
