"""Secrets in JSON whose name is another member, another item of a list, or the key of the container around them:
`{"name": "DB_PASSWORD", "value": …}`, `["--password", …]`, `["x-api-key", …]`, `{"tokens": [ … ]}`.

As texts these are found by what stands before them; as values each text stands by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from relight.journal.redaction.secrets.assigned import announced_kind, kind_of_key

_NAMES: Final = ("name", "key", "Name", "Key")
_VALUES: Final = ("value", "Value")
_PAIR: Final = 2
_MAX_ITEMS: Final = 256
_MAX_CHARS: Final = 4096


def named_member(item: Mapping[str, Any]) -> tuple[str, str] | None:
    """The member that another one names, and the kind of secret it holds."""
    for value in _VALUES:
        if type(held := item.get(value)) is str:
            for name in _NAMES:
                if type(said := item.get(name)) is str and (kind := announced_kind(said, held)) is not None:
                    return value, kind
    return None


def kind_within(key: str, inner: Any) -> str | None:
    """The kind of secret that a list or an object under this key (`passwords`, `api_keys`) is said to hold."""
    if not key.endswith("s") or type(inner) not in (list, tuple, dict):
        return None
    return kind_of_key(key) or kind_of_key(key[:-1])


def is_secret_within(kind: str, value: Any) -> bool:
    """Whether a text in such a container is one of them."""
    return type(value) is str and announced_kind(kind, value) is not None


def may_announce(items: Sequence[Any]) -> bool:
    """Whether an item may announce the next one: an option, or the name of a pair."""
    if not _PAIR <= len(items) <= _MAX_ITEMS or type(items[0]) is not str:
        return False
    if len(items) == _PAIR and type(items[1]) is str and announced_kind(items[0], items[1]) is not None:
        return True
    return any(type(one) is str and one[:1] == "-" for one in items)


def announced(
    items: Sequence[Any], text: Callable[[str], str], mark: Callable[[str], str]
) -> Iterator[tuple[int, str]]:
    """The items that another one announces, by their index, without their secret."""
    if len(items) == _PAIR and type(items[1]) is str and (kind := announced_kind(items[0], items[1])) is not None:
        yield 1, mark(kind)
        return
    for index in range(1, len(items)):
        option, item = items[index - 1], items[index]
        if type(option) is not str or type(item) is not str or len(item) > _MAX_CHARS:
            continue
        if option[:1] != "-" and item[:1] != "-":
            continue
        before = f"{items[0]} {option} " if index > 1 and option[:1] == "-" else f"{items[0]} "
        after = text(before + item)
        if after != before + item and after.startswith(before):
            yield index, after[len(before) :]
