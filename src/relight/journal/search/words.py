"""The words of a step: the same for every store, for the index and for a scan, so that all of them find the same.

A word is a run of letters and digits, without case and without accents; a character of Chinese, Japanese or Korean is
a word of its own, because those are written without spaces. The stored text is what is read here, so what was redacted
before it was stored is in no index. A change of what counts as a word needs a migration that empties the index.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from relight.journal.codec import Undecodable, decode_changes
from relight.values.step import Changes

MAX_CHARACTERS: Final = 32_768
"""of one step: what is beyond is not searched"""
MAX_WORD: Final = 40
"""characters of a word that count: two words that begin with the same forty are the same one"""
_IDEOGRAPHS: Final = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD: Final = re.compile(rf"[{_IDEOGRAPHS}]|[^\W_{_IDEOGRAPHS}]+")
_NOT_SAID: Final = frozenset(
    {"type", "role", "id", "tool_use_id", "toolUseId", "tool_call_id", "call_id", "item_id"}
    | {"status", "signature", "encrypted_content", "media_type", "data"}
)
"""keys of a message whose values are not text of the conversation: fixed words, ids, binary content"""
_ARGUMENTS: Final = frozenset({"input", "arguments", "args", "response", "json"})
"""keys of a message below which every value was said, also a number"""
_MAX_NUMBER: Final = 10**18


def text_of(body: bytes, label: str | None) -> str:
    """The text of a step that a search covers, at most MAX_CHARACTERS; empty if it cannot be read (`verify` says
    so)."""
    try:
        changes = decode_changes(body)
    except Undecodable:
        return ""
    text = joined_texts(label, *_said(changes))
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def joined_texts(*values: Any) -> str:
    """The texts of these values, a line each, at most MAX_CHARACTERS."""
    parts: list[str] = []
    left = MAX_CHARACTERS
    for part in _texts(*values):
        parts.append(part[:left])
        left -= len(part) + 1
        if left <= 0:
            break
    return "\n".join(parts)


def words_of(text: str) -> list[str]:
    """The words of a text, in order."""
    if text.isascii():
        return [word[:MAX_WORD] for word in _WORD.findall(text.lower())]
    return [_folded(word) for word in _WORD.findall(text)]


def places_of(text: str) -> list[tuple[int, int]]:
    """Where the words of `words_of` are in the text."""
    return [found.span() for found in _WORD.finditer(text)]


@lru_cache(maxsize=4096)
def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()[:MAX_WORD]
    plain = "".join(one for one in unicodedata.normalize("NFKD", word) if not unicodedata.combining(one))
    return unicodedata.normalize("NFC", plain.casefold())[:MAX_WORD]


def _said(changes: Changes) -> Iterator[Any]:
    """What a person would look for: messages, tools with arguments and results, questions, answers, errors, notes."""
    yield changes.messages
    for intent in changes.intents:
        yield {"name": intent.name, "arguments": intent.arguments}
    yield {"arguments": [one.content for one in changes.outcomes]}
    if changes.status is not None:
        failure = changes.status.failure
        yield from (changes.status.reason, changes.status.question, changes.status.result)
        yield failure.text if failure is not None else None
    yield changes.attempt.reason if changes.attempt is not None else None
    yield from (changes.answer, changes.note, {"arguments": changes.state}, changes.record)


def _texts(*values: Any) -> Iterator[str]:
    """Every text of these values, in order. A stack of its own: a message may be nested deeper than Python's."""
    stack = [(value, False) for value in reversed(values)]
    while stack:
        one, all_said = stack.pop()
        if isinstance(one, str):
            yield one
        elif all_said and type(one) in (int, float) and abs(one) < _MAX_NUMBER:
            yield str(one)
        elif isinstance(one, dict):
            stack.extend(
                (inner, all_said or key in _ARGUMENTS)
                for key, inner in reversed(one.items())
                if all_said or key not in _NOT_SAID
            )
        elif isinstance(one, list | tuple):
            stack.extend((inner, all_said) for inner in reversed(one))
