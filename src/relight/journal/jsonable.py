"""The check that every message, state value and result passes before it is encoded: is it JSON?

Accepted: dict with text keys, list, tuple (stored as a list), text (lone surrogates too), bool, int of any size, finite
float, None. Everything else is refused with its path, because a value that changed on its way through the store would
surprise its owner much later. Iterative, so that no nesting can exhaust the stack.
"""

from __future__ import annotations

import math
from typing import Any, Final

from relight.errors import InvalidMessage
from relight.values.policy import LIMITS

_LEAVES: Final = frozenset({str, int, bool, type(None)})
_SHOWN: Final = 120
_MAX_INT_BITS: Final = 8 * 1024 * 1024


def check_json(value: Any, *, root: str = "$", depth: int = LIMITS.depth) -> None:
    """InvalidMessage with the path of the first value that is not JSON."""
    # Two passes: the fast one keeps no paths and accepts nearly everything; only what it rejects is walked again to
    # find the path to report.
    if not _is_plain_json(value, depth):
        _find_invalid(value, root, depth)


def _is_plain_json(value: Any, depth: int) -> bool:
    """Fast check without paths, level by level: only plain dicts, lists, texts, numbers, None."""
    level, seen = [value], 0
    for _ in range(depth):
        inner: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                for key in item:
                    if type(key) is not str:
                        return False
                inner += [one for one in item.values() if type(one) is not str]
            elif kind is list:
                inner += [one for one in item if type(one) is not str]
            elif (
                (kind is int and item.bit_length() <= _MAX_INT_BITS)
                or (kind is float and math.isfinite(item))
                or kind is bool
                or item is None
                or kind is str
            ):
                continue
            else:
                return False
            seen += len(item)
            if seen >= LIMITS.message_bytes:
                return False
        if not inner:
            return True
        level = inner
    return False


def _find_invalid(value: Any, root: str, depth: int) -> None:
    """InvalidMessage with a path; returns if the value is JSON after all (a tuple)."""
    stack: list[tuple[Any, Any, int]] = [(value, None, 0)]
    seen = 0
    while stack:
        item, trail, level = stack.pop()
        seen += 1
        # Each value takes at least a byte. Without this bound, a list nested by reference could expand exponentially.
        if seen > LIMITS.message_bytes:
            raise _refused(f"more than {LIMITS.message_bytes:,} values", trail, root)
        kind = type(item)
        if kind in _LEAVES:
            if kind is int and item.bit_length() > _MAX_INT_BITS:
                raise _refused("an integer of over a million bytes", trail, root)
            continue
        if kind is float:
            if not math.isfinite(item):
                raise _refused(f"{item} is not JSON", trail, root)
            continue
        if level >= depth:
            raise _refused(f"nested deeper than {depth}", trail, root)
        if kind is dict:
            for key, inner in item.items():
                if type(key) is not str:
                    raise _refused(f"a key of type {type(key).__name__}; keys are text", trail, root)
                if type(inner) not in _LEAVES or type(inner) is int:
                    stack.append((inner, (trail, key), level + 1))
        elif kind is list or kind is tuple:
            for index, inner in enumerate(item):
                if type(inner) not in _LEAVES or type(inner) is int:
                    stack.append((inner, (trail, index), level + 1))
        else:
            _check_value(item, trail, root)


def check_text(value: Any, what: str) -> str:
    """The value if it is text; else InvalidMessage that names the field."""
    if type(value) is not str:
        raise InvalidMessage(f"{type(value).__name__} is not text", path=what)
    return value


def _check_value(item: Any, trail: Any, root: str) -> None:
    """Subclasses are refused too: what comes back would be of another type."""
    name = type(item).__name__
    hints = []
    if hasattr(item, "model_dump"):
        hints.append("pass the provider's own dict: message.model_dump(mode='json', exclude_unset=True)")
    elif isinstance(item, bytes | bytearray | memoryview):
        hints.append("encode it as text first: base64.b64encode(data).decode()")
    elif isinstance(item, set | frozenset):
        hints.append("pass sorted(...)")
    elif isinstance(item, dict | list | str | int | float):
        hints.append(f"pass a plain value instead of the subclass {name}")
    raise _refused(f"{name} is not JSON", trail, root, hints)


def _refused(why: str, trail: Any, root: str, hints: list[str] | None = None) -> InvalidMessage:
    parts: list[str] = []
    while trail is not None and len(parts) < LIMITS.depth + 1:
        trail, key = trail
        parts.append(f"[{key}]" if isinstance(key, int) else f".{_printable(key)}")
    path = root + "".join(reversed(parts))
    if len(path) > _SHOWN:
        path = path[: _SHOWN // 2] + "…" + path[-_SHOWN // 2 :]
    return InvalidMessage(why, path=path, hints=hints or ())


def _printable(key: str) -> str:
    text = key if len(key) <= 40 else key[:40] + "…"
    return text if text.isidentifier() else ascii(text)


def unshared(value: list[Any]) -> list[Any]:
    """A copy of a list of JSON values that shares no list and no mapping with it. Texts are shared, because
    no caller can change them: the cost depends on the number of messages, not on their length."""
    return [_unshared_dict(one) if type(one) is dict else unshared(one) if type(one) is list else one for one in value]


def _unshared_dict(value: dict[str, Any]) -> dict[str, Any]:
    copy = value.copy()
    for key, one in value.items():
        if type(one) is dict:
            copy[key] = _unshared_dict(one)
        elif type(one) is list:
            copy[key] = unshared(one)
    return copy
