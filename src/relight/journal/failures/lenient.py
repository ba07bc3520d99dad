"""Lenient reading of untrusted JSON: a value of the wanted type, or nothing, never an exception."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, Final

TEXT_LIMIT: Final = 300
_NESTING: Final = 4
_SPACES: Final = re.compile(r"\s+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")


def pick(source: Any, *names: str) -> Any:
    """The first of these fields that is present and not null. Agents name one field in snake and camel case."""
    if not isinstance(source, dict):
        return None
    return next((source[name] for name in names if source.get(name) is not None), None)


def first(sources: Iterable[Any], *names: str) -> Any:
    """`pick` from the first source that has one of the fields."""
    return next((found for source in sources if (found := pick(source, *names)) is not None), None)


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def word(value: Any) -> str:
    """A short machine-readable word in snake case, or nothing: `usageLimitExceeded` is `usage_limit_exceeded`."""
    if not isinstance(value, str) or len(value) > TEXT_LIMIT:
        return ""
    return _CAMEL.sub(r"_\1", value.strip()).lower()


def number(value: Any) -> float | None:
    """A finite number, also from digits in a string; not a boolean."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and len(value) < 40:
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def status_code(value: Any) -> int | None:
    """A valid HTTP status, or nothing."""
    found = number(value)
    return int(found) if found is not None and 100 <= found <= 999 else None


def sentence(value: Any) -> str:
    """The text of a message: a string, a content block, a list of them, or an object that holds one."""
    for _ in range(_NESTING):
        if not isinstance(value, dict):
            break
        value = pick(value, "content", "text", "message")
    if isinstance(value, list):
        return " ".join(text for item in value[:50] if isinstance(text := pick(item, "text"), str))
    return value if isinstance(value, str) else ""


def one_line(text: str) -> str:
    """Cut to one readable line."""
    line = _SPACES.sub(" ", text[: 4 * TEXT_LIMIT]).strip()
    return line if len(line) <= TEXT_LIMIT else line[: TEXT_LIMIT - 1] + "…"


def plain(text: str) -> str:
    """Normalise typography: curly apostrophes, both separators, the narrow space before am and pm."""
    return text.translate(_LEVEL)


_LEVEL: Final = str.maketrans({"’": "'", "‘": "'", "∙": "·", "•": "·", "\u202f": " ", "\u00a0": " "})
