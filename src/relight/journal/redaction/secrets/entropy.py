"""Secrets of unknown type: long tokens in quotes or assignments that look random.

Random letters and digits change their class (upper, lower, digit) at more than every second character; words, paths and
identifiers rarely do. Hexadecimal is never redacted: commits, digests and uuids use it. Nor is a token marked as an
identifier or checksum by its prefix or by the name before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.spans import Span

MIN_CHARS: Final = 30
MAX_CHARS: Final = 160
"""longer tokens are data: an image, a bundle, a source map"""
MAX_BARE: Final = 60
"""a line of base64 is longer"""
_CHANGES: Final = 0.4
_BARE_CHANGES: Final = 0.5
_DISTINCT: Final = 0.45
CANDIDATE: Final = lazy_pattern(rf"[=:\"'`][ ]?[\"'`]?([A-Za-z0-9+/_=-]{{{MIN_CHARS},}})", re.ASCII)
BARE: Final = lazy_pattern(
    rf"(?<![^\s\"'`(\[,=:>])([A-Za-z0-9+/_-]{{{MIN_CHARS},{MAX_BARE}}}={{0,2}})(?![^\s\"'`)\],.;:<])", re.ASCII
)
_WRAPPED: Final = 48
_BASE64_LINE: Final = lazy_pattern(r"[A-Za-z0-9+/]+={0,2}", re.ASCII)
_STORAGE: Final = lazy_pattern(r"(?<![A-Za-z0-9+/=_-])([A-Za-z0-9+/]{86}==)(?![A-Za-z0-9+/=])", re.ASCII)
"""64 bytes in base64 by themselves: the key of a storage account; a digest of that size has its name before it"""
_PUBLIC: Final = lazy_pattern(
    r"(?:sha(?:1|224|256|384|512)-|toolu_|srvtoolu_|mcptoolu_|call_|msg_|req_|resp_|chatcmpl-|rs_|fc_|ctc_|item_|run_|thread_"
    r"|asst_|step_|file-|session_|cse_|evt_|pi_|seti_|cus_|ch_|in_|prod_|price_|AAAA[BCE]|MI[IG]|iVBOR|/9j/|R0lGOD|UklGR|H4sI"
    r"|[a-z]{2,16}_01[A-Za-z0-9]{22}$)"
)
_PUBLIC_NAME: Final = lazy_pattern(
    r"(?i)(?:id|uuid|sha\d{0,3}|hash|digest|checksum|integrity|fingerprint|etag|commit|rev|revision|signature|cursor"
    r"|nonce|h1|content|data|base64|image|thinking|src|path|file|url|href)s?[\"'`\\]{0,5}\s{0,3}[=:]{0,2}\s{0,3}[\"'`\\]{0,5}$"
)
_PUBLIC_LINE: Final = lazy_pattern(
    r"(?i)ssh-|ecdsa-|sha\d|h1:|integrity|checksum|digest|fingerprint|etag|-----|base64,|\bid\b|uuid|commit|cursor|nonce"
)


def spans(text: str) -> Iterator[Span]:
    """Tokens that look random and have no other explanation."""
    for found in CANDIDATE.finditer(text):
        token = found[1]
        if len(token) > MAX_CHARS or not looks_random(token) or _PUBLIC.match(token):
            continue
        if not _PUBLIC_NAME.search(text, max(0, found.start() - 32), found.start(1)):
            yield found.start(1), found.end(1), "high-entropy"
    if "==" in text:
        yield from _storage_keys(text)
    for found in BARE.finditer(text):
        token = found[1]
        if not looks_random(token, _BARE_CHANGES) or _PUBLIC.match(token) or token.count("/") > 3:
            continue
        if _is_wrapped(text, *found.span(1)):
            continue
        if not _PUBLIC_NAME.search(text, max(0, found.start() - 32), found.start(1)) and not _is_public_line(
            text, found.start()
        ):
            yield found.start(1), found.end(1), "high-entropy"


def _is_wrapped(text: str, start: int, end: int) -> bool:
    """Whether it is one line of many of equal length, as an encoder wraps data."""
    length = end - start
    if length < _WRAPPED:
        return False
    lines = text[max(0, start - 3 * length) : end + 3 * length].split("\n")
    return sum(len(line.strip()) == length and _BASE64_LINE.fullmatch(line.strip()) is not None for line in lines) > 2


def _storage_keys(text: str) -> Iterator[Span]:
    for found in _STORAGE.finditer(text):
        if not looks_random(found[1]) or _PUBLIC.match(found[1]) or _is_public_line(text, found.start()):
            continue
        if not _PUBLIC_NAME.search(text, max(0, found.start() - 32), found.start(1)):
            yield found.start(1), found.end(1), "storage-key"


def _is_public_line(text: str, start: int) -> bool:
    """A public key or certificate is on the same line, or the line is one of many of base64."""
    line = text[text.rfind("\n", 0, start) + 1 : start]
    return bool(_PUBLIC_LINE.search(line))


def looks_random(token: str, least: float = _CHANGES) -> bool:
    """All three classes, few repeated characters, and frequent changes of class."""
    kinds = ["0" if one.isdigit() else "a" if one.islower() else "A" if one.isupper() else "" for one in token]
    plain = [kind for kind in kinds if kind]
    if len(plain) < MIN_CHARS * 3 // 4 or len(set(plain)) < 3:
        return False
    if sum(one == "0" != other for one, other in pairwise((*plain, ""))) < 2:  # places with digits; names have one
        return False
    changes = sum(one != other for one, other in pairwise(plain))
    return changes >= least * len(plain) and len(set(token)) >= _DISTINCT * min(len(token), 48)
