"""Zeroes what secure_delete leaves: copies of deleted cells in the unallocated middle of b-tree pages.

When SQLite moves cells to a neighbouring page, their old bytes remain in the gap between the cell pointers and the
first cell, and `secure_delete` ignores them. So after a deletion that gap is zeroed in the file itself. That is safe
only while no process writes: the caller holds the write lock and the log is empty. The gap belongs to nothing, so even
a torn write does no harm.
"""

from __future__ import annotations

from struct import unpack_from
from typing import Final

import apsw

from relight.stores.sqlite.statements import SQL

_CHUNK_PAGES: Final = 256
_FILE_HEADER: Final = 100
_INTERIOR: Final = frozenset({2, 5})
_LEAVES: Final = frozenset({10, 13})


def scrub(connection: apsw.Connection, where: str) -> int:
    """Zero the gaps, durably; returns how many pages had something in them. Requires the write lock and an empty
    log."""
    size = int(connection.execute(SQL["page_size"]).get)
    trees = {int(page) for (page,) in connection.execute(SQL["tree_pages"])}
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_MAIN_DB
    # Through SQLite's VFS: closing a descriptor of our own would drop the POSIX locks that SQLite holds on the file.
    file = apsw.VFSFile("", where, [flags, 0])
    try:
        cleaned = 0
        for first in range(1, file.xFileSize() // size + 1, _CHUNK_PAGES):
            chunk = file.xRead(_CHUNK_PAGES * size, (first - 1) * size)
            for number in range(first, first + len(chunk) // size):
                page = chunk[(number - first) * size : (number - first + 1) * size]
                gap = unused(page, _FILE_HEADER if number == 1 else 0) if number in trees else None
                if gap is not None and page.count(0, *gap) < gap[1] - gap[0]:
                    file.xWrite(bytes(gap[1] - gap[0]), (number - 1) * size + gap[0])
                    cleaned += 1
        if cleaned:
            file.xSync(apsw.SQLITE_SYNC_FULL)
        return cleaned
    finally:
        file.xClose()


def unused(page: bytes, header: int) -> tuple[int, int] | None:
    """The gap from the last cell pointer to the first cell; None if the page is not a valid b-tree page."""
    kind, _, cells, content, _ = unpack_from(">BHHHB", page, header)
    if kind not in _INTERIOR | _LEAVES:
        return None
    start = header + (12 if kind in _INTERIOR else 8)
    end = start + 2 * cells
    content = content or 65_536
    pointers = unpack_from(f">{cells}H", page, start) if end <= len(page) else ()
    if not end <= content <= len(page) or any(pointer < content for pointer in pointers):
        return None
    return end, content
