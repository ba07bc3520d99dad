"""What the saver writes: one record a `put`, one a `put_writes`. Data whose parts stay encoded until somebody asks.

A checkpoint's record holds the values that are new with it; for every other channel it names the record that has it.
A list is new only from the first element that differs from its parent's: the record names that list and says how much
of it is kept. So bytes grow with what is new, and a checkpoint is read from the records it names.
"""

from __future__ import annotations

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
    """how many elements of that one stay"""
    add: list[msgspec.Raw] = []
    weight: int = 0
    """elements written from the whole list on; what bounds the cost of reading it"""


class Put(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="kind", tag="put"):
    """One checkpoint."""

    ns: str = ""
    id: str
    parent: str | None = None
    rest: msgspec.Raw
    """the checkpoint without its values: version, time, channel versions, versions seen"""
    metadata: msgspec.Raw
    values: dict[str, msgspec.Raw] = {}
    lists: dict[str, ListPart] = {}
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


def pack(record: Put | Writes) -> bytes:
    """The bytes of a record. Its parts are encoded already."""
    return encoded(record)


def unpack(data: bytes) -> Put | Writes:
    """The record behind the bytes, or Undecodable."""
    found: Put | Writes = decode_typed(data, _decoder)
    return found


def plain(raw: msgspec.Raw) -> Any:
    """A part that needs no translation."""
    return decode_value(bytes(raw))
