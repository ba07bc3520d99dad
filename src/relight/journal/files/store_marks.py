"""Recognises files of a relight store by content, whatever their name or location.

A database has our application id in its header or, until its WAL is checkpointed, in the first page that the WAL holds.
A directory of a store (content, run directory, server) holds a file with a fixed text. What belongs to a database by
name alone (WAL, its index, watermark file, content, run directory) is a store's if the file it is named after is one.
The caller reads the bytes.
"""

from __future__ import annotations

import re
from typing import Final

APPLICATION_ID: Final = 0x524C4754
"""RLGT: the SQLite application id of our databases"""
MARK_NAME: Final = ".relight-store"
MARK: Final = (
    b"This directory belongs to a relight store. Workspaces that hold it leave it out of their snapshots,\n"
    b"and no restore touches it. Do not remove this file.\n"
)
HEAD_BYTES: Final = 100
"""bytes to read of a database, WAL or segment to recognise it"""
PAGE_BYTES: Final = 512
"""the size of a database is a multiple of this"""
SEGMENT_MAGIC: Final = b"RLSEG1\n\0"
INDEX_MAGIC: Final = b"RLIDX"
PART_MAGIC: Final = b"RLPRT1\n\0"

_DATABASE: Final = b"SQLite format 3\0"
_APPLICATION_ID: Final = APPLICATION_ID.to_bytes(4, "big")
_APPLICATION_ID_AT: Final = 68
_NO_APPLICATION: Final = bytes(4)
_ENDINGS: Final = (b"-wal", b"-shm", b"-journal", b"-told", b"-reserve", b".blobs", b".run")
_BESIDE: Final = rb"(?s)(.+?)(?:-wal|-shm|-journal|-told|-reserve|\.blobs|\.run|-wal-damaged-[0-9a-f]+)"


def is_database(head: bytes) -> bool:
    """Whether a file that begins so is the database of a store."""
    return _is_sqlite(head) and _id_in(head) == _APPLICATION_ID


def may_be_database(head: bytes) -> bool:
    """Whether it may be a new one whose first page is still in its WAL."""
    return _is_sqlite(head) and _id_in(head) == _NO_APPLICATION


def is_content(head: bytes) -> bool:
    """Whether a file that begins so holds captured files: a segment, its index, or a downloaded part."""
    return head.startswith((SEGMENT_MAGIC, INDEX_MAGIC, PART_MAGIC))


def database_of(name: bytes) -> bytes | None:
    """The database that a file name belongs to, if it is one that a store has beside its database."""
    if not name.endswith(_ENDINGS) and b"-wal-damaged-" not in name:
        return None  # nearly all names, and there may be a million
    found = re.fullmatch(_BESIDE, name)
    return found.group(1) if found is not None else None


def _is_sqlite(head: bytes) -> bool:
    return head.startswith(_DATABASE) and len(head) >= HEAD_BYTES


def _id_in(head: bytes) -> bytes:
    return head[_APPLICATION_ID_AT : _APPLICATION_ID_AT + 4]
