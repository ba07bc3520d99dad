"""Options given when an existing session is opened: applied and noted, or refused; never ignored.

Options that say how to continue (model, provider, task, labels, metadata, workspace, snapshot) apply from the next step
on. Options that identify the session (key, agent) must agree: a different value means that the name belongs to other
work. They are recorded after the claim, so that a process that is refused the session changes nothing about it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from relight.errors import Conflict
from relight.history.loading import Found, readable_head
from relight.sessions.context import Context
from relight.system.lazy_module import LazyModule
from relight.values.session import Identity

if TYPE_CHECKING:
    from relight.files import capture
else:
    capture = LazyModule("relight.files.capture")

_IDENTIFYING: Final = ("agent", "key")
_MERGED: Final = ("labels", "metadata")


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """A session with the options applied, and what they change."""

    found: Found
    before: Identity | None
    """as it was recorded; None if a supervisor has already checked its workspace"""
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
    wanted = with_options(before, changed)
    if workspace is not None or snapshot is not None:
        wanted = capture.fitted(context, wanted, workspace, snapshot)
        changed |= capture.workspace_changes(before, wanted)
    made = Found(identity=wanted, head=found.head, seq=found.seq)
    looked_at = None if handed else before
    return Taken(found=made, before=looked_at, changed=changed, note=note_of(before, changed))


def options_taken(identity: Identity, fields: Mapping[str, Any], *, seq: int, handed: bool = False) -> dict[str, Any]:
    """The identity fields that these options change, with their new values; Conflict for one that must not change.

    `handed`: a supervisor or a framework found the session for this program, so identifying options may differ.
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
    """The identity with these changes."""
    return msgspec.structs.replace(identity, **changed)


def record_options(context: Context, session: str, changed: Mapping[str, Any]) -> None:
    """Write the changes onto the identity as it is stored now, which may have changed meanwhile."""
    if changed:
        context.store.update(session, lambda now: with_options(now, changed))


def note_of(identity: Identity, changed: Mapping[str, Any]) -> dict[str, Any] | None:
    """The note for the attempt's step: names of the changed options, and for the model both values."""
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
    return Conflict(f"{name}: its {what} is {before!r}, not {given!r}: it is another session", hints=hints)
