"""Captures one file: reads it consistently, hashes it, puts it into the pool.

Guarantee: what is stored is what the file contained between two equal stats; a file that keeps changing while it is
read is left out ("changing") rather than stored torn. Memory is bounded by the chunk size.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from typing import Final, NamedTuple

from relight.journal.files.store_marks import HEAD_BYTES
from relight.ports.faults import point
from relight.values.snapshot import Entry, SkipReason
from relight.workspaces.pool.objects import CHUNK_BYTES, digest, encode_chunks
from relight.workspaces.pool.pool import Pool
from relight.workspaces.restore.openat import open_file
from relight.workspaces.store_detection import Stores

_COARSE_CLOCK: Final[int | None] = getattr(time, "CLOCK_REALTIME_COARSE", 5 if os.uname().sysname == "Linux" else None)
MAX_ATTEMPTS: Final = 3
RACY_NS: Final = 2 * (int(time.clock_getres(_COARSE_CLOCK) * 1e9) if _COARSE_CLOCK is not None else 10_000_000)
"""two ticks of the clock that the kernel stamps files with: within them a second write leaves the same stat"""
COARSE_NS: Final = 2_100_000_000
"""the same for file systems that store whole seconds"""
_GONE = (errno.ENOENT, errno.ENOTDIR)


class Captured(NamedTuple):
    """The result for one file: its entry, None if it is gone; whether the next snapshot must read it again."""

    entry: Entry | None
    recheck: bool
    read_bytes: int


def capture(root_fd: int, path: bytes, pool: Pool, former: Entry | None, max_bytes: int, stores: Stores) -> Captured:
    """Capture a file that may have changed; its content is in the pool on return."""
    name = path.rpartition(b"/")[2]
    for _ in range(MAX_ATTEMPTS):
        try:
            fd = open_file(root_fd, path)
        except OSError as error:
            if error.errno in _GONE:
                return Captured(None, False, 0)
            reason: SkipReason = "changing" if error.errno in (errno.ELOOP, errno.EXDEV, errno.ENXIO) else "unreadable"
            return Captured(skip(name, reason), True, 0)
        try:
            found = _capture_open(fd, path, pool, former, max_bytes, stores)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EACCES, errno.EISDIR, errno.EINVAL):
                raise
            return Captured(skip(name, "unreadable"), True, 0)
        finally:
            os.close(fd)
        if found is not None:
            return found
    return Captured(skip(name, "changing"), True, 0)


def skip(name: bytes, reason: SkipReason, size_bytes: int = 0) -> Entry:
    return Entry(name=name, kind="skip", ref=reason.encode(), size_bytes=size_bytes)


def is_racy(found: os.stat_result, now_ns: int) -> bool:
    """Whether a later write could leave the same stat."""
    newest = max(found.st_ctime_ns, found.st_mtime_ns)
    return newest > now_ns - (COARSE_NS if found.st_ctime_ns % 1_000_000_000 == 0 else RACY_NS)


def _capture_open(
    fd: int, path: bytes, pool: Pool, former: Entry | None, max_bytes: int, stores: Stores
) -> Captured | None:
    """Capture an open file; None if it changed while it was read."""
    name = path.rpartition(b"/")[2]
    before = os.fstat(fd)
    now_ns = time.time_ns()
    if not stat.S_ISREG(before.st_mode):
        return Captured(skip(name, "changing"), True, 0)
    if before.st_size > max_bytes:
        return Captured(skip(name, "too large", before.st_size), False, 0)
    size = before.st_size
    base = former.ref if former is not None and former.kind == "file" else None
    if size <= CHUNK_BYTES:
        data = _read(fd, size + 1)
        if stores.is_store_file(fd, path, data[:HEAD_BYTES], before):
            return Captured(skip(name, "store"), False, 0)
        ref, kind = hashlib.sha256(data).digest(), "file"
        read = len(data)
    else:
        if stores.is_store_file(fd, path, os.pread(fd, HEAD_BYTES, 0), before):
            return Captured(skip(name, "store"), False, 0)
        ref, read = _read_chunks(fd, size, pool)
        data, kind = b"", "big"
    point("snapshot.file_read")
    after = os.fstat(fd)
    if read != size or (after.st_size, after.st_mtime_ns, after.st_ctime_ns) != (
        size,
        before.st_mtime_ns,
        before.st_ctime_ns,
    ):
        return None
    if kind == "file":
        pool.put(ref, data, base)
    entry = Entry(
        name=name,
        kind="file" if kind == "file" else "big",
        mode=before.st_mode & 0o7777,
        ref=ref,
        size_bytes=size,
        mtime_ns=before.st_mtime_ns,
    )
    return Captured(entry, is_racy(before, now_ns), size)


def _read(fd: int, max_bytes: int) -> bytes:
    """Read up to `max_bytes`; a short read is not yet the end."""
    data = os.read(fd, max_bytes)
    if len(data) in (0, max_bytes - 1, max_bytes):
        return data
    pieces = [data]
    left = max_bytes - len(data)
    while left > 0 and (piece := os.read(fd, left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _read_chunks(fd: int, size: int, pool: Pool) -> tuple[bytes, int]:
    """Store a large file chunk by chunk: memory stays small, and an appended log shares its beginning."""
    chunks, read = [], 0
    while read < size and (data := _read(fd, min(CHUNK_BYTES, size - read))):
        ref = digest(data)
        pool.put(ref, data)
        chunks.append(ref)
        read += len(data)
    listing = encode_chunks(chunks)
    ref = digest(listing)
    pool.put(ref, listing)
    return ref, read + (1 if os.read(fd, 1) else 0)
