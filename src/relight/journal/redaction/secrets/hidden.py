"""Disguised secrets: text in base64, and text interrupted by terminal colours."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.spans import Span

ESCAPE: Final = "\x1b"
_COLOUR: Final = lazy_pattern(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)")
_BASE64: Final = lazy_pattern(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{28,4096}={0,2}(?![A-Za-z0-9+/=_-])")


def encoded(text: str, find: Callable[[str], Iterable[Span]]) -> Iterator[Span]:
    """Base64 words in whose text a secret is found."""
    for found in _BASE64.finditer(text):
        word = found[0].rstrip("=").replace("-", "+").replace("_", "/")
        if len(word) % 4 == 1 or word.isalpha() or "/" in word[:1]:
            continue
        try:
            plain = binascii.a2b_base64(word + "=" * (-len(word) % 4)).decode("ascii")
        except ValueError:
            continue
        if plain.isprintable() or "\n" in plain:
            for _, _, name in find(plain):
                yield found.start(), found.end(), name
                break


def without_colours(text: str, clean: Callable[[str], str]) -> str:
    """The text redacted as a person sees it. Colour codes are removed only if they would have hidden something."""
    plain = _COLOUR.sub("", text)
    after = clean(plain)
    return text if after == plain else after
