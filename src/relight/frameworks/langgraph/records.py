"""What the saver writes: one record a `put`, one a `put_writes`. Data whose parts stay encoded until somebody asks.

A checkpoint's record holds the values that are new with it; for every other channel it names the record that has it.
Of a list or a mapping only the elements are new that its parent's does not have: the record names that one and says
what of it is kept. So bytes grow with what is new, and a checkpoint is read from the records it names.

Every few hundred records a checkpoint's carries a page: what the records since the last page are of, without what is in
them, and the digest of the record with that page. So a thread is listed from its pages and the records behind the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from relight.journal.codec import decode_typed, decode_value, encoded, typed_decoder


class ListPart(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A list, as what it adds to another one."""

    size: int
    """how long the whole list is"""
    base: int = 0
    """the record that holds the list it goes on from; 0: it is whole"""
    keep: int = 0
    """how many elements of that one stay at the beginning"""
    then: list[tuple[int, int]] = []
    """what follows these: so many elements of that one from there on, or (-1, n) the next so many that are added"""
    add: list[msgspec.Raw] = []
    """those that `then` does not name come last"""
    weight: int = 0
    """elements written from the whole list on; what bounds the cost of reading it"""
    old: int = 0
    """of a list that is written whole again: how many at its beginning the one before had too"""


class MapPart(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A mapping, as what it changes in another one."""

    size: int
    """how many keys the whole mapping has"""
    base: int = 0
    """the record that holds the mapping it goes on from; 0: it is whole"""
    gone: list[str] = []
    entries: dict[str, msgspec.Raw] = {}
    weight: int = 0
    """keys written from the whole mapping on"""


class Page(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """The records between the one with the last page and the one with this."""

    back: int
    """the record with the last page; 0: there is none"""
    digest: str
    """of its step"""
    spaces: list[str]
    """the namespaces, which the others name by their place"""
    puts: list[tuple[int, int, str, str | None]]
    """record, namespace, id, parent of each checkpoint"""
    writes: list[tuple[int, int, str]]
    """record, namespace and checkpoint of each task's writes"""


class Put(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="kind", tag="put"):
    """One checkpoint."""

    page: Page | None = None
    """the first field, so that it is seen without decoding"""
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
    """channels that did not change: the record that has their value"""


class Writes(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="kind", tag="writes"):
    """What one task wrote on top of a checkpoint."""

    ns: str = ""
    id: str
    task: str
    path: str = ""
    writes: list[tuple[int, str, msgspec.Raw]]
    """index, channel, value"""


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
    """The record behind the bytes, or Undecodable."""
    found: Put | Writes = decode_typed(data, _decoder)
    return found


def is_paged(data: bytes) -> bool:
    """Does this record carry a page?"""
    return data.startswith(_PAGED, 1)


def page_of(last: tuple[int, bytes], records: Sequence[Named]) -> Page | None:
    """A page with these records, behind the last page; None where they are too many for one."""
    if len(records) > _MAX_ON_A_PAGE:
        return None
    places: dict[str, int] = {}
    for _, ns, _, _, _ in records:
        places.setdefault(ns, len(places))
    return Page(
        back=last[0],
        digest=last[1].hex(),
        spaces=list(places),
        puts=[(seq, places[ns], id, parent) for seq, ns, id, parent, is_put in records if is_put],
        writes=[(seq, places[ns], id) for seq, ns, id, _, is_put in records if not is_put],
    )


def plain(raw: msgspec.Raw) -> Any:
    """A part that needs no translation."""
    return decode_value(bytes(raw))
