"""Structs of a confirmation dialog: what would happen, what a person fills in, and which API call does it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from relight.errors import Corrupt
from relight.text import format as words
from relight.values.call import PlannedCall
from relight.values.info import SessionInfo

if TYPE_CHECKING:
    from relight.library.facade import Relight


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One radio button or checkbox."""

    value: str
    label: str
    note: str = ""
    on: bool = False
    risky: bool = False
    """choosing it overwrites a change that was made outside the session"""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a dialog; its name is the member of the request body."""

    kind: Literal["line", "number", "text", "radio", "box", "boxes"]
    name: str
    label: str
    options: list[Option] = []
    required: bool = False
    hint: str = ""
    value: str = ""
    on: bool = False
    """a checkbox that is checked at first"""
    unless: str = ""
    """name of a checkbox; while it is checked this field is neither shown nor sent"""
    when: tuple[str, ...] = ()
    """values of `scope` for which this field is shown and sent; empty: always"""


class Dialog(msgspec.Struct, frozen=True, kw_only=True):
    """The confirmation of one action."""

    title: str
    confirm: str
    plain: str = ""
    """label of the button while the box `resume` is not checked"""
    happens: str
    kept: str
    back: str
    command: str
    path: str
    """of the API route; empty: only the command can do it"""
    method: Literal["POST", "DELETE"] = "POST"
    plan: str = ""
    """plan hash of the session as displayed, sent as If-Match"""
    body: dict[str, Any] = {}
    fields: list[Field] = []
    lines: list[tuple[str, str, str]] = []
    evidence: list[str] = []
    exact: str = ""
    """text to display verbatim"""
    typed: str = ""
    """text that must be typed to confirm"""
    danger: bool = False
    why_not: str = ""
    undo: str = ""
    """API path that undoes it, offered in the notification afterwards"""
    download: str = ""
    """address of a file that the dialog offers instead of an action"""
    done: str = ""
    """text of the notification afterwards"""
    goes: str = ""
    """page to open afterwards; `{id}` is the session in the response"""


class DialogContext(msgspec.Struct, frozen=True, kw_only=True):
    """The session or checkpoint that a dialog is about."""

    rl: Any
    info: SessionInfo
    seq: int | None
    """of the checkpoint; None: the session itself"""
    given: Mapping[str, str]
    now: datetime

    @property
    def name(self) -> str:
        return words.title(self.info)

    @property
    def ref(self) -> str:
        """Ref for the command line."""
        at = f"@{self.seq}" if self.seq is not None else ""
        return f"{words.ref(self.info)}{at}"

    @property
    def api(self) -> str:
        """Path of the session or checkpoint in the API, by full id."""
        at = f"@{self.seq}" if self.seq is not None else ""
        return f"/api/sessions/{self.info.id}{at}"

    @property
    def plan(self) -> str:
        """The plan hash of the session or checkpoint now."""
        at = f"@{self.seq}" if self.seq is not None else ""
        hashed: str = self.rl.runs.plan_hash(f"{self.info.id}{at}")
        return hashed


def open_calls(rl: Relight, ref: str, after: Literal["rewind", "fork"]) -> list[PlannedCall]:
    """The planned calls; empty if a newer step is damaged, which the page reports elsewhere."""
    try:
        return rl.history.planned_calls(ref, after=after)
    except Corrupt:
        return []


def call_rows(calls: list[PlannedCall]) -> list[tuple[str, str, str]]:
    """Planned calls as lines of a dialog: (name, text, role)."""
    return [("calls" if number == 0 else "", one, "warn") for number, one in enumerate(words.planned_calls(calls))]


def again_fields(calls: list[PlannedCall]) -> list[Field]:
    """Checkboxes to let calls run again that otherwise would not; no field if there are none."""
    options = [
        Option(value=one.key, label=f"{one.name} ({one.id})", note=one.text)
        for one in calls
        if one.action not in ("run", "run_again")
    ]
    label, when = "Let run again, under a new key", ("conversation", "both")
    return [Field(kind="boxes", name="again", label=label, options=options, when=when)] if options else []
