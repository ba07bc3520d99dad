"""Checks a bundle: every frame in order, every link of the digest chain, every bound; or `BundleInvalid`.

Read-only. A bundle is read as a stream; only sessions, labels and snapshot ids are held in memory, each up to a bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

import msgspec

from relight.errors import InvalidName, UsageError
from relight.journal.bundle import (
    FORMAT,
    MAX_ATTACHMENTS,
    MAX_PARTS,
    MAX_ROOTS,
    BundleInvalid,
    End,
    LabelRow,
    Manifest,
    Piece,
    Signature,
    StepRow,
    frames,
    read_part,
    read_step,
)
from relight.journal.chain import step_digest
from relight.journal.codec import decode_changes
from relight.journal.files.capture_moments import check_moments
from relight.journal.lineage import named_by
from relight.values.checkpoint import LATEST_US
from relight.values.ref import check_label, check_name, check_session_name, is_session_id
from relight.values.session import GENESIS, Head, Identity
from relight.values.step import Step

MAX_LABELS: Final = 100_000
MAX_SNAPSHOTS: Final = 200_000
MAX_STEPS: Final = 1 << 31
_SNAPSHOT_ID: Final = re.compile(r"sha256:[0-9a-f]{64}")

NamedSnapshots = tuple[Step, list[tuple[int, str]]]
"""a step, and the (root, snapshot) pairs taken with it"""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One session of a bundle; its own steps are those with after < seq <= head.seq."""

    identity: Identity
    head: Head
    after: int


class CheckedBundle(msgspec.Struct, kw_only=True):
    """The content of a bundle that passed all checks."""

    manifest: Manifest
    parts: list[Part]
    """oldest ancestor first, the session last"""
    labels: list[tuple[str, int, str]] = []
    """session, seq, label"""
    snapshots: dict[int, dict[str, None]] = {}
    """snapshot ids by root index"""
    steps: int = 0
    signature: Signature | None = None
    digest: bytes = b""
    """of the whole bundle; this is what a signature covers"""


def examine(file: BinaryIO, size: int) -> CheckedBundle:
    """Read and check the whole bundle once."""
    stream = frames(file, size)
    found = _begun(next(stream, None))
    chain = _Chain(found.parts)
    for frame in stream:
        if isinstance(frame, StepRow):
            _note_snapshots(found, frame, chain.follow(frame))
            found.steps += 1
        elif isinstance(frame, LabelRow):
            found.labels.append(_label(found.parts, frame))
            _bound(len(found.labels), MAX_LABELS, "labels")
        elif isinstance(frame, End):
            found.digest = frame.sha256
        elif isinstance(frame, Signature):
            found.signature = frame
        elif isinstance(frame, Piece):
            _bound(frame.attachment + 1, len(found.manifest.attachments), "attachments")
        elif isinstance(frame, tuple):
            _bound(frame[0] + 1, len(found.manifest.roots), "roots")
    chain.end()
    return found


def step_frames(file: BinaryIO, size: int, found: CheckedBundle) -> Iterator[NamedSnapshots]:
    """The steps of a bundle that was examined, checked again while they are read."""
    stream = frames(file, size)
    if _begun(next(stream, None)).manifest != found.manifest:
        raise BundleInvalid("it changed while it was read")
    chain = _Chain(found.parts)
    for frame in stream:
        if isinstance(frame, StepRow):
            yield chain.follow(frame), frame.snapshots
    chain.end()


def _begun(manifest: object) -> CheckedBundle:
    if not isinstance(manifest, Manifest) or manifest.format != FORMAT:
        raise BundleInvalid("no manifest, or one of a newer format")
    _bound(len(manifest.parts), MAX_PARTS, "sessions")
    _bound(len(manifest.roots), MAX_ROOTS, "roots")
    _bound(len(manifest.attachments), MAX_ATTACHMENTS, "attachments")
    if not manifest.parts or manifest.redacted < 0:
        raise BundleInvalid("it contains no session")
    try:
        for names in (manifest.roots, manifest.attachments):
            if len({check_name(name, "name") for name in names}) != len(names):
                raise BundleInvalid("duplicate name")
        return CheckedBundle(manifest=manifest, parts=_parts(manifest), labels=[], snapshots={})
    except (InvalidName, UsageError) as error:
        raise BundleInvalid(error.message) from None


def _parts(manifest: Manifest) -> list[Part]:
    parts: list[Part] = []
    for row in manifest.parts:
        identity, head = read_part(row)
        parent, older = identity.parent, parts[-1] if parts else None
        if not is_session_id(identity.id) or identity.id in {part.identity.id for part in parts}:
            raise BundleInvalid("invalid or duplicate session id")
        if (parent.session if parent else None) != (older.identity.id if older else None):
            raise BundleInvalid("ancestors that do not link up")
        if parent is not None and older is not None and not 1 <= parent.seq <= older.head.seq:
            raise BundleInvalid("a fork of a missing step")
        if identity.name is not None:
            check_session_name(identity.name)
        check_moments(identity.snapshot)
        if not set(identity.workspace) <= set(manifest.roots) or head.session != identity.id or head.lease is not None:
            raise BundleInvalid("identity and head of a session contradict each other")
        after = parent.seq if parent else 0
        if not after <= head.seq < MAX_STEPS or not 0 <= head.head <= head.seq or not 0 <= head.since <= head.seq:
            raise BundleInvalid("a head out of bounds")
        times = (identity.created_us, head.updated_us, head.ended_us or 0, head.wake_us or 0)
        if not all(0 <= one < LATEST_US for one in times) or not 0 <= head.epoch < MAX_STEPS:
            raise BundleInvalid("a time out of bounds")
        # Native session, runtime handle and queue position mean something on the exporting machine only.
        here = msgspec.structs.replace(head, native=None, handle=None, queue_position=None)
        own = msgspec.structs.replace(identity, queue_position=None, stop_attempt=None, former_name=None)
        parts.append(Part(identity=own, head=here, after=after))
    return parts


def _label(parts: list[Part], row: LabelRow) -> tuple[str, int, str]:
    if not 0 <= row.part < len(parts) or not parts[row.part].after < row.seq <= parts[row.part].head.seq:
        raise BundleInvalid("a label of a missing step")
    try:
        return parts[row.part].identity.id, row.seq, check_label(row.label)
    except InvalidName as error:
        raise BundleInvalid(error.message) from None


def _note_snapshots(found: CheckedBundle, row: StepRow, step: Step) -> None:
    _bound(len(row.snapshots), len(found.manifest.roots), "snapshots of a step")
    for root, snapshot in row.snapshots:
        if not 0 <= root < len(found.manifest.roots) or not _SNAPSHOT_ID.fullmatch(snapshot):
            raise BundleInvalid("invalid snapshot id")
        held = found.snapshots.setdefault(root, {})
        held[snapshot] = None
        _bound(len(held), MAX_SNAPSHOTS, "snapshots")
    if len({root for root, _ in row.snapshots}) != len(row.snapshots):
        raise BundleInvalid("two snapshots of one root in a step")
    if row.snapshots:
        named = {found.manifest.roots[root]: snapshot for root, snapshot in row.snapshots}
        if not named_by(named, decode_changes(step.body).snapshot or {}):
            raise BundleInvalid("snapshots that differ from those that a step names")


def _bound(number: int, most: int, what: str) -> None:
    if number > most:
        raise BundleInvalid(f"too many {what}")


class _Chain:
    """The digest chain through all parts, checked link by link."""

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts
        self._at = 0
        self._seq, self._digest = 0, GENESIS
        self._edges: dict[tuple[int, int], bytes] = {}
        self._points = {part.after for part in parts}

    def follow(self, row: StepRow) -> Step:
        """The next step, or BundleInvalid."""
        while row.part > self._at:
            self._end_part()
        part = self._parts[self._at]
        if row.part != self._at or row.seq != self._seq + 1 or row.seq > part.head.seq:
            raise BundleInvalid(f"step {row.seq} is out of order")
        counts = (row.attempt, row.message_count, row.turns)
        if not 0 <= row.at_us < LATEST_US or not all(0 <= one < MAX_STEPS for one in counts):
            raise BundleInvalid(f"step {row.seq} is out of bounds")
        if not 0 <= row.base <= row.seq or not 0 <= row.since <= row.seq or len(row.key) > 64:
            raise BundleInvalid(f"step {row.seq} is out of bounds")
        if row.label is not None:
            try:
                check_label(row.label)
            except InvalidName as error:
                raise BundleInvalid(error.message) from None
        step = read_step(part.identity.id, row)
        if step_digest(self._digest, step) != step.digest:
            raise BundleInvalid(f"step {row.seq} fails its digest")
        self._seq, self._digest = step.seq, step.digest
        if step.seq in self._points:
            self._edges[self._at, step.seq] = step.digest
        return step

    def end(self) -> None:
        """BundleInvalid unless every part is complete."""
        while self._at < len(self._parts):
            self._end_part()

    def _end_part(self) -> None:
        part = self._parts[self._at]
        if self._seq != part.head.seq or self._digest != part.head.digest:
            raise BundleInvalid("its last step is not the one its head names")
        self._at += 1
        if self._at < len(self._parts):
            self._seq = self._parts[self._at].after
            self._digest = self._digest_at(self._at - 1, self._seq)

    def _digest_at(self, number: int, seq: int) -> bytes:
        """Digest of an ancestor's step, whichever part holds it."""
        while seq <= self._parts[number].after and number:
            number -= 1
        found = self._edges.get((number, seq))
        if found is None:
            raise BundleInvalid("a fork of a missing step")
        return found
