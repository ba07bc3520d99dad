"""Blobs: whole pieces of bytes under names, kept somewhere that outlives this machine. What every keeper promises.

1. `put` is whole or absent: nobody ever sees half of it, and once it has returned it survives the loss of this machine.
   A name is written once. Of two who put the same one, one is told True and its bytes stay; the other changes nothing.
2. `get`, `stat` and `list` show every `put` that has returned, and no `delete` that has.
3. Where it cannot be reached, an error says so: `StoreUnavailable`, with what to do. `None` means that it is not there.

A keeper knows nothing of what the bytes mean. `relight.testing.blob_kit` proves all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

MAX_PAGE: Final = 1000
"""names in one page of a list"""
_KEY: Final = re.compile(r"[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,99}(?:/[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,99}){0,9}")


class Blob(NamedTuple):
    """One blob without its bytes."""

    key: str
    size_bytes: int
    written_at: float
    """seconds since 1970, by whoever keeps it"""


class Blobs(Protocol):
    """Bytes by name. Safe from any thread, process and machine."""

    @property
    def place(self) -> str:
        """The address as it may be shown to people: no secret in it."""
        ...

    @property
    def address(self) -> str:
        """What RELIGHT_BLOBS has to say to open it again. May be shown too."""
        ...

    @property
    def is_own(self) -> bool:
        """Whether only one store's content can lie here; else names have to say whose it is."""
        ...

    def put(self, key: str, data: bytes) -> bool:
        """Keep it, unless the name is taken; whether it was this call that did. Durable on return."""
        ...

    def get(self, key: str) -> bytes | None:
        """All of it; None where there is none."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        """A piece; shorter where the blob ends before."""
        ...

    def stat(self, key: str) -> Blob | None:
        """Its size and age; None where there is none."""
        ...

    def list(self, prefix: str = "", *, after: str = "", limit: int = MAX_PAGE) -> list[Blob]:
        """A page in the order of the names, those after `after`. A prefix is empty or ends with a slash."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Remove; those that are not there are no error."""
        ...


def checked_key(key: str) -> str:
    """The name, if it is one that every keeper can take; ours are made by us, so another one is a mistake."""
    if _KEY.fullmatch(key) is None:
        raise ValueError(f"not the name of a blob: {key[:100]!a}")
    return key


def checked_prefix(prefix: str) -> str:
    """The prefix, if it is one."""
    if prefix and (not prefix.endswith("/") or _KEY.fullmatch(prefix[:-1]) is None):
        raise ValueError(f"not a prefix of blobs: {prefix[:100]!a}")
    return prefix


def list_all(blobs: Blobs, prefix: str = "") -> Iterable[Blob]:
    """All pages; ends because names only grow."""
    after = ""
    while page := blobs.list(prefix, after=after):
        yield from page
        after = page[-1].key
