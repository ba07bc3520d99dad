"""Options given when a session is opened again: taken and noted, or refused; never ignored.

What says how to go on (model, provider, task, labels, metadata, workspace, snapshot) is taken from the next step on.
What says which session it is (key, agent) must agree: another one there means that the name belongs to somebody else's
work. They are recorded after the claim, so that whoever is refused the session changes nothing about it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from relight.errors import Conflict, NotFound
from relight.files import capture
from relight.history.loading import Found, readable_head
from relight.sessions.context import Context
from relight.values.session import Identity

_IDENTIFYING: Final = ("agent", "key")
_MERGED: Final = ("labels", "metadata")


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A session as the options make it, and what they change about it."""

    found: Found
    before: Identity | None
    """as it was recorded; None where a supervisor has looked at its workspace already"""
    changed: dict[str, Any]
    note: dict[str, Any] | None


def take(
    context: Context,
    found: Found,
    fields: Mapping[str, Any],
    workspace: str | os.PathLike[str] | Mapping[str, str] | None,
    snapshot: str | float | None,
    *,
    handed: bool,
) -> Taken:
    """Decide about the options of `rl.session`; nothing is written yet."""
    before = found.identity
    changed = options_taken(before, fields, seq=readable_head(context.store, found).seq, handed=handed)
    wanted = capture.fitted(context, with_options(before, changed), workspace, snapshot)
    changed |= capture.placement_changes(before, wanted)
    made = Found(identity=wanted, head=found.head, seq=found.seq)
    looked_at = None if handed else before
    return Taken(found=made, before=looked_at, changed=changed, note=note_of(before, changed))


def record(context: Context, taken: Taken | None) -> None:
    """Write down what was taken; nothing for a new session."""
    if taken is not None:
        record_options(context, taken.found.identity.id, taken.changed)


def options_taken(identity: Identity, fields: Mapping[str, Any], *, seq: int, handed: bool = False) -> dict[str, Any]:
    """The fields of the identity that these options change, with their new values; Conflict where one must not.

    `handed`: a supervisor or a framework found the session for this program, which knows better what it is.
    """
    changed: dict[str, Any] = {}
    for what, given in fields.items():
        before = getattr(identity, what)
        wanted = {**before, **given} if what in _MERGED else given
        if wanted == before:
            continue
        if what in _IDENTIFYING and before is not None and not handed:
            raise _another(identity, what, before, wanted)
        changed[what] = wanted
    if "model" in changed:
        changed["models"] = identity.with_model(changed["model"], after=seq).models
    return changed


def with_options(identity: Identity, changed: Mapping[str, Any]) -> Identity:
    """The same with what was taken."""
    return msgspec.structs.replace(identity, **changed)


def record_options(context: Context, session: str, changed: Mapping[str, Any]) -> None:
    """Write them down, whatever else has changed about the session meanwhile."""
    if not changed:
        return
    record = context.store.find(session)
    if record is None:
        raise NotFound(session)
    context.store.update(with_options(record.identity, changed))


def note_of(identity: Identity, changed: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the attempt's step says about them: names, and of the model the words."""
    names = sorted(what for what in changed if what not in ("models", "pools", "model"))
    if "model" in changed:
        names.insert(0, f"model {identity.model or 'unknown'} -> {changed['model']}")
    return {"options": ", ".join(names)} if names else None


def _another(identity: Identity, what: str, before: Any, given: Any) -> Conflict:
    name = identity.name or identity.id
    hints = [
        "begin a new session under this name: rl.session(..., resume=False)",
        "or give this one another name",
    ]
    return Conflict(f"{name}: its {what} is {before!a}, not {given!a}: it is another session", hints=hints)
