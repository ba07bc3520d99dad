"""Private keys in PEM: whole, truncated, with line numbers, quoted, or only their end; and what is inside one.

Line by line, so that a listing of a key (`cat -n`, a diff, a quoted mail) is found too: each line may have a prefix.
Nothing is redacted without key material: program code may contain the first line of a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from relight.journal.redaction.secrets.lazy_pattern import lazy_pattern
from relight.journal.redaction.secrets.spans import Span

NEED: Final = "PRIVATE KEY"
_BEGIN: Final = lazy_pattern(r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_END: Final = lazy_pattern(r"-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_CONTENT: Final = lazy_pattern(r"[A-Za-z0-9+/=]{40}")
_BREAK: Final = r"(?:\r?\n|\\{1,4}r?\\{0,4}n|\\{1,4}n)"
_BEFORE: Final = r"[ \t>|+#*:.\"',0-9→-]{0,16}?"
_LINE: Final = r"(?:[A-Za-z0-9+/=]{1,200}|[A-Z][A-Za-z-]{3,20}: [^\n\\]{1,80}|\.{3}|)"
_BODY: Final = lazy_pattern(
    rf"[ \t]*(?:{_BREAK}{_BEFORE}{_LINE}[ \t\"',+\\]{{0,6}}(?={_BREAK}|$|-----END))*", re.MULTILINE
)
_TAIL: Final = lazy_pattern(r"[A-Za-z0-9+/=]{16,200}")
_MAX_LINES: Final = 200
INSIDE: Final = lazy_pattern(
    r"(?<![A-Za-z0-9+/])((?:MII[A-Za-z0-9]{2}[A-Za-z0-9]IBAAK[BC][A-Za-z0-9+/]{20,}|MII[A-Za-z0-9]{2}[A-Za-z0-9]IBADANBgkqhkiG9w0BAQEFAAS[A-Za-z0-9+/]{8,}"
    r"|b3BlbnNzaC1rZXktdjEA[A-Za-z0-9+/]{20,}|MHcCAQEEI[A-Za-z0-9+/]{20,}|MIGHAgEAMBMGByqGSM49[A-Za-z0-9+/]{20,}|MC4CAQAwBQYDK2Vw[A-Za-z0-9+/]{20,})"
    r"(?:(?:\r?\n|\\n)[A-Za-z0-9+/=]{1,76}(?=\s|\\n|$))*={0,2})"
)
INSIDE_NEEDS: Final = (
    "IBAAK",
    "IBADANBgkqhkiG9w0BAQEFAAS",
    "b3BlbnNzaC1rZXktdjEA",
    "MHcCAQEEI",
    "MIGHAgEAMBMGByqGSM49",
    "MC4CAQAwBQYDK2Vw",
)


def spans(text: str) -> Iterator[Span]:
    """Every private key of the text."""
    if NEED in text:
        yield from _framed(text)
        yield from _tails(text)
    if any(need in text for need in INSIDE_NEEDS):
        for found in INSIDE.finditer(text):
            yield found.start(1), found.end(1), "private-key"


def _framed(text: str) -> Iterator[Span]:
    start, end = 0, _END.search(text)
    while (begin := _BEGIN.search(text, start)) is not None:
        if end is not None and end.start() < begin.end():
            end = _END.search(text, begin.end())
        following = _BEGIN.search(text, begin.end()) if end is not None else None
        if end is not None and (following is None or end.start() < following.start()):
            content, start = end.start(), end.end()
        else:
            body = _BODY.match(text, begin.end())
            content = start = body.end() if body is not None else begin.end()
        if _CONTENT.search(text, begin.end(), content):  # else it is a program that knows how keys begin
            yield begin.start(), start, "private-key"
        else:
            start = begin.end()


def _tails(text: str) -> Iterator[Span]:
    """The end of a key whose beginning is missing: lines of base64 right before its last line."""
    for end in _END.finditer(text):
        start = end.start()
        for _ in range(_MAX_LINES):
            line_start = text.rfind("\n", 0, max(0, start - 1)) + 1
            line = text[line_start:start].strip(" \t\r\n>|+-#*:.\"',0123456789→") if line_start < start else ""
            raw = text[line_start:start].rstrip("\r\n \t")
            if start == end.start() and not raw.strip():
                if line_start == 0:
                    break
                start = line_start
                continue
            if not line or not _TAIL.fullmatch(line) or "-----" in line:
                break
            start = line_start
        if start < end.start() and _CONTENT.search(text, start, end.start()):
            yield start, end.end(), "private-key"
