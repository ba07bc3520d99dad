"""Secrets with a known value: environment variables whose names say so, in every form they appear in.

A value is searched for as it is, in base64 (also inside a longer text: a basic-auth header holds `user:value`), in
hexadecimal, percent-encoded, and JSON-escaped at any nesting.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from json import dumps
from typing import Final

from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.spans import OPENING, mark

MIN_CHARS: Final = 8
"""a shorter value occurs in too many harmless texts"""
_MIN_ENCODED: Final = 12
_ESCAPED: Final = 4
"""nesting of JSON escapes: JSON in the arguments of a call in a transcript line"""
_ANYWHERE: Final = ("SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY")
_LAST: Final = frozenset({"KEY", "TOKEN", "PWD", "PW", "PAT", "PASS", "AUTH", "DSN", "JWT", "COOKIE"})
_DATABASES: Final = ("DATABASE", "DB", "REDIS", "AMQP", "POSTGRES")
_HARMLESS_LAST: Final = frozenset({"FILE", "PATH", "DIR", "SOCK", "HOME", "TYPE", "NAME", "LIMIT", "COUNT"})
_PATH: Final = lazy_pattern(r"(?:/|~/|\.{1,2}/)[\w.@ -]+(?:/[\w.@ -]+)*/?")
_PLAIN: Final = lazy_pattern(r"(?i)true|false|none|null|[a-z]+|[0-9]{1,11}")
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~")


def secret_names(environment: Mapping[str, str]) -> list[str]:
    """The variables that look like secrets, sorted: by their name, and by a value that can be one."""
    return sorted(name for name, value in environment.items() if _names_secret(name.upper()) and can_be_secret(value))


def _names_secret(name: str) -> bool:
    """Whether a variable of this name, in capitals, holds a secret. Without a regular expression: to compile one for it
    took a tenth of the time from the start of a process to its first step."""
    *before, last = name.split("_")
    if name in ("PWD", "OLDPWD") or "PUBLIC_KEY" in name or (before and last in _HARMLESS_LAST):
        return False
    if last in _LAST or name.startswith("PGPASS") or any(word in name for word in _ANYWHERE):
        return True
    if len(before) > 1 and before[-1] in ("KEY", "TOKEN") and last.isascii() and last.isalnum():
        return True
    stem = "_".join(before)
    return last in ("URL", "URI") and ("MONGO" in stem or stem.endswith(_DATABASES))


def can_be_secret(value: str) -> bool:
    """Long enough, and neither a plain word nor a path, which also occur in harmless texts."""
    return len(value.strip()) >= MIN_CHARS and not _PLAIN.fullmatch(value) and not _PATH.fullmatch(value)


class ExactValues:
    """Known values, longest form first, so that a value inside another does not break it."""

    def __init__(self, secrets: Mapping[str, str], marks: str) -> None:
        """`marks` are all replacement texts: a value contained in one would be found again for ever."""
        forms: dict[str, str] = {}
        for name, value in sorted(secrets.items()):
            if can_be_secret(value):
                for form in _forms(value.strip()):
                    if form not in marks and OPENING not in form:
                        forms.setdefault(form, name)
        self._forms = tuple(sorted(forms.items(), key=lambda one: (-len(one[0]), one[0])))

    @property
    def values(self) -> frozenset[str]:
        """All forms that are searched for."""
        return frozenset(form for form, _ in self._forms)

    def without(self, text: str) -> str:
        """The text with all of them replaced; the same object if there are none."""
        for form, name in self._forms:
            if form in text:
                text = text.replace(form, mark(name))
        return text


def _forms(value: str) -> Iterator[str]:
    data = value.encode("utf-8", "surrogatepass")
    yield value
    percent = "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in data)
    yield from (percent, percent.replace("%20", "+"), _lower_percents(percent))
    for ascii_only in (True, False):
        escaped = value
        for _ in range(_ESCAPED):
            escaped = dumps(escaped, ensure_ascii=ascii_only)[1:-1]
            yield escaped
    yield from (data.hex(), data.hex().upper())
    for shift in range(3):
        # What does not depend on the bytes around it; of a value that begins the encoded text, all but its end.
        text = b64encode(b"\0" * shift + data).decode("ascii")
        core = text[-(-shift * 4 // 3) : (shift + len(data)) * 8 // 6]
        if len(core) >= _MIN_ENCODED:
            yield from (core, core.replace("+", "-").replace("/", "_"))


def _lower_percents(text: str) -> str:
    return re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), text)
