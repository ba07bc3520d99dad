"""Exporting a bundle: a session, the ancestors it depends on and its captured files, in one file.

Steps are exported unchanged, so that the digest chain still proves them. If the redactor finds a secret in one, it is
exported without it, and the chain is computed again from there; the manifest says how many steps were changed. The file
appears under its name complete or not at all, and replaces nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

import msgspec

from relight.errors import Corrupt, NotFound, Refused, StoreFull, StoreUnavailable, UsageError
from relight.history.branching import head_at
from relight.history.loading import Found, chain_of
from relight.journal.bundle import (
    FORMAT,
    KEY_MIN_BYTES,
    MAX_ATTACHMENTS,
    MAX_PARTS,
    PIECE_BYTES,
    BundleInvalid,
    LabelRow,
    Manifest,
    Piece,
    Writer,
    key_id,
    part_row,
    step_row,
)
from relight.journal.chain import step_digest
from relight.journal.codec import Undecodable, decode_changes, encode_changes
from relight.journal.lineage import owner_of
from relight.journal.redaction.redactor import Redactor
from relight.sessions.context import Context
from relight.system.durable import sync_directory, sync_file
from relight.values.ref import check_name
from relight.values.session import GENESIS, Head, Identity
from relight.values.step import Changes, Step

_OUT_OF_IDENTITY: Final = ("key", "task", "labels", "metadata", "command", "env")
_OUT_OF_HEAD: Final = ("reason", "failure", "question", "asking", "said")


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an export."""

    session: str
    name: str | None
    steps: int
    objects: int
    """number of objects of captured files"""
    redacted: int
    """number of steps exported without a secret they held"""
    secrets_left: int
    """number of steps with secrets that were exported as requested"""
    signed_by: str | None
    """id of the key, see `key_id`"""
    sha256: str
    size_bytes: int
    attachments: list[str]


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of one session with after < seq <= upto."""

    identity: Identity
    after: int
    upto: int


def export_to(
    context: Context,
    found: Found,
    path: str,
    *,
    redact: bool = True,
    key: bytes | None = None,
    attachments: Mapping[str, str | os.PathLike[str]] | None = None,
) -> Exported:
    """Write the bundle of a session to a new file."""
    given = {check_name(name, "attachment name"): Path(attached) for name, attached in (attachments or {}).items()}
    _check(found, key, given)
    partial = f"{path}.partial-{context.entropy.session_id()[:8]}"
    # Only to refuse before the work; the link below is what guarantees that nothing is replaced.
    if os.path.lexists(path):
        raise Refused(f"{path}: the file exists already", hints=["choose another file"])
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            written = _Export(context, found, redact=redact).write(file, key, given)
            file.flush()
            sync_file(file.fileno())
            size = file.tell()
        os.link(partial, path)  # unlike a rename it never replaces an existing file
        sync_directory(Path(path).absolute().parent)
    except FileExistsError:
        raise Refused(f"{path}: the file exists already", hints=["choose another file"]) from None
    except OSError as error:
        kind = StoreFull if error.errno == 28 else StoreUnavailable
        raise kind(f"{path}: the bundle could not be written: {error.strerror}") from error
    except BundleInvalid as error:
        raise Refused(f"{found.identity.name or found.identity.id}: cannot be bundled: {error}") from None
    finally:
        if os.path.lexists(partial):
            os.unlink(partial)
    return msgspec.structs.replace(written, size_bytes=size)


def _check(found: Found, key: bytes | None, attachments: Mapping[str, Path]) -> None:
    name = found.identity.name or found.identity.id
    if found.seq is not None:
        hints = [f"fork the checkpoint first: relight fork {name}@{found.seq}"]
        raise UsageError("a bundle contains a whole session, not one up to a checkpoint", hints=hints)
    if key is not None and len(key) < KEY_MIN_BYTES:
        hints = ["create one: head -c 32 /dev/urandom > bundle.key"]
        raise UsageError(f"a key of {len(key)} bytes; the minimum is {KEY_MIN_BYTES}", hints=hints)
    if len(attachments) > MAX_ATTACHMENTS:
        raise UsageError(f"{len(attachments)} attachments; the maximum is {MAX_ATTACHMENTS}")
    for attached in attachments.values():
        if not attached.is_file():
            raise NotFound(str(attached), what="file")


class _Export:
    """One export: a first pass over every step finds secrets and damage, the second one writes."""

    def __init__(self, context: Context, found: Found, *, redact: bool) -> None:
        self._context, self._store, self._redact = context, context.store, redact
        self._redactor: Redactor = context.redactor()
        self._found, self._head = found, found.whole_head()
        self._chain = chain_of(context.store, found.identity)
        self._parts = _parts_of(self._chain, self._head)
        self._roots = sorted({root for part in self._parts for root in part.identity.workspace})
        self._points = {part.after for part in self._parts} | {part.upto for part in self._parts}
        self._digests: dict[tuple[str, int], tuple[bytes, bytes]] = {}
        """digests at the edges of parts: as stored, and as exported"""
        self._sizes: dict[str, int] = {}
        self.changed = 0

    def write(self, file: BinaryIO, key: bytes | None, attachments: Mapping[str, Path]) -> Exported:
        for root in self._roots:
            check_name(root, "name of a root")
        for part in self._parts:
            self._sizes[part.identity.id] = sum(len(step.body) for step in self._steps(part))
        found, self.changed = self.changed, 0
        writer = Writer(file)
        writer.manifest(self._manifest(found if self._redact else 0, list(attachments)))
        steps = sum(self._write_part(writer, number, part) for number, part in enumerate(self._parts))
        objects = sum(self._write_objects(writer, number, root) for number, root in enumerate(self._roots))
        for number, attached in enumerate(attachments.values()):
            with open(attached, "rb") as source:
                for data in self._pieces(source):
                    writer.piece(Piece(number, data))
        digest = writer.end(key)
        return Exported(
            session=self._found.identity.id,
            name=self._found.identity.name,
            steps=steps,
            objects=objects,
            redacted=found if self._redact else 0,
            secrets_left=0 if self._redact else found,
            signed_by=key_id(key) if key is not None else None,
            sha256=digest.hex(),
            size_bytes=0,
            attachments=list(attachments),
        )

    # -- steps ------------------------------------------------------------------------------------------------

    def _steps(self, part: _Part) -> Iterator[Step]:
        """The steps as exported, each checked by its stored digest."""
        session, seq = part.identity.id, part.after
        stored, exported = self._digest_at(part, seq)
        for step in self._store.steps(session, after=part.after, upto=part.upto):
            if step.seq != seq + 1 or step_digest(stored, step) != step.digest:
                raise Corrupt("the step is missing or fails its digest", session=session, seq=seq + 1)
            cleaned = self._redacted_step(step)
            # Once one step was redacted, the digests of all later ones change too: each covers the one before it.
            if cleaned is not step or exported != stored:
                cleaned = msgspec.structs.replace(cleaned, digest=step_digest(exported, cleaned))
            seq, stored, exported = step.seq, step.digest, cleaned.digest
            if seq in self._points:
                self._digests[session, seq] = (stored, exported)
            yield cleaned
        if seq != part.upto:
            raise Corrupt("the step is missing", session=session, seq=seq + 1)

    def _digest_at(self, part: _Part, seq: int) -> tuple[bytes, bytes]:
        """Digest of a step at the edge of a part, whichever ancestor holds it."""
        if seq == 0:
            return GENESIS, GENESIS
        generation = next(at for at, identity in enumerate(self._chain) if identity.id == part.identity.id)
        return self._digests[owner_of(self._chain[generation:], seq), seq]

    def _redacted_step(self, step: Step) -> Step:
        """The step without secrets, its digest not updated yet; the same object if there are none."""
        try:
            changes = msgspec.to_builtins(decode_changes(step.body))
        except Undecodable as error:
            raise Corrupt(f"the step cannot be read: {error}", session=step.session, seq=step.seq) from None
        after = self._redactor.value(changes)
        if after is changes:
            return step
        self.changed += 1
        if not self._redact:
            return step
        return msgspec.structs.replace(step, body=encode_changes(msgspec.convert(after, Changes)))

    def _write_part(self, writer: Writer, number: int, part: _Part) -> int:
        session, written = part.identity.id, 0
        rows = self._store.checkpoints(session, after=part.after, upto=part.upto)
        held = {row.seq: row.snapshots for row in rows if row.snapshots}
        for step in self._steps(part):
            taken = [(self._roots.index(root), snapshot) for root, snapshot in sorted(held.get(step.seq, {}).items())]
            writer.step(step_row(number, step, taken))
            written += 1
        labels = {row.seq: row.label for row in rows if row.label is not None}
        last = {self._store.find_label(session, label, upto=part.upto) for label in labels.values()}
        for seq in sorted(labels, key=lambda one: (one in last, one)):  # the newest use of a label last: it wins
            writer.label(LabelRow(number, seq, labels[seq]))
        return written

    # -- who --------------------------------------------------------------------------------------------------

    def _manifest(self, redacted: int, attachments: list[str]) -> Manifest:
        parts = []
        for part in self._parts:
            identity, head = part.identity, self._head_of(part)
            if self._redact:
                identity = _without(self._redactor, identity, _OUT_OF_IDENTITY)
                head = _without(self._redactor, head, _OUT_OF_HEAD)
            parts.append(part_row(identity, head))
        created = self._context.clock.now_us()
        return Manifest(
            format=FORMAT,
            created_us=created,
            parts=parts,
            roots=self._roots,
            attachments=attachments,
            redacted=redacted,
        )

    def _head_of(self, part: _Part) -> Head:
        """The session's own head without its lease; for an ancestor, a head at the fork point."""
        digest, size = self._digest_at(part, part.upto)[1], self._sizes[part.identity.id]
        if part.identity.id == self._found.identity.id:
            here = {"lease": None, "native": None, "handle": None}  # meaningful on this machine only
            return msgspec.structs.replace(self._head, digest=digest, size_bytes=size, **here)
        found = Found(identity=part.identity, head=None, seq=part.upto)
        head = head_at(self._context, found, part.upto)
        reason = f"kept for its fork {self._found.identity.name or self._found.identity.id[:8]}"
        return msgspec.structs.replace(
            head, session=part.identity.id, digest=digest, size_bytes=size, status="archived", reason=reason
        )

    # -- files ------------------------------------------------------------------------------------------------

    def _write_objects(self, writer: Writer, number: int, root: str) -> int:
        """The objects of the snapshots of one root; forks share a pool, other ancestors may have their own."""
        wanted: dict[str, list[str]] = {}
        for part in self._parts:
            for row in self._store.checkpoints(part.identity.id, after=part.after, upto=part.upto):
                if root in row.snapshots:
                    pool = part.identity.pools.get(root) or self._context.workspaces().pool_of(
                        part.identity.workspace[root]
                    )
                    wanted.setdefault(pool, []).append(row.snapshots[root])
        written = 0
        for pool, snapshots in wanted.items():
            for data in self._context.workspaces().objects(pool, dict.fromkeys(snapshots)):
                writer.object(number, data)
                written += 1
        return written

    def _pieces(self, source: IO[bytes]) -> Iterator[bytes]:
        """An attachment without secrets, line by line: a transcript has one message per line."""
        lines = (self._line(line) for line in source) if self._redact else iter(lambda: source.read(PIECE_BYTES), b"")
        held = b""
        for line in lines:
            held += line
            while len(held) >= PIECE_BYTES:
                yield held[:PIECE_BYTES]
                held = held[PIECE_BYTES:]
        yield held

    def _line(self, line: bytes) -> bytes:
        try:
            value = msgspec.json.decode(line)
            after = self._redactor.value(value)
            return line if after is value else msgspec.json.encode(after) + b"\n"
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            text = line.decode("utf-8", "surrogateescape")
            return self._redactor.text(text).encode("utf-8", "surrogateescape")


def _parts_of(chain: list[Identity], head: Head) -> list[_Part]:
    """Parts, oldest ancestor first. An ancestor is needed up to its fork point, and at least to its own beginning."""
    if len(chain) > MAX_PARTS:
        raise Refused(f"{chain[0].name or chain[0].id}: {len(chain)} generations; a bundle holds {MAX_PARTS}")
    parts: list[_Part] = []
    upto = head.seq
    for identity in chain:
        begins = identity.parent.seq if identity.parent is not None else 0
        parts.append(_Part(identity=identity, after=begins, upto=max(upto, begins)))
        upto = begins
    return parts[::-1]


def _without(redactor: Redactor, record: Any, names: tuple[str, ...]) -> Any:
    """The same record with secrets removed from these fields."""
    fields = msgspec.to_builtins({name: getattr(record, name) for name in names})
    after = redactor.value(fields)
    if after is fields:
        return record
    types = {field.name: field.type for field in msgspec.structs.fields(type(record))}
    changed = {name: msgspec.convert(after[name], types[name]) for name in names}
    return msgspec.structs.replace(record, **changed)
