"""What a dialog is: a value that says what would happen, what is asked, and which call of the API does it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from relight.text import format as words
from relight.values.info import SessionInfo


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """A choice, or a box."""

    value: str
    label: str
    note: str = ""
    on: bool = False
    risky: bool = False
    """taking it in overrules somebody"""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person fills in; its name is the key in what is sent."""

    kind: Literal["line", "number", "text", "radio", "box", "boxes"]
    name: str
    label: str
    options: list[Option] = []
    required: bool = False
    hint: str = ""
    value: str = ""
    unless: str = ""
    """a box; where it is ticked this is neither asked nor sent"""
    when: tuple[str, ...] = ()
    """values of `scope` for which this is asked and sent; empty: always"""


class Dialog(msgspec.Struct, frozen=True, kw_only=True):
    """One question before one action."""

    title: str
    confirm: str
    happens: str
    kept: str
    back: str
    command: str
    path: str
    """of the API; empty: there is nothing to send, the command does it"""
    method: Literal["POST", "DELETE"] = "POST"
    plan: str = ""
    """the hash of what is shown here"""
    body: dict[str, Any] = {}
    fields: list[Field] = []
    lines: list[tuple[str, str, str]] = []
    evidence: list[str] = []
    exact: str = ""
    """shown whole, unwrapped"""
    typed: str = ""
    """to be typed before it can be done"""
    danger: bool = False
    why_not: str = ""
    undo: str = ""
    """the address that takes it back, for the word after it"""
    done: str = ""
    """what is said afterwards"""
    goes: str = ""
    """where to go afterwards; `{id}` is the session in the answer"""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Whose dialog it is."""

    rl: Any
    info: SessionInfo
    seq: int | None
    """of a checkpoint; None for the session"""
    given: Mapping[str, str]
    now: datetime

    @property
    def name(self) -> str:
        """As people call it."""
        return words.title(self.info)

    @property
    def ref(self) -> str:
        """What one types for it."""
        at = f"@{self.seq}" if self.seq is not None else ""
        return f"{words.ref(self.info)}{at}"

    @property
    def api(self) -> str:
        """Its address in the API, by the full id."""
        at = f"@{self.seq}" if self.seq is not None else ""
        return f"/api/sessions/{self.info.id}{at}"

    @property
    def plan(self) -> str:
        """The hash of its state now."""
        at = f"@{self.seq}" if self.seq is not None else ""
        hashed: str = self.rl.plan_hash(f"{self.info.id}{at}")
        return hashed
