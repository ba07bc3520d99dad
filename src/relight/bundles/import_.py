"""Importing a bundle: everything is checked before anything is written, and it becomes visible in one transaction.

A bundle may come from anyone. Unless it is signed with a key given by the user, its session is marked untrusted: its
command is stored for reading and cannot be started, and its files go only where the user says. No text of a bundle
becomes a path. A kill leaves at most captured content that nothing names, which the next sweep removes.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

import msgspec

from relight.bundles.check import Part, examine, step_frames
from relight.errors import BundleRefused, Corrupt, NotFound, SnapshotSwept, UsageError
from relight.files.restore import new_roots
from relight.history.branching import moved_directory
from relight.journal.bundle import KEY_MIN_BYTES, BundleInvalid, Piece, Signature, frames, key_id, mac_of
from relight.ports.store import Record
from relight.sessions import names as naming
from relight.sessions.context import Context
from relight.sessions.opening import IMPORTED
from relight.values.policy import RunPolicy
from relight.values.ref import check_session_name
from relight.values.session import Identity
from relight.values.snapshot import Snapshot
from relight.values.step import Step

_SWEPT_TRIES: Final = 4
_NAME_TRIES: Final = 1000
ATTACHMENT_MAX_BYTES: Final = 128 * 1024 * 1024


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import."""

    session: str
    name: str | None
    steps: int
    trusted: bool
    signed_by: str | None
    """id of the key it claims to be signed with"""
    redacted: int
    already_here: bool
    """the same session existed; nothing was written, except that it may be trusted now"""
    workspace: dict[str, str]
    attachments: list[str]


def import_from(
    context: Context,
    path: str,
    *,
    name: str | None = None,
    workspace: str | Mapping[str, str] | None = None,
    key: bytes | None = None,
) -> Imported:
    """Import the session of a bundle. With a key, only one that is signed with it."""
    if key is not None and len(key) < KEY_MIN_BYTES:
        raise UsageError(f"a key of {len(key)} bytes; the minimum is {KEY_MIN_BYTES}")
    if name is not None:
        name = check_session_name(name)
    with _opened(path) as file:
        try:
            return _Import(context, file, path, name, workspace, key).run()
        except BundleInvalid as error:
            raise BundleRefused(path, str(error)) from None
        except Corrupt as error:
            raise BundleRefused(path, f"its captured files are not whole: {error.message}") from None
        except NotFound as error:
            raise BundleRefused(path, f"its captured files are not whole: {error.message}") from None


def attachment(path: str, name: str) -> bytes:
    """One attachment of a bundle; the whole bundle is checked first."""
    with _opened(path) as file:
        try:
            found = examine(file, os.fstat(file.fileno()).st_size)
            if name not in found.manifest.attachments:
                raise NotFound(name, what="attachment", evidence=found.manifest.attachments)
            number, data = found.manifest.attachments.index(name), bytearray()
            file.seek(0)
            for frame in frames(file, os.fstat(file.fileno()).st_size):
                if isinstance(frame, Piece) and frame.attachment == number:
                    data += frame.data
                    if len(data) > ATTACHMENT_MAX_BYTES:
                        raise BundleInvalid(f"attachment {name} is over {ATTACHMENT_MAX_BYTES:,} bytes")
            return bytes(data)
        except BundleInvalid as error:
            raise BundleRefused(path, str(error)) from None


def _opened(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except (OSError, ValueError) as error:
        raise NotFound(path, what="bundle", evidence=[str(error)], hints=["check the path"]) from None


class _Import:
    def __init__(
        self,
        context: Context,
        file: BinaryIO,
        path: str,
        name: str | None,
        workspace: str | Mapping[str, str] | None,
        key: bytes | None,
    ) -> None:
        self._context, self._file, self._path, self._name = context, file, path, name
        self._workspace, self._key = workspace, key
        self._size = os.fstat(file.fileno()).st_size
        self._found = examine(file, self._size)
        self._trusted = self._is_trusted(self._found.signature)

    def _is_trusted(self, signature: Signature | None) -> bool:
        """Whether it is signed with the given key; BundleRefused if a key was given and does not match."""
        if self._key is None:
            return False
        if signature is None:
            raise BundleRefused(self._path, "it is not signed", hints=["import it untrusted: without --key"])
        if signature.key_id != key_id(self._key):
            hints = ["use the key it was exported with, or import it untrusted: without --key"]
            raise BundleRefused(self._path, f"it is signed with another key ({signature.key_id[:16]!r})", hints=hints)
        if not hmac.compare_digest(signature.mac, mac_of(self._key, self._found.digest)):
            raise BundleRefused(self._path, "its signature is forged or damaged")
        return True

    def run(self) -> Imported:
        own = self._found.parts[-1]
        here = self._context.store.find(own.identity.id)
        if here is not None:
            return self._existing(here, own)
        known = self._known_ancestors()
        roots = self._roots(own.identity)
        pools = self._pools(roots, known)
        # Imported content is named by no step until the transaction, so a sweep may remove it in between. Then it is
        # imported again.
        for _ in range(_SWEPT_TRIES):
            try:
                return self._adopt(known, roots, pools)
            except SnapshotSwept as error:
                swept = error
        raise swept

    def _existing(self, here: Record, own: Part) -> Imported:
        """The id exists here. The same history is no error; a different one is never overwritten."""
        if not self._has_step(here, own):
            raise self._in_the_way("the session", here, own)
        identity = here.identity
        if self._trusted and identity.labels.get(IMPORTED) == "untrusted":
            identity = self._context.store.update(
                identity.id, lambda now: self._identity(own.identity, now.workspace, now.pools, now.name)
            )
        return self._report(identity, already_here=True)

    def _has_step(self, here: Record, part: Part) -> bool:
        """Whether the local journal of that session has this very step, and so everything before it."""
        seq, digest = part.head.seq, part.head.digest
        if seq == part.after:  # it has no step of its own; its fork point is proved by the parent's chain
            return here.identity.parent == part.identity.parent
        return any(
            step.digest == digest for step in self._context.store.steps(here.identity.id, after=seq - 1, upto=seq)
        )

    def _in_the_way(self, what: str, here: Record, part: Part) -> BundleRefused:
        why = f"{what} {part.identity.id} is here and has another history"
        if here.head is not None and here.head.seq < part.head.seq:
            why = f"{what} {part.identity.id} is here, up to @{here.head.seq} and not to @{part.head.seq}"
        hints = [f"see it: relight show {part.identity.id[:12]}", "nothing was imported; import into another store"]
        return BundleRefused(self._path, why, hints=hints)

    def _known_ancestors(self) -> dict[str, Identity]:
        known: dict[str, Identity] = {}
        for part in self._found.parts[:-1]:
            here = self._context.store.find(part.identity.id)
            if here is not None:
                if not self._has_step(here, part):
                    raise self._in_the_way("its ancestor", here, part)
                known[part.identity.id] = here.identity
        return known

    # -- where its files go -------------------------------------------------------------------------------------

    def _roots(self, identity: Identity) -> dict[str, str]:
        names = self._found.manifest.roots
        if not names:
            if self._workspace is not None:
                raise UsageError("the session in the bundle has no workspace", hints=["leave out --workspace"])
            return {}
        if self._workspace is not None:
            roots = new_roots(self._workspace, dict.fromkeys(names, ""))
            if set(roots) != set(names):
                raise UsageError(f"name a directory for each root: {', '.join(names)}")
            return roots
        if self._trusted and set(identity.workspace) >= set(names):
            return {name: identity.workspace[name] for name in names}
        hints = [f"name a directory: relight import {self._path} --workspace DIR"]
        raise UsageError(
            "the bundle contains files, and it is untrusted: a directory for them is required", hints=hints
        )

    def _pools(self, roots: Mapping[str, str], known: Mapping[str, Identity]) -> dict[str, str]:
        """If an ancestor exists here, its pools: a fork shares the content it depends on."""
        pools = {root: self._context.workspaces().pool_of(path) for root, path in roots.items()}
        for identity in known.values():
            pools |= {root: pool for root, pool in identity.pools.items() if root in roots}
        return pools

    # -- taking in ----------------------------------------------------------------------------------------------

    def _adopt(self, known: Mapping[str, Identity], roots: dict[str, str], pools: dict[str, str]) -> Imported:
        taken = self._import_objects(pools)
        name = self._free_name(self._found.parts[-1].identity)
        records = []
        for part in self._found.parts:
            if part.identity.id not in known:
                is_own = part is self._found.parts[-1]
                identity = self._identity(part.identity, roots, pools, name if is_own else None)
                records.append(Record(identity=identity, head=part.head))
        new = {record.identity.id for record in records}
        labels = [one for one in self._found.labels if one[0] in new]
        # As late as possible: a crash between this write and the transaction leaves the name free, which is harmless.
        naming.release_archived(self._context, name)
        self._context.store.import_sessions(records, self._steps(new, taken), labels)
        return self._report(records[-1].identity, already_here=False)

    def _import_objects(self, pools: Mapping[str, str]) -> dict[tuple[str, str], Snapshot]:
        """(root, id) to the snapshot, its content durable."""
        taken: dict[tuple[str, str], Snapshot] = {}
        for number, root in enumerate(self._found.manifest.roots):
            snapshots = list(self._found.snapshots.get(number, ()))
            if not snapshots:
                continue
            made = self._context.workspaces().take_in(pools[root], self._objects(number), snapshots)
            taken |= {(root, one): msgspec.structs.replace(snapshot, root=root) for one, snapshot in made.items()}
        return taken

    def _objects(self, root: int) -> Iterator[bytes]:
        self._file.seek(0)
        for frame in frames(self._file, self._size):
            if isinstance(frame, tuple) and frame[0] == root:
                yield frame[1]

    def _steps(
        self, new: set[str], taken: Mapping[tuple[str, str], Snapshot]
    ) -> Iterator[tuple[Step, Sequence[Snapshot]]]:
        """Read and check again: the file may have changed since it was examined."""
        self._file.seek(0)
        again = step_frames(self._file, self._size, self._found)
        for step, snapshots in again:
            if step.session in new:
                yield step, [taken[self._found.manifest.roots[root], one] for root, one in snapshots]

    def _free_name(self, identity: Identity) -> str | None:
        if self._name is not None:
            naming.check_free(self._context, self._name)
            return self._name
        if identity.name is None:
            return None
        for number in range(1, _NAME_TRIES):
            name = identity.name if number == 1 else f"{identity.name[:90]}-{number}"
            if naming.is_free(self._context, name):
                return name
        return None

    def _identity(
        self, given: Identity, roots: Mapping[str, str], pools: Mapping[str, str], name: str | None
    ) -> Identity:
        """The identity of the session here. An untrusted one cannot start anything: its command is stored as data."""
        # The signature proves who exported the bundle, not who wrote the session: what was untrusted there stays so.
        trusted = self._trusted and given.labels.get(IMPORTED) != "untrusted"
        trust = "trusted" if trusted else "untrusted"
        signature = self._found.signature
        noted: dict[str, Any] = {
            "trusted": trusted,
            "signed_by": signature.key_id if signature is not None else None,
            "redacted_steps": self._found.manifest.redacted,
            "name": given.name,
            "command": given.command,
            "directory": given.directory,
            "workspace": given.workspace,
        }
        moved = msgspec.structs.replace(
            given,
            name=name,
            labels={**given.labels, IMPORTED: trust},
            metadata={**given.metadata, "imported": noted},
            workspace={root: path for root, path in roots.items() if root in given.workspace},
            pools={root: pool for root, pool in pools.items() if root in given.workspace},
            directory=moved_directory(given, roots),
        )
        if trusted:
            return moved
        nothing: dict[str, Any] = {"command": None, "commands": {}, "directory": None, "runtime": None, "away": None}
        return msgspec.structs.replace(moved, **nothing, policy=RunPolicy(), secrets=[], env={})

    def _report(self, identity: Identity, *, already_here: bool) -> Imported:
        signature = self._found.signature
        return Imported(
            session=identity.id,
            name=identity.name,
            steps=self._found.steps,
            trusted=identity.labels.get(IMPORTED, "trusted") == "trusted",
            signed_by=signature.key_id if signature is not None else None,
            redacted=self._found.manifest.redacted,
            already_here=already_here,
            workspace=dict(identity.workspace),
            attachments=self._found.manifest.attachments,
        )
