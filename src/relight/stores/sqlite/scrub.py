"""Zeroes what SQLite leaves of deleted rows: in the gaps of b-tree pages, and in pages that are free.

When SQLite moves cells to a neighbouring page, their old bytes remain in the gap between the cell pointers and the
first cell, and `secure_delete` ignores them. On a full disk it runs as FAST (`set_secure_delete_fast`), which also
leaves the content of free pages as it was, because zeroing them would go through the log. So after a deletion all of
that is zeroed in the file itself. That is safe only while no process writes: the caller holds the write lock and the
log is empty. None of it belongs to anything, so even a torn write does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import unpack_from
from typing import Final

import apsw

from relight.stores.sqlite.statements import SQL

_CHUNK_PAGES: Final = 256
_FILE_HEADER: Final = 100
_FREELIST_AT: Final = 32
_INTERIOR: Final = frozenset({2, 5})
_LEAVES: Final = frozenset({10, 13})


def scrub(connection: apsw.Connection, where: str, *, give_back: bool = False) -> int:
    """Zero what is unused, durably; returns how many pages had something in them. Requires the write lock and an empty
    log. `give_back`: return the space of free pages to the disk, where the file system can."""
    size = int(connection.execute(SQL["page_size"]).get)
    trees = {int(page) for (page,) in connection.execute(SQL["tree_pages"])}
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_MAIN_DB
    # Through SQLite's VFS: closing a descriptor of our own would drop the POSIX locks that SQLite holds on the file.
    file = apsw.VFSFile("", where, [flags, 0])
    try:
        cleaned, pages = 0, file.xFileSize() // size
        free = free_pages(file, size, pages)
        if give_back:
            _punch(where, size, (number for number, used in sorted(free.items()) if not used))
        for first in range(1, pages + 1, _CHUNK_PAGES):
            chunk = file.xRead(_CHUNK_PAGES * size, (first - 1) * size)
            for number in range(first, first + len(chunk) // size):
                page = chunk[(number - first) * size : (number - first + 1) * size]
                gap = unused(page, _FILE_HEADER if number == 1 else 0) if number in trees else None
                gap = (free[number], size) if number in free else gap
                if gap is not None and page.count(0, *gap) < gap[1] - gap[0]:
                    file.xWrite(bytes(gap[1] - gap[0]), (number - 1) * size + gap[0])
                    cleaned += 1
        if cleaned or give_back:
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


def free_pages(file: apsw.VFSFile, size: int, pages: int) -> dict[int, int]:
    """The free pages, each with how many bytes at its beginning are in use: in those that list others, the list. Empty
    if the list is not one that SQLite would write."""
    found: dict[int, int] = {}
    trunk, expected = unpack_from(">II", file.xRead(8, _FREELIST_AT))
    while trunk:
        if not 1 < trunk <= pages or trunk in found:
            return {}
        page = file.xRead(size, (trunk - 1) * size)
        following, count = unpack_from(">II", page)
        if count > size // 4 - 2:
            return {}
        leaves = unpack_from(f">{count}I", page, 8)
        if any(not 1 < leaf <= pages or leaf in found for leaf in leaves):
            return {}
        found |= dict.fromkeys(leaves, 0)
        found[trunk] = 8 + 4 * count
        trunk = following
    return found if len(found) == expected else {}


def _punch(where: str, size: int, numbers: Iterable[int]) -> None:
    """Return the space of these pages to the disk; they read as zeros. Does nothing where that is not possible."""
    from relight.stores.sqlite.connection.punch_hole import (  # ctypes, which no other command needs
        punch_hole,
        writable_descriptor,
    )

    fd = writable_descriptor(where)  # SQLite's, never one of our own: see `scrub`
    if fd is None:
        return
    for first, last in _runs(numbers):
        if not punch_hole(fd, (first - 1) * size, (last - first + 1) * size):
            return


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as runs (first, last)."""
    first = last = 0
    for number in numbers:
        if number != last + 1:
            if last:
                yield first, last
            first = number
        last = number
    if last:
        yield first, last
