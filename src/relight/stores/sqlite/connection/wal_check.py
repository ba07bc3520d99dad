"""Detects acknowledged commits in a damaged write-ahead log that SQLite silently ignores.

SQLite reads a log up to the first frame whose checksum fails, and ignores the rest: right for a transaction that was
cut off by a crash, silent loss for a byte that was flipped later. The two differ in what follows. Checksums chain, so a
frame that fits the checksum stored in a commit's last frame was written by a process for which that commit had been
durable. Two such commits behind the end that SQLite sees are proof; one alone may be the transaction that was cut off.

Only frames behind that end are read: usually there are none. The watermark is the other evidence, and knows more while
its file exists.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from struct import unpack, unpack_from
from typing import BinaryIO, Final

import apsw

from relight.errors import Corrupt
from relight.stores.sqlite.connection import files
from relight.stores.sqlite.connection.watermark import CHANGES, Watermark
from relight.stores.sqlite.statements import SQL

MAX_FRAMES: Final = 4096
"""frames read behind the end"""
_HEADER: Final = 32
_FRAME: Final = 24
_BIG_ENDIAN: Final = 0x377F0683
_MASK: Final = 0xFFFFFFFF


def check_log(connection: apsw.Connection, path: Path, watermark: Watermark) -> None:
    """Raise Corrupt, once for every loss, after a copy of the log was saved beside the database."""
    changes = watermark.seq(CHANGES)
    counted = int(connection.execute(SQL["changes"]).get or 0)
    if changes > counted:
        watermark.write([(CHANGES, counted)])
        raise Corrupt(
            f"names, labels or deletions that were acknowledged are lost in {path}: the write-ahead log was damaged "
            f"({_save_evidence(path) or 'it is gone'}), or an older copy was restored"
        )
    if _has_lost_commits(connection, files.wal_of(path)) and (evidence := _save_evidence(path)):
        raise Corrupt(f"the write-ahead log of {path} is damaged, and acknowledged steps are lost ({evidence})")


def _has_lost_commits(connection: apsw.Connection, log: Path) -> bool:
    if not files.size_bytes(log):
        return False
    frames_seen = _frames_seen(connection)
    with log.open("rb") as file:
        lost = _has_two_commits(file, frames_seen, int(connection.execute(SQL["page_size"]).get))
    return lost and _frames_seen(connection) == frames_seen  # else another process is writing it right now


def _save_evidence(path: Path) -> str:
    """Copy the log beside the database, and say where; empty if that copy exists already."""
    log = files.wal_of(path)
    if not files.size_bytes(log):
        return ""
    evidence = log.with_name(f"{log.name}-damaged-{sha256(log.read_bytes()).hexdigest()[:8]}")
    if evidence.exists():
        return ""
    import shutil  # imports three compression modules, and this hardly ever happens

    shutil.copyfile(log, evidence)
    evidence.chmod(files.FILE_MODE)
    return f"a copy is in {evidence}"


def evidence_of(path: Path) -> list[Path]:
    """The saved copies of damaged logs."""
    return sorted(path.parent.glob(f"{files.wal_of(path).name}-damaged-*"))


def _frames_seen(connection: apsw.Connection) -> int:
    connection.execute(SQL["user_version"]).fetchall()  # makes SQLite open the log, if it has not yet
    return connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_NOOP)[0]


def _has_two_commits(file: BinaryIO, frames_seen: int, page_size: int) -> bool:
    """Behind frame `frames_seen`: a commit, and a second one whose frames all chain to the first."""
    header = file.read(_HEADER)
    order = ">" if len(header) == _HEADER and unpack_from(">I", header)[0] == _BIG_ENDIAN else "<"
    start = _sums(header[:24], (0, 0), order) if len(header) == _HEADER else None
    is_whole = start is not None and start == unpack_from(">II", header, 24)
    if (
        not frames_seen
        and is_whole
        and start is not None
        and _begins_with_commit(file, header[16:24], start, page_size, order)
    ):
        return False  # SQLite sees no frame of a valid log, so it was restarted: all of it is in the database already
    salts = header[16:24] if is_whole else None
    file.seek(_HEADER + frames_seen * (_FRAME + page_size))
    sums: tuple[int, int] | None = None  # of the previous frame, once a commit was found
    for _ in range(MAX_FRAMES):
        frame = file.read(_FRAME + page_size)
        if len(frame) < _FRAME + page_size:
            return False
        salts = salts or frame[8:16]  # the header itself is damaged: take the salts from the first frame
        is_commit = frame[4:8] != b"\0\0\0\0"
        stored: tuple[int, int] = unpack_from(">II", frame, 16)
        if frame[8:16] != salts or (sums is not None and _frame_sums(frame, sums, order) != stored):
            sums = None
        elif sums is not None and is_commit:
            return True
        if frame[8:16] == salts and (is_commit or sums is not None):
            sums = stored
    return False


def _begins_with_commit(file: BinaryIO, salts: bytes, sums: tuple[int, int], page_size: int, order: str) -> bool:
    """True if all frames from the header to the first commit are valid."""
    for _ in range(MAX_FRAMES):
        frame = file.read(_FRAME + page_size)
        if len(frame) < _FRAME + page_size or frame[8:16] != salts:
            return False
        sums = _frame_sums(frame, sums, order)
        if sums != unpack_from(">II", frame, 16):
            return False
        if frame[4:8] != b"\0\0\0\0":
            return True
    return False


def _frame_sums(frame: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """A frame's checksum covers its first 8 bytes and its page, and continues that of the frame before."""
    return _sums(frame[:8] + frame[_FRAME:], sums, order)


def _sums(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """The checksum that SQLite's log format defines."""
    first, second = sums
    words = unpack(f"{order}{len(data) // 4}I", data)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & _MASK
        second = (second + two + first) & _MASK
    return first, second
