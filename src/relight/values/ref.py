"""References as users type them: a full id, an exact name, or an id prefix; then `@seq`, `@label` or nothing.

Ids are data, never paths: a text with other characters than the alphabets below is refused at once. Names of sessions
and labels of checkpoints may be in any script. They are compared in Unicode's composed form (NFC), so that a name typed
on another system is the same name; characters that are invisible, or that change the direction of text, are refused.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

import msgspec

from relight.errors import InvalidName, NotFound

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_MAX_NAME: Final = 100
_MAX_MARKS: Final = 4
"""combining marks in a row; more would be drawn over the lines above"""
_JOINERS: Final = "\u200c\u200d"
"""between letters: Persian and Indic scripts are not written without them"""
_SEQ: Final = re.compile(r"[0-9]{1,15}\Z")
NAME_RULE: Final = "1 to 100 of A-Z a-z 0-9 . _ - and the first a letter or digit"
SESSION_NAME_RULE: Final = "1 to 100 letters and digits of any script, . _ - and the first a letter or digit"
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
    session, at, tail = composed(text).partition("@")
    if not _is_name(session):
        raise NotFound(text[:100])
    if not at:
        return Ref(session=session)
    if _SEQ.match(tail):
        return Ref(session=session, seq=int(tail))
    if not _is_label(tail):
        raise NotFound(text[:100], what="checkpoint")
    return Ref(session=session, label=tail)


def is_session_id(text: str) -> bool:
    """Whether it has the form of a generated id: 32 hexadecimal characters."""
    return _ID.match(text) is not None


def composed(text: str) -> str:
    """The one form of a text that Unicode can spell in several ways; other values unchanged."""
    return text if not isinstance(text, str) or text.isascii() else unicodedata.normalize("NFC", text)


def check_session_name(name: str) -> str:
    """The name as it is stored: in any script, composed."""
    if not isinstance(name, str) or not _is_name(composed(name)):
        like = re.sub(r"[^\w.-]+", "-", composed(str(name))).strip("-._")
        hints = [f"a valid name like it: {like}"] if like and _is_name(like) else []
        raise InvalidName("session name", str(name), SESSION_NAME_RULE, hints=hints)
    return composed(name)


def check_name(name: str, what: str) -> str:
    """A valid name of a queue, a root, an attachment: it can be typed anywhere, and used in a URL and a file name."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise InvalidName(what, str(name), NAME_RULE)
    return name


def check_label(label: str) -> str:
    """The label of a checkpoint as it is stored: words like session names, and not all digits, which would be a seq."""
    if not isinstance(label, str) or not _is_label(composed(label)) or label.isdigit():
        raise InvalidName("label", str(label), SESSION_NAME_RULE + ", single spaces between, and not all digits")
    return composed(label)


def _is_label(text: str) -> bool:
    return len(text) <= _MAX_NAME and all(map(_is_name, text.split(" ")))


def _is_name(text: str) -> bool:
    if text.isascii():
        return _NAME.match(text) is not None
    kinds = [unicodedata.category(character)[0] for character in text]
    if len(text) > _MAX_NAME or kinds[0] not in "LN" or "M" * (_MAX_MARKS + 1) in "".join(kinds):
        return False
    return all(
        kind in "LMN" or character in "._-" or (character in _JOINERS and 0 < at < len(text) - 1)
        for at, (character, kind) in enumerate(zip(text, kinds, strict=True))
    )
