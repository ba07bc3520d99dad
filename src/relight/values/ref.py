"""References as users type them: a full id, an exact name, or an id prefix; then `@seq`, `@label` or nothing.

Ids are data, never paths: a text with other characters than the alphabets below is refused at once.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from relight.errors import InvalidName, NotFound

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_SEQ: Final = re.compile(r"[0-9]{1,15}\Z")
NAME_RULE: Final = "1 to 100 of A-Z a-z 0-9 . _ - and the first a letter or digit"
PREFIX_MIN: Final = 4
OPENING_PREFIX_MIN: Final = 8
"""length of an id prefix that opens a session; a shorter text is more likely a new name"""
_ID: Final = re.compile(r"[0-9a-f]{32}\Z")


class Ref(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed reference."""

    session: str
    seq: int | None = None
    label: str | None = None

    def __str__(self) -> str:
        tail = self.seq if self.seq is not None else self.label
        return self.session if tail is None else f"{self.session}@{tail}"


def parse_ref(text: str) -> Ref:
    """Parse a reference. A text that cannot be a reference is NotFound, so that hostile ids are simply unknown."""
    if not isinstance(text, str):
        raise NotFound(repr(text)[:100])
    session, at, tail = text.partition("@")
    if not _SESSION.match(session):
        raise NotFound(text[:100])
    if not at:
        return Ref(session=session)
    if _SEQ.match(tail):
        return Ref(session=session, seq=int(tail))
    if not _NAME.match(tail):
        raise NotFound(text[:100], what="checkpoint")
    return Ref(session=session, label=tail)


def is_session_id(text: str) -> bool:
    """Whether it has the form of a generated id: 32 hexadecimal characters."""
    return _ID.match(text) is not None


def check_name(name: str, what: str = "session name") -> str:
    """A valid name: it can be typed, printed and used in a URL."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidName(what, str(name), NAME_RULE)
    return name


def check_label(label: str) -> str:
    """A valid checkpoint label: like a name, but not all digits, which would be a seq."""
    if not isinstance(label, str) or not _NAME.match(label) or label.isdigit():
        raise InvalidName("label", str(label), NAME_RULE + ", and not all digits")
    return label
