"""What a person asks for: words that must all be there, "phrases" in this order, beginnings*. No other syntax.

Anything may be typed: what is neither letter nor digit separates words, so that no input is an error of a database's
query language. Words that are written together (`retry-after`, `a.b`) are looked for together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from unicodedata import normalize

import msgspec

from relight.errors import UsageError
from relight.journal.search.words import MAX_CHARACTERS, places_of, words_of

MAX_TERMS: Final = 32
_PART: Final = re.compile(r'"([^"]*)"?(\*?)|([^\s"]+)')
_AROUND: Final = 70
"""characters shown on each side of what was found"""


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """Words that follow each other."""

    words: tuple[str, ...]
    is_prefix: bool
    """the last word is the beginning of one"""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Terms that must all be found in one step."""

    terms: tuple[Term, ...]

    def found_in(self, words: Sequence[str]) -> tuple[int, int] | None:
        """The place of the first term (first word, last word), if all terms are in the words; else None."""
        places = [_place(term, words) for term in self.terms]
        return None if None in places else min(place for place in places if place is not None)


def parse(text: str) -> Query:
    """The query of a text; UsageError if there is no word in it, or more than MAX_TERMS terms."""
    terms: list[Term] = []
    for phrase, star, plain in _PART.findall(normalize("NFC", text[:MAX_CHARACTERS])):
        words = tuple(words_of(phrase or plain))
        if words:
            terms.append(Term(words=words, is_prefix=bool(star) or plain.endswith("*")))
    if not terms:
        raise UsageError("nothing to search for", hints=['words, "a phrase", or the beginning of a word: deplo*'])
    if len(terms) > MAX_TERMS:
        raise UsageError(f"{len(terms)} words to search for; the maximum is {MAX_TERMS}")
    return Query(terms=tuple(dict.fromkeys(terms)))


def excerpt(query: Query, text: str) -> str | None:
    """The first of what was asked for, with what is around it, on one line; None if not all of it is there."""
    place = query.found_in(words_of(text))
    if place is None:
        return None
    spans = places_of(text)
    first, last = spans[place[0]][0] - _AROUND, spans[place[1]][1] + _AROUND
    begin = 0 if first <= 0 else next(begin for begin, _ in spans if begin >= first)  # whole words
    end = len(text) if last >= len(text) else max(end for _, end in spans if end <= last)
    return " ".join(text[begin:end].split())


def marked(query: Query, text: str) -> list[tuple[str, bool]]:
    """The text in pieces, each with whether it is one of the words that were asked for."""
    plain = {word for term in query.terms for word in (term.words[:-1] if term.is_prefix else term.words)}
    begins = tuple(term.words[-1] for term in query.terms if term.is_prefix)
    pieces, end = [], 0
    for word, (begin, after) in zip(words_of(text), places_of(text), strict=True):
        if word in plain or (begins and word.startswith(begins)):
            pieces += [(text[end:begin], False), (text[begin:after], True)]
            end = after
    return [piece for piece in (*pieces, (text[end:], False)) if piece[0]]


def _place(term: Term, words: Sequence[str]) -> tuple[int, int] | None:
    *firm, last = term.words
    size = len(term.words)
    for at in range(len(words) - size + 1):
        end = words[at + size - 1]
        if (end == last or (term.is_prefix and end.startswith(last))) and list(words[at : at + size - 1]) == firm:
            return at, at + size - 1
    return None
