"""Secrets that something is called: `password=…`, `"api_key": "…"`, `--token …`, and JSON members of such names.

A password may look like anything, so its name alone decides, as long as the value is no placeholder and no piece of
a program. A token or a key must look the part too: `token: str` and `next_token = take()` are code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from relight.journal.secrets.spans import OPENING, Span
from relight.journal.secrets.typed import is_placeholder

NEEDS: Final = ("passw", "passphrase", "pwd", "secret", "token", "key", "credential", "cookie")
"""in lower case; one of them stands in the name of every assigned secret"""
_PASSWORDS: Final = frozenset({"passw", "passphrase", "pwd"})
_KEYS: Final = re.compile(
    r"(?i)(?:api|access|auth|private|signing|encryption|master|account|service|shared|secret)[_-]?$"
)
_GOES_ON: Final = re.compile(
    r"""[A-Za-z0-9_-]{0,40}(?P<quote>\\{0,4}["'])?\]?\s{0,3}(?:=>|:=|[=:]|(?P<flag>(?<=[a-z])[ ]))\s{0,3}"""
    r"""(?:(?P<open>\\{0,4}["'`])(?P<quoted>[^"'`\\\s]{4,256})["'`\\]|(?P<bare>[^\s"'`\\,;&<>()\[\]{}|]{4,256}))"""
)
_KEY: Final = re.compile(
    r"(?i)(?:password|passwd|passphrase|^pwd)$|(?:secret|(?:api|access|auth|private|signing|encryption|master|account)[_-]?key"
    r"|(?:access|auth|refresh|bearer|api|id|session|csrf|bot|personal)[_-]?token|^token|_token|credentials?"
    r"|authorization|^cookie|set-cookie)$"
)
_PASSWORD_KEY: Final = re.compile(r"(?i)passw(?:or)?d$|passphrase$|^pwd$")
_CODE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*[?!.]?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MIN_TOKEN: Final = 12
_SENTENCE: Final = re.compile(r"[a-z-]+[.!?:]?")


def spans(text: str, lower: str) -> Iterator[Span]:
    """What stands behind a telling name in this text."""
    for need in NEEDS:
        place = lower.find(need)
        while place >= 0:
            end = place + len(need)
            found = _GOES_ON.match(text, end)
            if (
                found is not None
                and (need != "key" or _KEYS.search(text, max(0, place - 12), place))
                and (span := _judged(text, place, need, found)) is not None
            ):
                yield span
            place = lower.find(need, end)


def _judged(text: str, place: int, need: str, found: re.Match[str]) -> Span | None:
    which = "quoted" if found["quoted"] is not None else "bare"
    value = found[which]
    is_option = found["flag"] is not None
    if is_option and not _is_option(text, place):
        return None
    if value.startswith(OPENING) or value.startswith(OPENING[1:]) or is_placeholder(value):
        return None
    if len(set(value)) < 3 or value.startswith(":") or _DATE.match(value) or need in value.lower():
        return None
    is_password = need in _PASSWORDS
    if is_option and _SENTENCE.fullmatch(value):
        return None
    if (
        which == "bare"
        and not is_option
        and not _is_bare_secret(text[place : found.start(which)], value, is_password=is_password)
    ):
        return None
    if not is_password and not looks_like_token(value):
        return None
    return found.start(which), found.end(which), "password" if is_password else need


def _is_option(text: str, place: int) -> bool:
    """`--password VALUE`: with a space between, only an option is an assignment."""
    word = text[max(0, place - 40) : place].split()[-1:] if not text[place - 1 : place].isspace() else []
    return bool(word) and word[0].startswith("--")


def _is_bare_secret(name: str, value: str, *, is_password: bool) -> bool:
    """Without quotes it may be a variable, a type or a word of a sentence. `NAME=value` and `--name value` assign,
    `name = value` is a program's."""
    assigns = name.endswith("=") and not name[-2].isspace()
    if assigns and name[:3].isupper():
        return True
    if _CODE.fullmatch(value) and not (any(one.isdigit() for one in value) and assigns and "." not in value):
        return False
    return not (is_password and _SENTENCE.fullmatch(value))


def looks_like_token(value: str) -> bool:
    """Long enough, of more than one class of characters, and not words joined by something."""
    if len(value) < _MIN_TOKEN:
        return False
    digits = sum(one.isdigit() for one in value)
    letters = sum(one.isalpha() for one in value)
    return digits >= 2 and letters >= 2 and len(set(value)) >= 6 and "/" not in value[:2]


@lru_cache(maxsize=2048)
def kind_of_key(key: str) -> str | None:
    """What a JSON member of this name holds: password, token, or nothing to hide."""
    if len(key) > 64 or not _KEY.search(key):
        return None
    return "password" if _PASSWORD_KEY.search(key) else "token"


def is_member_secret(kind: str, value: str) -> bool:
    """Whether a text is the secret that its key announces."""
    if not value or OPENING in value or is_placeholder(value):
        return False
    if kind == "password":
        return len(value) >= 4 and not any(one.isspace() for one in value) and value not in ("string", "null", "none")
    return looks_like_token(value) and not any(one.isspace() for one in value)
