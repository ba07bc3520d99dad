"""Secrets of a recognisable type: tokens of well-known services, PEM keys, headers, URLs with a password.

Each rule names texts that must occur in whatever it can find, and most match only words of some length. Searching for
those texts in the long words first makes a clean text cheap. Every pattern is bounded, so that no input makes it slow,
and compiled on first use, because most are never needed.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec

from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.services import PLACED, SERVICES
from relight.journal.redaction.secrets.spans import OPENING, Span


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One type of secret: texts that must occur, and a pattern."""

    name: str
    needs: tuple[str, ...]
    """every text with such a secret contains one of these; lower case if `any_case`"""
    source: str
    any_case: bool = False
    """also: what it finds need not be one long word"""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern; group 1 is the secret."""
        return _compiled(self.source, self.any_case)


@cache
def _compiled(source: str, any_case: bool) -> re.Pattern[str]:
    return re.compile(source, re.ASCII | (re.IGNORECASE if any_case else 0))


_START: Final = r"(?<![A-Za-z0-9])"

RULES: Final = (
    *(Rule(name=name, needs=tuple(needs.split()), source=f"{_START}({one})") for name, needs, one in SERVICES),
    *(Rule(name=name, needs=_needs, source=one, any_case=True)
      for name, needs, one in PLACED for _needs in [tuple(needs.split()) if needs != "bearer " else ("bearer ",)]),
)  # fmt: skip

_MIN_WORD: Final = 20
_ANYWHERE: Final = tuple(rule for rule in RULES if rule.any_case)
_IN_WORDS: Final = tuple(rule for rule in RULES if not rule.any_case)

_PLACEHOLDER: Final = lazy_pattern(
    r"[$<{*]|%(?![0-9A-Fa-f]{2})|x{3,}$|\.{3}|[A-Z_]{3,40}$|(?i:password|passwd|pass|pw|secret|token|changeme|example"
    r"|your[-_ ].*|my[-_](?:secret|token|password)|none|null|true|false|undefined|string|redacted|placeholder"
    r"|dummy|test|foo|bar|baz)$"
)


def applying(lower: str, words: str) -> tuple[Rule, ...]:
    """The rules that could match; nearly always none. `words` are the text's `long_words`."""
    rules = [rule for rule in _ANYWHERE if any(need in lower for need in rule.needs)]
    if words:
        rules += [rule for rule in _IN_WORDS if any(need in words for need in rule.needs)]
    return tuple(rules)


def long_words(text: str) -> list[str]:
    """The words of the text that are long enough to be a token."""
    return [word for word in text.split() if len(word) >= _MIN_WORD]


def spans(text: str, rules: tuple[Rule, ...]) -> Iterator[Span]:
    """What these rules find."""
    for rule in rules:
        for found in rule.pattern.finditer(text):
            value = found[1]
            if value.startswith(OPENING) or OPENING in value or (rule.name in _LOOSE and is_placeholder(value)):
                continue
            if rule.name == "url-token" and not _is_mixed(value):
                continue
            if rule.name == "discord-token" and not _is_of_a_bot(value):
                continue
            if rule.name == "url-signature" and len(set(value)) < 6:
                continue
            yield found.start(1), found.end(1), rule.name


_LOOSE: Final = frozenset({"authorization", "url-password", "url-signature", "url-token"})


def _is_mixed(value: str) -> bool:
    digits = sum(one.isdigit() for one in value)
    return digits >= 3 and digits < len(value) and len(set(value)) >= 10


def _is_of_a_bot(value: str) -> bool:
    """Dotted names look the same; the last part of a token has letters of both cases and digits."""
    user, _, last = value.split(".")
    if not (any(map(str.isupper, last)) and any(map(str.islower, last))):
        return False
    try:
        if binascii.a2b_base64(user + "=" * (-len(user) % 4)).isdigit():
            return True
    except ValueError:
        pass
    return sum(map(str.isdigit, last)) >= 2 and sum(map(str.isupper, last)) >= 3


def is_placeholder(value: str) -> bool:
    """`$PASSWORD`, `<password>`, `{password}`, `****`: a placeholder, not a secret."""
    return _PLACEHOLDER.match(value) is not None
