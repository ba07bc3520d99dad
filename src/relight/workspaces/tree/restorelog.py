"""The notes of restores: one file each, durable before the first change and after the last.

A note lies beside the pool, outside the workspace. One in state "begun" is an interrupted restore: its safety snapshot
is the way back, its target the way forward. Writing is whole or not at all: a new file, synced, renamed, synced.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from relight.errors import Corrupt, Refused
from relight.model.snapshot import RestoreRecord

KEPT_MOST: Final = 200
"""notes of ended restores that are kept for undo"""


class RestoreLog:
    """The undo log of one root."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def list(self) -> tuple[RestoreRecord, ...]:
        """Newest first."""
        names = sorted((path for path in self._directory.glob("*.json")), reverse=True)
        return tuple(self.read(path) for path in names)

    def unfinished(self) -> RestoreRecord | None:
        return next((one for one in self.list() if one.state == "begun"), None)

    def new_id(self) -> str:
        """Sorts after all that exist, whatever the clock says."""
        newest = max((path.stem for path in self._directory.glob("*.json")), default="")
        number = int(newest.partition("-")[0] or "0", 16) + 1 if newest else 1
        return f"{number:08x}-{secrets.token_hex(4)}"

    def write(self, record: RestoreRecord, *, at_once: bool = True) -> None:
        """Whole; durable on return, or (not `at_once`) after a power cut perhaps still as it was before."""
        path = self._directory / f"{record.id}.json"
        partial = path.with_suffix(".new")
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        if not at_once:
            return
        fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def close(self, record: RestoreRecord) -> None:
        """The restore is done; what it undoes is undone; old notes go. A note that a power cut leaves at "begun" is
        ended by the same restore again, which then has nothing to do."""
        records = self.list()
        self.write(msgspec.structs.replace(record, state="done"), at_once=bool(record.undoes))
        for other in records:
            if other.id == record.undoes:
                self.write(msgspec.structs.replace(other, state="undone"))
        for old in records[KEPT_MOST:]:
            if old.state != "begun":
                (self._directory / f"{old.id}.json").unlink(missing_ok=True)

    def read(self, path: Path) -> RestoreRecord:
        """One note."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=RestoreRecord)
        except msgspec.MsgspecError as error:
            raise Corrupt(f"the note of a restore cannot be read: {path}: {error}") from error

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One restore at a time in a root, over all processes."""
        fd = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise Refused("another restore of this workspace is under way") from None
        try:
            yield
        finally:
            os.close(fd)
