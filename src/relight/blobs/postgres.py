"""Blobs in the store's own PostgreSQL database, for small installations. Implements `ports.blobs.Blobs`.

A blob is a few rows of bounded size, written in one transaction, whose first row takes the key: whole or absent. The
connection pool is the store's, and translates the driver's errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol

from relight.errors import Corrupt
from relight.ports.blobs import MAX_PAGE, Blob, checked_key, checked_prefix

PIECE_BYTES: Final = 512 * 1024
MAX_PIECES: Final = 1_000_000
MAX_DELETE: Final = 1000
_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def _statements() -> dict[str, bytes]:
    """All statements by name, without comments."""
    _, *parts = _NAME.split((Path(__file__).with_suffix(".sql")).read_text(encoding="utf-8"))
    texts = (re.sub(r"^--.*\n", "", text, flags=re.MULTILINE).strip() for text in parts[1::2])
    return dict(zip(parts[::2], (text.encode() for text in texts), strict=True))


SQL: Final = _statements()


class Database(Protocol):
    """The part of the store's connection pool that is used here."""

    @property
    def where(self) -> str:
        """Host, port and database, without a password."""
        ...

    def reading(self) -> AbstractContextManager[Any]:
        """A cursor in autocommit mode."""
        ...

    def transaction(self) -> AbstractContextManager[Any]:
        """A cursor; commits durably on normal exit."""
        ...


class PostgresBlobs:
    """Blobs in the table `relight.blobs`."""

    is_own = True
    address = "postgresql:"

    def __init__(self, database: Database) -> None:
        self._database = database
        self.location = f"{database.where}, table relight.blobs"

    def put(self, key: str, data: bytes) -> bool:
        pieces = [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)] or [b""]
        with self._database.transaction() as cursor:
            if cursor.execute(SQL["insert_first"], (checked_key(key), len(data), pieces[0])).rowcount == 0:
                return False
            if pieces[1:]:
                cursor.executemany(SQL["insert_piece"], [(key, *piece) for piece in enumerate(pieces[1:], 1)])
        return True

    def get(self, key: str) -> bytes | None:
        with self._database.reading() as cursor:
            rows = cursor.execute(SQL["read_pieces"], (checked_key(key), 0, MAX_PIECES)).fetchall()
        if not rows:
            return None
        data = b"".join(piece for _, _, piece in rows)
        if len(data) != rows[0][1]:
            raise Corrupt(f"{self.location}: a piece of {key} is missing")
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        first, last = start // PIECE_BYTES, max(start + length - 1, start) // PIECE_BYTES
        with self._database.reading() as cursor:
            rows = cursor.execute(SQL["read_pieces"], (checked_key(key), first, last)).fetchall()
        if not rows:
            return b"" if first and self.stat(key) is not None else None
        if [piece for piece, _, _ in rows] != list(range(first, first + len(rows))):
            raise Corrupt(f"{self.location}: a piece of {key} is missing")
        return b"".join(data for _, _, data in rows)[start - first * PIECE_BYTES :][:length]

    def stat(self, key: str) -> Blob | None:
        with self._database.reading() as cursor:
            row = cursor.execute(SQL["read_first"], (checked_key(key),)).fetchone()
        return None if row is None else _blob(row)

    def list(self, prefix: str = "", *, after: str = "", limit: int = MAX_PAGE) -> list[Blob]:
        checked_prefix(prefix)
        end = prefix[:-1] + "0" if prefix else ""  # the character after the slash
        with self._database.reading() as cursor:
            rows = cursor.execute(SQL["read_page"], (after, prefix, prefix, end, limit)).fetchall()
        return [_blob(row) for row in rows]

    def delete(self, keys: Iterable[str]) -> None:
        going = [checked_key(key) for key in keys]
        for at in range(0, len(going), MAX_DELETE):
            with self._database.transaction() as cursor:
                cursor.execute(SQL["delete_blobs"], (going[at : at + MAX_DELETE],))


def _blob(row: Any) -> Blob:
    key, size_bytes, written_us = row
    return Blob(key, size_bytes, written_us / 1e6)
