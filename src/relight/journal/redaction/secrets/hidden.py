"""Disguised secrets: base64, percent-encoded words, JSON inside the texts of JSON, listings with line numbers, and text
interrupted by terminal colours.

Encoded text is read as what it says, with the place of each of its characters in the original, so that what is found in
it is replaced where it stands; of base64 the whole word is.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.spans import Span

Find = Callable[[str], Iterable[Span]]
_WORD: Final = lazy_pattern(r"[^\s\"'<>\\]{12,8192}")
_PERCENT: Final = lazy_pattern(r"%([0-9A-Fa-f]{2})|(\+)")
_TELLING: Final = lazy_pattern(r"(?i)%(?:25)?(?:0a|20|22|27|2f|3a|3d|40|7b|5b|26)")
"""an encoded space, quote, slash or sign: a value that merely holds a rare character is found as it is"""
_ESCAPE: Final = lazy_pattern(r"\\(?:([\"\\/])|([nrt])|u00([0-7][0-9a-fA-F]))")
_NESTED: Final = '\\\\\\"'
"""JSON inside JSON inside a text"""
_NUMBER: Final = lazy_pattern(r"(?m)^[ ]{0,8}(?:\d{1,6}(?:→|\t|: ?| \| ?)|L\d{1,6}: )")
"""as agents and `cat -n`, `grep -n` list a file"""
_DEPTH: Final = 4
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t"}
ESCAPE: Final = "\x1b"
_COLOUR: Final = lazy_pattern(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)")
_BASE64: Final = lazy_pattern(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{28,4096}={0,2}(?![A-Za-z0-9+/=_-])")


def encoded(text: str, find: Find) -> Iterator[Span]:
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


def percent_encoded(text: str, find: Find) -> Iterator[Span]:
    """What is found in percent-encoded words."""
    if "%" not in text:
        return
    for word in _WORD.finditer(text):
        if "%" in word[0] and _TELLING.search(word[0]):
            yield from _seen(word[0], word.start(), _PERCENT, _character, find)


def nested(text: str, find: Find) -> Iterator[Span]:
    """What is found in texts of JSON that hold JSON."""
    if _NESTED in text:
        yield from _seen(text, 0, _ESCAPE, _escaped, find)


def listed(text: str, find: Find) -> Iterator[Span]:
    """What is found in a listing with line numbers, without them."""
    if "\n" in text and (_NUMBER.match(text) or _NUMBER.match(text, text.find("\n") + 1)):
        yield from _seen(text, 0, _NUMBER, _nothing, find, depth=1)


def _seen(
    text: str,
    offset: int,
    code: re.Pattern[str],
    decoded: Callable[[re.Match[str]], str],
    find: Find,
    *,
    depth: int = _DEPTH,
) -> Iterator[Span]:
    offsets = list(range(offset, offset + len(text) + 1))
    for _ in range(depth):
        parts: list[str] = []
        kept: list[int] = []
        done = 0
        for found in code.finditer(text):
            parts += (text[done : found.start()], character := decoded(found))
            kept += offsets[done : found.start() + len(character)]
            done = found.end()
        if not parts:
            break
        parts.append(text[done:])
        text, offsets = "".join(parts), [*kept, *offsets[done:]]
        for start, end, name in find(text):
            yield offsets[start], offsets[end], name


def _character(found: re.Match[str]) -> str:
    return " " if found[2] else chr(int(found[1], 16))


def _escaped(found: re.Match[str]) -> str:
    return found[1] or (_CONTROLS[found[2]] if found[2] else chr(int(found[3], 16)))


def _nothing(found: re.Match[str]) -> str:
    return ""
