"""Stored records: one per `put`, one per `put_writes`. Their parts stay encoded until they are needed.

A checkpoint's record has the values that are new with it; for every other channel it refers to the record that has the
value. A list or mapping is stored as its difference from the parent's. So the size grows with the changes, and a
checkpoint is read from the records that it refers to.

Every few hundred records a checkpoint's record carries a page: an outline of the records since the last page, and the
digest of the record with that page. So a thread can be listed from its pages and the records after the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from relight.journal.codec import decode_typed, decode_value, encoded, typed_decoder


class ListPart(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A list as its difference from another one."""

    size: int
    """length of the whole list"""
    base: int = 0
    """the record of the list it extends; 0: it is complete"""
    keep: int = 0
    """number of elements of that one that stay at the beginning"""
    then: list[tuple[int, int]] = []
    """what follows these: so many elements of that one from there on, or (-1, n) the next so many that are added"""
    add: list[msgspec.Raw] = []
    """elements that `then` does not name come last"""
    weight: int = 0
    """elements written since the last complete list; bounds the cost of reading it"""
    old: int = 0
    """of a list that is written whole again: how many at its beginning the one before had too"""


class MapPart(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A mapping as its difference from another one."""

    size: int
    """number of keys of the whole mapping"""
    base: int = 0
    """the record of the mapping it extends; 0: it is complete"""
    gone: list[str] = []
    entries: dict[str, msgspec.Raw] = {}
    weight: int = 0
    """keys written since the last complete mapping"""


class Page(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """The records between the one with the last page and the one with this."""

    back: int
    """the record with the last page; 0: there is none"""
    digest: str
    """digest of that record's step"""
    spaces: list[str]
    """the namespaces; the other fields refer to them by index"""
    puts: list[tuple[int, int, str, str | None]]
    """(record, namespace, id, parent) of each checkpoint"""
    writes: list[tuple[int, int, str]]
    """(record, namespace, checkpoint) of each task's writes"""


class Put(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="kind", tag="put"):
    """The record of a `put`: one checkpoint."""

    page: Page | None = None
    """the first field, so that it can be seen without decoding"""
    ns: str = ""
    id: str
    parent: str | None = None
    rest: msgspec.Raw
    """the checkpoint without its values: version, time, channel versions, versions seen"""
    metadata: msgspec.Raw
    values: dict[str, msgspec.Raw] = {}
    lists: dict[str, ListPart] = {}
    maps: dict[str, MapPart] = {}
    at: dict[str, int] = {}
    """unchanged channels -> the record that has their value"""


class Writes(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="kind", tag="writes"):
    """The record of a `put_writes`: what one task wrote on top of a checkpoint."""

    ns: str = ""
    id: str
    task: str
    path: str = ""
    writes: list[tuple[int, str, msgspec.Raw]]
    """(index, channel, value)"""


_decoder: Final = typed_decoder(Put | Writes)
_PAGED: Final = b"\xa4kind\xa3put\xa4page"
_MAX_ON_A_PAGE: Final = 32_768
"""of a thread that was written without pages and is longer than this, none are begun"""

Named = tuple[int, str, str, str | None, bool]
"""a record on a page: its seq, namespace, checkpoint, that one's parent, and is it the checkpoint's own?"""


def pack(record: Put | Writes) -> bytes:
    """The bytes of a record. Its parts are encoded already."""
    return encoded(record)


def unpack(data: bytes) -> Put | Writes:
    """Decode a record; Undecodable if the bytes are not one."""
    found: Put | Writes = decode_typed(data, _decoder)
    return found


def is_paged(data: bytes) -> bool:
    """Whether a record carries a page."""
    return data.startswith(_PAGED, 1)


def page_of(last: tuple[int, bytes], records: Sequence[Named]) -> Page | None:
    """A page with these records, after the last page; None if they are too many."""
    if len(records) > _MAX_ON_A_PAGE:
        return None
    numbers: dict[str, int] = {}
    for _, ns, _, _, _ in records:
        numbers.setdefault(ns, len(numbers))
    return Page(
        back=last[0],
        digest=last[1].hex(),
        spaces=list(numbers),
        puts=[(seq, numbers[ns], id, parent) for seq, ns, id, parent, is_put in records if is_put],
        writes=[(seq, numbers[ns], id) for seq, ns, id, _, is_put in records if not is_put],
    )


def plain(raw: msgspec.Raw) -> Any:
    """Encode a part that needs no translation."""
    return decode_value(bytes(raw))
