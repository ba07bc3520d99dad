"""The undo log: a record file per restore, durable before the first change, and a marker file that says how it ended.

It is stored beside the pool, outside the workspace. A record without a marker is an interrupted restore: its safety
snapshot is the way back, its target the way forward. A torn record was never durable, so nothing had been changed, and
it is ignored. Markers are not synced: if a power cut loses one, the same restore finds nothing to do.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from relight.errors import Corrupt, Refused
from relight.system import private_directories
from relight.system.durable import sync_file
from relight.values.snapshot import RestoreRecord

MAX_RECORDS: Final = 200
"""finished restores that are kept for undo"""
_NOTE, _DONE, _UNDONE = ".json", ".done", ".undone"

Identity = tuple[int, int]
"""inode and mtime: a rewritten record has others"""


class RestoreLog:
    """The undo log of one root."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[str, tuple[Identity, RestoreRecord | None]] = {}
        private_directories.make(directory)

    def records(self) -> tuple[RestoreRecord, ...]:
        """All records with their present state, newest first."""
        with os.scandir(self._directory) as found:
            names = {one.name: one for one in found}
        records = []
        for name in sorted((name for name in names if name.endswith(_NOTE)), reverse=True):
            restore = name.removesuffix(_NOTE)
            record = self._record_path(names[name])
            if record is not None:
                records.append(_marked(record, restore + _DONE in names, restore + _UNDONE in names))
        return tuple(records)

    def _record_path(self, found: os.DirEntry[str]) -> RestoreRecord | None:
        """The record in a file, cached: records are replaced, never changed in place."""
        try:
            status = found.stat()
            identity = (status.st_ino, status.st_mtime_ns)
            known = self._read.get(found.name)
            if known is None or known[0] != identity:
                known = self._read[found.name] = (identity, _decoded(Path(found.path)))
            return known[1]
        except FileNotFoundError:
            return None

    def unfinished(self) -> RestoreRecord | None:
        return next((one for one in self.records() if one.state == "begun"), None)

    def new_id(self) -> str:
        """An id that sorts after all existing ones, whatever the clock says."""
        newest = max((name for name in os.listdir(self._directory) if name.endswith(_NOTE)), default="")
        number = int(newest.partition("-")[0], 16) + 1 if newest else 1
        return f"{number:08x}-{secrets.token_hex(4)}"

    def begin(self, record: RestoreRecord) -> list[int]:
        """Write a record; returns descriptors that the caller must sync before the first change, and close."""
        path = self._directory / (record.id + _NOTE)
        data = msgspec.json.encode(record)
        is_new = not path.exists()
        target = path if is_new else path.with_suffix(".new")
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with open(fd, "wb", closefd=False) as file:
                file.write(data)
            if not is_new:
                sync_file(fd)
                target.replace(path)
            return [fd, os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        except BaseException:
            os.close(fd)
            raise

    def end(self, record: RestoreRecord) -> None:
        """Mark a restore as done and the one it undoes as undone; old records are removed."""
        self._mark(record.id, _DONE)
        if record.undoes:
            self._mark(record.undoes, _UNDONE)
        if len(self._read) >= MAX_RECORDS:
            for old in self.records()[MAX_RECORDS:]:
                if old.state != "begun":
                    self.forget(old.id)

    def _mark(self, restore: str, suffix: str) -> None:
        os.close(os.open(self._directory / (restore + suffix), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def forget(self, restore: str) -> None:
        """Remove a record; its markers last, since without them it would count as interrupted."""
        for suffix in (_NOTE, ".new", _DONE, _UNDONE):
            (self._directory / (restore + suffix)).unlink(missing_ok=True)

    def ids(self) -> set[str]:
        """The ids of all restores that have any file."""
        return {path.stem for path in self._directory.iterdir() if path.suffix in (_NOTE, ".new", _DONE, _UNDONE)}

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Allow one restore at a time per root, across processes; Refused if another is under way."""
        fd = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:  # one block for the lock and what it protects: an interrupt between two would keep it locked
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused("another restore of this workspace is under way") from None
            yield
        finally:
            os.close(fd)


def _marked(record: RestoreRecord, done: bool, undone: bool) -> RestoreRecord:
    state: Literal["begun", "done", "undone"] = "undone" if undone else "done" if done else "begun"
    return record if record.state == state else msgspec.structs.replace(record, state=state)


def _decoded(path: Path) -> RestoreRecord | None:
    data = path.read_bytes()
    if not data.endswith(b"}"):
        return None  # torn by a power cut before it was durable
    try:
        return msgspec.json.decode(data, type=RestoreRecord)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the record of a restore cannot be read: {path}: {error}") from error
