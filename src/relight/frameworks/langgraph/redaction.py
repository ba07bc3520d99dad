"""Texts of a thread's values without their secrets, where `RELIGHT_REDACT=all` asks for it. Pure.

It works on the encoded form, in which every value is data: texts, lists and mappings are redacted as those of any
session are, by the names they stand under. What says how a value is put together again (marks, names of types, the
parts of a date) is left as it is, so that everything can still be read.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from relight.journal.redaction.redactor import Redactor

Hide = Callable[[Any, str], Any]
"""encoded data, and the path it stands at, to the same without secrets"""
MARK: Final = "$"
_HOLDS_TEXTS: Final = frozenset({
    "map", "tuple", "set", "frozenset", "deque", "message", "error", "path", "pure_path", "windows_path",
    "pure_windows_path", "model", "data", "tuple_of",
})  # fmt: skip
"""marks whose value may be changed in its texts and can still be made"""
_BYTES: Final = frozenset({"bytes", "bytearray"})


def redacting(redactor: Callable[[], Redactor], own: frozenset[str]) -> Hide:
    """What hides secrets in encoded values; `own` are the marks of LangGraph's types, which hold a program's values."""
    holds_texts = _HOLDS_TEXTS | own

    def hide(data: Any, path: str) -> Any:
        return within(data, path.rpartition(".")[2].partition("[")[0])

    def within(data: Any, name: str) -> Any:
        if type(data) is list and _is_marked(data):
            return [within(one, name) for one in data]
        if type(data) is not dict or not _is_marked(data):
            (after,) = redactor().value({name: data}).values()
            return after
        if MARK not in data:
            return {key: within(one, key) for key, one in data.items()}
        mark = data[MARK]
        if mark in _BYTES:
            return {**data, "v": _bytes(data["v"])}
        if mark == "map":
            pairs = [[within(key, ""), within(one, key if type(key) is str else "")] for key, one in data["v"]]
            return {**data, "v": pairs}
        return {**data, "v": within(data["v"], name)} if mark in holds_texts else data

    def _bytes(held: str) -> str:
        try:
            text = b64decode(held, validate=True).decode()
        except ValueError:
            return held  # no text
        after = redactor().text(text)
        return held if after == text else b64encode(after.encode()).decode()

    return hide


def _is_marked(data: Any) -> bool:
    """Does a mark stand anywhere in it?"""
    stack = [data]
    while stack:
        one = stack.pop()
        if type(one) is dict:
            if MARK in one:
                return True
            stack.extend(one.values())
        elif type(one) is list:
            stack.extend(one)
    return False
