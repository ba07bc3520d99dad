"""Does the write-ahead log hold commits that SQLite does not see? Then it is damaged, and they were acknowledged.

SQLite reads a log up to the first frame whose checksum fails, and forgets the rest: right for a transaction that was
cut off by a crash, silent loss for a byte that was flipped later. The two differ in what follows. Checksums chain, so a
frame that fits the checksum stored in a commit's last frame was written by somebody for whom that commit had been
durable. Two such commits behind the end that SQLite sees are proof; one alone may be the transaction that was cut off.

Only the frames behind that end are looked at: usually there are none. `told.py` is the other witness, and knows more
while its file is there.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from struct import unpack, unpack_from
from typing import BinaryIO, Final

import apsw

from relight.errors import Corrupt
from relight.stores.sqlite import files
from relight.stores.sqlite.statements import SQL
from relight.stores.sqlite.watermark import CHANGES, Watermark

MAX_FRAMES: Final = 4096
"""frames looked at behind the end"""
_HEADER: Final = 32
_FRAME: Final = 24
_BIG_ENDIAN: Final = 0x377F0683
_MASK: Final = 0xFFFFFFFF


def check_log(connection: apsw.Connection, path: Path, told: Watermark) -> None:
    """Raise Corrupt, once for every loss, after a copy of the log was put beside the database."""
    changes = told.seq(CHANGES)
    counted = int(connection.execute(SQL["changes"]).get or 0)
    if changes > counted:
        told.write([(CHANGES, counted)])
        raise Corrupt(
            f"names, labels or deletions that were acknowledged are lost in {path}: the write-ahead log was damaged "
            f"({_kept(path) or 'it is gone'}), or an older copy was put back"
        )
    if _has_lost_commits(connection, files.wal_of(path)) and (evidence := _kept(path)):
        raise Corrupt(f"the write-ahead log of {path} is damaged, and acknowledged steps are lost ({evidence})")


def _has_lost_commits(connection: apsw.Connection, log: Path) -> bool:
    if not files.size_bytes(log):
        return False
    seen = _frames_seen(connection)
    with log.open("rb") as file:
        lost = _has_two_commits(file, seen, int(connection.execute(SQL["page_size"]).get))
    return lost and _frames_seen(connection) == seen  # else somebody is writing it right now


def _kept(path: Path) -> str:
    """Put a copy of the log beside the database; where it is, or nothing where it is there already."""
    log = files.wal_of(path)
    if not files.size_bytes(log):
        return ""
    evidence = log.with_name(f"{log.name}-damaged-{sha256(log.read_bytes()).hexdigest()[:8]}")
    if evidence.exists():
        return ""
    import shutil  # it brings three compressors along, and this hardly ever happens

    shutil.copyfile(log, evidence)
    evidence.chmod(files.FILE_MODE)
    return f"a copy is in {evidence}"


def evidence_of(path: Path) -> list[Path]:
    """Copies of damaged logs that were kept."""
    return sorted(path.parent.glob(f"{files.wal_of(path).name}-damaged-*"))


def _frames_seen(connection: apsw.Connection) -> int:
    connection.execute(SQL["user_version"]).fetchall()  # opens the log, if nobody has yet
    return connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_NOOP)[0]


def _has_two_commits(file: BinaryIO, seen: int, page_size: int) -> bool:
    """Behind frame `seen`: a commit, and a second one whose frames all chain to the first."""
    header = file.read(_HEADER)
    order = ">" if len(header) == _HEADER and unpack_from(">I", header)[0] == _BIG_ENDIAN else "<"
    start = _sums(header[:24], (0, 0), order) if len(header) == _HEADER else None
    is_whole = start is not None and start == unpack_from(">II", header, 24)
    if (
        not seen
        and is_whole
        and start is not None
        and _begins_with_commit(file, header[16:24], start, page_size, order)
    ):
        return False  # SQLite would see it, so it has begun anew: all that stands here is in the database already
    salts = header[16:24] if is_whole else None
    file.seek(_HEADER + seen * (_FRAME + page_size))
    sums: tuple[int, int] | None = None  # of the frame before, once a commit was met
    for _ in range(MAX_FRAMES):
        frame = file.read(_FRAME + page_size)
        if len(frame) < _FRAME + page_size:
            return False
        salts = salts or frame[8:16]  # a header that is not whole is the damage itself
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
    """Is everything whole from the header to the first commit?"""
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
    """A frame's checksum covers its first 8 bytes and its page, and goes on from the frame before."""
    return _sums(frame[:8] + frame[_FRAME:], sums, order)


def _sums(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    """SQLite's checksum of the log."""
    first, second = sums
    words = unpack(f"{order}{len(data) // 4}I", data)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & _MASK
        second = (second + two + first) & _MASK
    return first, second
