"""Blob storage: immutable byte strings under names, stored off this machine. Guarantees of every implementation:

1. `put` is atomic: a blob is whole or absent, and survives the loss of this machine once `put` has returned. A name is
   written once; of concurrent puts of one name exactly one returns True, and the others change nothing.
2. `get`, `stat` and `list` show every `put` that has returned, and nothing that a returned `delete` removed.
3. `StoreUnavailable` if the storage cannot be reached. `None` always means that the blob does not exist.

Implementations know nothing of what the bytes mean. `relight.testing.blob_kit` checks all of this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

MAX_PAGE: Final = 1000
"""blobs per page of `list`"""
_KEY: Final = re.compile(r"[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,99}(?:/[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,99}){0,9}")


class Blob(NamedTuple):
    """The metadata of one blob."""

    key: str
    size_bytes: int
    written_at: float
    """seconds since 1970, by the storage's clock"""


class Blobs(Protocol):
    """Byte strings by name. Safe from any thread, process and machine."""

    @property
    def location(self) -> str:
        """The address for display, without secrets."""
        ...

    @property
    def address(self) -> str:
        """The value of RELIGHT_BLOBS that opens it again; contains no secrets either."""
        ...

    @property
    def is_own(self) -> bool:
        """Whether it can hold only one store's content; if not, names have to start with the store's id."""
        ...

    def put(self, key: str, data: bytes) -> bool:
        """Store a blob unless the name exists; whether this call stored it. Durable on return."""
        ...

    def get(self, key: str) -> bytes | None:
        """The whole blob; None if there is none."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        """Part of a blob, shorter at its end; None if there is none."""
        ...

    def stat(self, key: str) -> Blob | None:
        """A blob's metadata; None if there is none."""
        ...

    def list(self, prefix: str = "", *, after: str = "", limit: int = MAX_PAGE) -> list[Blob]:
        """A page of blobs in the order of their names, after `after`. The prefix is empty or ends with a slash."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Delete blobs; missing ones are no error."""
        ...


def checked_key(key: str) -> str:
    """The name, if every implementation accepts it. ValueError otherwise: names are made by us, so it is a bug."""
    if _KEY.fullmatch(key) is None:
        raise ValueError(f"not the name of a blob: {key[:100]!r}")
    return key


def checked_prefix(prefix: str) -> str:
    """The prefix, if it is empty or a valid name with a slash; ValueError otherwise."""
    if prefix and (not prefix.endswith("/") or _KEY.fullmatch(prefix[:-1]) is None):
        raise ValueError(f"not a prefix of blobs: {prefix[:100]!r}")
    return prefix


def list_all(blobs: Blobs, prefix: str = "") -> Iterable[Blob]:
    """All blobs below a prefix, page by page."""
    after = ""
    while page := blobs.list(prefix, after=after):
        yield from page
        after = page[-1].key


BlobsFactory = Callable[[str, Mapping[str, str]], Blobs]
"""the object of an entry point in the group `relight.blobs`: from the address in RELIGHT_BLOBS, whose scheme is the
entry point's name, and the environment"""
