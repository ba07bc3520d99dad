"""Encoding of directories and snapshots, and validation of what is decoded.

A directory is a sorted list of entries, cut into pages at names chosen by a checksum, so that a change in a directory
of ten thousand files rewrites one page and a list of page hashes. The cut depends on the names alone: the same
directory has the same bytes, whichever process wrote it and in whatever order it grew.

Decoded bytes may come from an attacker. `decode_*` rejects names that could leave their directory, names out of order
or duplicated, content of a `.git` at the root in any spelling, unknown kinds, and sizes beyond the bounds.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from relight.errors import Corrupt
from relight.values.snapshot import Entry, SnapshotRecord

HASH_BYTES: Final = 32
PAGE_LEAST: Final = 48
"""a page has at least this many entries, unless it is the last"""
PAGE_MASK: Final = 63
"""after those, a page ends after 64 more entries on average"""
MAX_PAGE: Final = 512
"""no page is longer, whatever the checksums are"""
MAX_PAGES: Final = 200_000
CHUNK_BYTES: Final = 4 * 1024 * 1024
MAX_CHUNKS: Final = 65_536
OBJECT_MAX_BYTES: Final = 16 * 1024 * 1024
"""maximum size of a decompressed object"""
NAME_MAX_BYTES: Final = 255
_NO_NAMES: Final = frozenset({b"", b".", b".."})

_PAGE, _INDEX, _CHUNKS, _SNAPSHOT = b"P", b"I", b"C", b"S"
_encode = msgspec.msgpack.Encoder().encode
_entries = msgspec.msgpack.Decoder(list[Entry])
_hashes = msgspec.msgpack.Decoder(list[bytes])
_record = msgspec.msgpack.Decoder(SnapshotRecord)

T = TypeVar("T")
Read = Callable[[bytes], bytes]


def digest(data: bytes | memoryview) -> bytes:
    return hashlib.sha256(data).digest()


def snapshot_id(ref: bytes) -> str:
    return "sha256:" + ref.hex()


def snapshot_ref(snapshot: str) -> bytes:
    """The object hash in a snapshot's id."""
    kind, _, name = snapshot.partition(":")
    try:
        ref = bytes.fromhex(name)
    except ValueError:
        ref = b""
    if kind != "sha256" or len(ref) != HASH_BYTES:
        raise Corrupt(f"not a snapshot id: {snapshot[:100]!r}")
    return ref


def encode_pages(entries: Sequence[Entry]) -> list[tuple[bytes, bytes]]:
    """(first name, bytes) of each page of a directory; entries must be sorted by name."""
    pages: list[tuple[bytes, bytes]] = []
    start = 0
    while start < len(entries) - PAGE_LEAST:
        end = _page_end(entries, start)
        if end == len(entries):
            break
        pages.append((entries[start].name, _PAGE + _encode(entries[start:end])))
        start = end
    rest = entries[start:] if start else entries
    pages.append((rest[0].name if rest else b"", _PAGE + _encode(rest)))
    return pages


def _page_end(entries: Sequence[Entry], start: int) -> int:
    """The index at which the next page begins."""
    last = min(start + MAX_PAGE, len(entries))
    for at in range(start + PAGE_LEAST, last):
        if zlib.crc32(entries[at].name) & PAGE_MASK == 0:
            return at
    return last


def encode_index(pages: list[bytes]) -> bytes:
    return _INDEX + _encode(pages)


def encode_chunks(chunks: list[bytes]) -> bytes:
    return _CHUNKS + _encode(chunks)


def encode_snapshot(record: SnapshotRecord) -> bytes:
    return _SNAPSHOT + _encode(record)


def decode_snapshot(data: bytes) -> SnapshotRecord:
    record = _typed(_record, _SNAPSHOT, data)
    if record.version != 1 or len(record.tree) != HASH_BYTES:
        raise Corrupt("a snapshot record of an unknown version")
    return record


def decode_chunks(data: bytes) -> list[bytes]:
    chunks = _typed(_hashes, _CHUNKS, data)
    return _checked_hashes(chunks, MAX_CHUNKS)


def page_refs(data: bytes, ref: bytes) -> list[bytes]:
    """The page hashes of the directory object `data`: its own, or those it lists."""
    if data[:1] == _PAGE:
        return [ref]
    pages = _typed(_hashes, _INDEX, data)
    return _checked_hashes(pages, MAX_PAGES)


def read_directory(read: Read, ref: bytes, *, at_root: bool) -> Iterator[tuple[bytes, list[Entry]]]:
    """(page hash, entries) of each page, in order and validated."""
    data = read(ref)
    before = b""
    for page in page_refs(data, ref):
        entries = _typed(_entries, _PAGE, data if page == ref else read(page))
        _check_all(entries, before, at_root)
        before = entries[-1].name if entries else before
        yield page, entries


def check_name(name: bytes) -> None:
    """Corrupt unless the name is a plain name inside its directory."""
    if name in _NO_NAMES or len(name) > NAME_MAX_BYTES or b"/" in name or b"\0" in name:
        raise Corrupt(f"not a valid file name: {name[:80]!r}")


def is_git(name: bytes) -> bool:
    """True for `.git` in any spelling that some file system treats as the same name."""
    folded = name.decode("utf-8", "ignore").translate(_IGNORABLE).casefold().rstrip(". ").split(":")[0]
    return folded == ".git" or (folded.startswith("git~") and folded[4:].isdigit())


_IGNORABLE: Final = dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


def _check_all(entries: list[Entry], before: bytes, at_root: bool) -> None:
    """Validate entries: all names at once if they are harmless, as nearly always, else one by one."""
    names = [entry.name for entry in entries]
    joined = b"/".join(names)
    ordered = names == sorted(set(names)) and (not names or names[0] > before)
    harmless = ordered and joined.count(b"/") == max(len(names) - 1, 0) and b"\0" not in joined and not at_root
    if harmless and not _NO_NAMES.intersection(names) and max(map(len, names), default=0) <= NAME_MAX_BYTES:
        for entry in entries:
            _check_entry(entry)
        return
    for entry in entries:
        _check(entry, before, at_root)
        before = entry.name


def _check(entry: Entry, before: bytes, at_root: bool) -> None:
    check_name(entry.name)
    if entry.name <= before:
        raise Corrupt(f"a directory out of order at {entry.name[:80]!r}")
    if at_root and is_git(entry.name) and entry.kind != "skip":
        raise Corrupt("a snapshot that holds the root's .git")
    _check_entry(entry)


def _check_entry(entry: Entry) -> None:
    if entry.kind in ("file", "big", "dir") and len(entry.ref) != HASH_BYTES:
        raise Corrupt(f"an entry without content at {entry.name[:80]!r}")
    if entry.kind == "link" and not (0 < len(entry.ref) < 4096 and b"\0" not in entry.ref):
        raise Corrupt(f"a link without a target at {entry.name[:80]!r}")
    if entry.mode & ~0o7777 or entry.size_bytes < 0 or abs(entry.mtime_ns) >= 1 << 63:
        raise Corrupt(f"an entry out of bounds at {entry.name[:80]!r}")


def _typed(decoder: msgspec.msgpack.Decoder[T], tag: bytes, data: bytes) -> T:
    if data[:1] != tag:
        raise Corrupt("an object of an unexpected kind")
    try:
        return decoder.decode(memoryview(data)[1:])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Corrupt(f"an object that cannot be read: {error}") from error


def _checked_hashes(hashes: list[bytes], max_count: int) -> list[bytes]:
    if len(hashes) > max_count or any(len(one) != HASH_BYTES for one in hashes):
        raise Corrupt("a list of hashes out of bounds")
    return hashes
