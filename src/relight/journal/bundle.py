"""The bundle format: sessions in one file, for export and import. Data only, read as a stream, bounded everywhere.

    magic, then frames: kind, stored bytes, raw bytes (0: not compressed), sha256 of the stored bytes, stored bytes
    M  the manifest, first: identities of the sessions, the oldest ancestor first, the session itself last
    S  a step, with the snapshots it names; in the order of the parts, then by seq
    L  a label that was given to a checkpoint
    O  an object of a captured workspace, and the root it belongs to
    A  a piece of an attachment
    E  the end: how many of each there were, and the sha256 of every byte before it
    K  after the end, if it is signed: the key's id, and HMAC-SHA256 over the end's sha256

A bundle names no file or address: roots and attachments are plain names, content is named by its hash. The body of a
step is stored as in the journal, whose bound applies; an object has a bound of its own.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Iterator
from hashlib import sha256
from typing import BinaryIO, Final, TypeVar

import msgspec

from relight.journal.codec import (
    Undecodable,
    decode_changes,
    decode_head,
    decode_identity,
    decode_open,
    encode_record,
    encoded,
)
from relight.journal.compression import Damaged, compress, decompress
from relight.values.policy import LIMITS
from relight.values.session import Head, Identity
from relight.values.step import Step, StepKind

FORMAT: Final = 1
MAGIC: Final = b"relight bundle 1\n"
MANIFEST, STEP, LABEL, OBJECT, ATTACHMENT, END, SIGNATURE = b"M", b"S", b"L", b"O", b"A", b"E", b"K"
OBJECT_MAX_BYTES: Final = 16 * 1024 * 1024
MANIFEST_MAX_BYTES: Final = 4 * 1024 * 1024
SMALL_MAX_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 1024 * 1024
MAX_PARTS: Final = 1000
MAX_ROOTS: Final = 64
MAX_ATTACHMENTS: Final = 64
KEY_MIN_BYTES: Final = 16
MAX_DECODED_BYTES: Final = 2 * 1024 * 1024
"""a larger body is trusted by its digest alone: decoding a few hostile bytes could create very many objects"""
_HEAD: Final = struct.Struct(">cQI32s")
_OBJECT_HEAD: Final = struct.Struct(">H")
_MAX: Final = {
    MANIFEST: MANIFEST_MAX_BYTES,
    STEP: LIMITS.step_bytes + SMALL_MAX_BYTES,
    LABEL: SMALL_MAX_BYTES,
    OBJECT: OBJECT_MAX_BYTES + _OBJECT_HEAD.size,
    ATTACHMENT: PIECE_BYTES + SMALL_MAX_BYTES,
    END: SMALL_MAX_BYTES,
    SIGNATURE: SMALL_MAX_BYTES,
}
_KEY_DOMAIN: Final = b"relight bundle key 1\n"
_SIGNED_DOMAIN: Final = b"relight bundle signature 1\n"
_T = TypeVar("_T")


class BundleInvalid(Exception):
    """Bytes that are not a valid bundle. Internal: import turns it into `BundleRefused`."""


class PartRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session as stored: identity and head in their own encoding."""

    identity: bytes
    head: bytes


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame: sessions, roots and attachments of the bundle."""

    format: int
    created_us: int
    parts: list[PartRow]
    roots: list[str] = []
    """names of workspace roots; objects and snapshots refer to them by index"""
    attachments: list[str] = []
    redacted: int = 0
    """number of steps changed by redaction; the digest chain was computed again"""


class StepRow(msgspec.Struct, frozen=True, array_like=True):
    """A step, and the snapshots taken with it as (root, id)."""

    part: int
    seq: int
    kind: StepKind
    at_us: int
    attempt: int
    base: int
    since: int
    message_count: int
    turns: int
    open: bytes
    label: str | None
    key: bytes
    digest: bytes
    body: bytes
    snapshots: list[tuple[int, str]] = []


class LabelRow(msgspec.Struct, frozen=True, array_like=True):
    """A label of a checkpoint; the last one of a checkpoint wins."""

    part: int
    seq: int
    label: str


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A piece of an attachment."""

    attachment: int
    data: bytes


class End(msgspec.Struct, frozen=True, array_like=True):
    """The last frame before the signature: counts and checksum."""

    steps: int
    labels: int
    objects: int
    pieces: int
    sha256: bytes


class Signature(msgspec.Struct, frozen=True, array_like=True):
    """Key id and MAC of a signed bundle."""

    key_id: str
    mac: bytes


def key_id(key: bytes) -> str:
    """A public id of a signing key, which does not reveal the key."""
    return sha256(_KEY_DOMAIN + key).hexdigest()[:16]


def mac_of(key: bytes, digest: bytes) -> bytes:
    """The MAC of this content with this key."""
    return hmac.digest(key, _SIGNED_DOMAIN + digest, "sha256")


def part_row(identity: Identity, head: Head) -> PartRow:
    """A session for the manifest."""
    return PartRow(identity=encode_record(identity), head=encode_record(head))


def read_part(row: PartRow) -> tuple[Identity, Head]:
    """Decode a session of the manifest, or BundleInvalid."""
    try:
        return decode_identity(row.identity), decode_head(row.head)
    except Undecodable as error:
        raise BundleInvalid(f"a session that cannot be read: {error}") from None


def step_row(part: int, step: Step, snapshots: list[tuple[int, str]]) -> StepRow:
    """A step for its frame."""
    columns = (step.at_us, step.attempt, step.base, step.since, step.message_count, step.turns)
    return StepRow(
        part, step.seq, step.kind, *columns, encoded(step.open), step.label, step.key, step.digest, step.body, snapshots
    )


def read_step(session: str, row: StepRow) -> Step:
    """Decode a step; a body that is small enough is decoded too. BundleInvalid if it holds no step."""
    try:
        opened = decode_open(row.open)
        if len(row.body) <= MAX_DECODED_BYTES and declared_bytes(row.body) <= MAX_DECODED_BYTES:
            decode_changes(row.body)
    except Undecodable as error:
        raise BundleInvalid(f"step {row.seq} cannot be read: {error}") from None
    return Step(
        session=session,
        seq=row.seq,
        kind=row.kind,
        at_us=row.at_us,
        attempt=row.attempt,
        base=row.base,
        since=row.since,
        message_count=row.message_count,
        turns=row.turns,
        open=opened,
        label=row.label,
        key=row.key,
        digest=row.digest,
        body=row.body,
    )


def declared_bytes(body: bytes) -> int:
    """The size that a compressed body declares."""
    return int.from_bytes(body[2:6], "big") if body[1:2] == b"\1" else len(body)


# -- writing -------------------------------------------------------------------------------------------------------


class Writer:
    """Writes frames to a file that the caller opened."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = sha256()
        self._counts = dict.fromkeys((STEP, LABEL, OBJECT, ATTACHMENT), 0)
        self._write(MAGIC)

    def manifest(self, manifest: Manifest) -> None:
        self._frame(MANIFEST, msgspec.msgpack.encode(manifest))

    def step(self, row: StepRow) -> None:
        self._frame(STEP, msgspec.msgpack.encode(row))

    def label(self, row: LabelRow) -> None:
        self._frame(LABEL, msgspec.msgpack.encode(row))

    def object(self, root: int, data: bytes) -> None:
        self._frame(OBJECT, _OBJECT_HEAD.pack(root) + data, packed=True)

    def piece(self, piece: Piece) -> None:
        self._frame(ATTACHMENT, msgspec.msgpack.encode(piece))

    def end(self, key: bytes | None) -> bytes:
        """Write the end frame, and a signature if there is a key; returns the sha256 of what precedes it."""
        digest = self._digest.digest()
        counts = self._counts
        end = End(counts[STEP], counts[LABEL], counts[OBJECT], counts[ATTACHMENT], digest)
        self._frame(END, msgspec.msgpack.encode(end))
        if key is not None:
            self._frame(SIGNATURE, msgspec.msgpack.encode(Signature(key_id(key), mac_of(key, digest))))
        return digest

    def _frame(self, kind: bytes, data: bytes, *, packed: bool = False) -> None:
        if len(data) > _MAX[kind]:
            raise BundleInvalid(f"{len(data):,} bytes in one piece; the maximum is {_MAX[kind]:,}")
        stored = compress(data) if packed else data
        self._write(_HEAD.pack(kind, len(stored), len(data) if packed else 0, sha256(stored).digest()))
        self._write(stored)
        if kind in self._counts:
            self._counts[kind] += 1

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)


# -- reading -------------------------------------------------------------------------------------------------------

Frame = Manifest | StepRow | LabelRow | tuple[int, bytes] | Piece | End | Signature
_DECODERS: Final[dict[bytes, msgspec.msgpack.Decoder[Frame]]] = {
    kind: msgspec.msgpack.Decoder(of)
    for kind, of in (
        (MANIFEST, Manifest), (STEP, StepRow), (LABEL, LabelRow), (ATTACHMENT, Piece), (SIGNATURE, Signature),
    )
}  # fmt: skip
_end = msgspec.msgpack.Decoder(End)


def frames(file: BinaryIO, size: int) -> Iterator[Frame]:
    """Every frame, each checked by its own sum, and at the end all of them; or BundleInvalid.

    The manifest comes first. A signature is returned, not verified; it comes last, when everything before it was
    checked.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise BundleInvalid("not a bundle, or one of a newer format")
    whole, left = sha256(MAGIC), size - len(MAGIC)
    counts = dict.fromkeys((STEP, LABEL, OBJECT, ATTACHMENT), 0)
    first, ended = True, False
    while left:
        head = file.read(_HEAD.size)
        if len(head) != _HEAD.size:
            raise BundleInvalid("it is truncated")
        kind, length, raw, digest = _HEAD.unpack(head)
        left -= _HEAD.size
        if kind not in _MAX or max(length, raw) > _MAX[kind] or length > left or (kind == MANIFEST) != first:
            raise BundleInvalid("it is truncated, or a frame has an invalid size or position")
        if ended and kind != SIGNATURE:
            raise BundleInvalid("data follows its end")
        stored = file.read(length)
        left -= length
        if len(stored) != length or sha256(stored).digest() != digest:
            raise BundleInvalid("a frame of it fails its checksum")
        first = False
        if raw and kind != OBJECT:
            raise BundleInvalid("unexpected compressed frame")
        if kind == END:
            ended = True
            yield _checked_end(stored, counts, whole.digest())
            continue
        if kind == SIGNATURE and (not ended or left):
            raise BundleInvalid("a signature in the wrong position")
        whole.update(head)
        whole.update(stored)
        if kind in counts:
            counts[kind] += 1
        yield _read(kind, stored, raw)
    if not ended:
        raise BundleInvalid("it is truncated")


def _read(kind: bytes, stored: bytes, raw: int) -> Frame:
    if kind == OBJECT:
        try:
            data = decompress(stored, raw)
        except Damaged as error:
            raise BundleInvalid(str(error)) from None
        if len(data) < _OBJECT_HEAD.size:
            raise BundleInvalid("an object without a root")
        return _OBJECT_HEAD.unpack_from(data)[0], data[_OBJECT_HEAD.size :]
    return _decoded(_DECODERS[kind], stored)


def _decoded(decoder: msgspec.msgpack.Decoder[_T], stored: bytes) -> _T:
    try:
        return decoder.decode(stored)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BundleInvalid(f"a frame of it cannot be decoded: {error}") from None


def _checked_end(stored: bytes, counts: dict[bytes, int], digest: bytes) -> End:
    end = _decoded(_end, stored)
    if (end.steps, end.labels, end.objects, end.pieces) != tuple(counts.values()) or end.sha256 != digest:
        raise BundleInvalid("the whole file fails its checksum")
    return end
