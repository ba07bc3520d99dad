"""Blobs as files in a directory that several machines share, such as a network mount. Implements `ports.blobs.Blobs`.

A blob is written to a temporary file beside its target, synced, and hard-linked into place, which fails if the key
exists; so it is whole or absent, and the first writer wins. `list` removes temporary files that are older than a day.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import quote

from relight.errors import StoreFull, StoreReadOnly, StoreUnavailable
from relight.ports.blobs import MAX_PAGE, Blob, checked_key, checked_prefix
from relight.system import private_directories
from relight.system.durable import sync_directory, sync_file

_TEMPORARY: Final = ".new-"
"""prefix of temporary files; no key begins with a dot"""
_TRIES: Final = 8
_ABANDONED_SECONDS: Final = 86_400.0
"""an older temporary file belongs to a process that was killed"""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN: Final = (errno.EROFS, errno.EACCES, errno.EPERM)


class DirectoryBlobs:
    """Blobs in one directory, addressed as file:///directory."""

    is_own = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self.location = self.address = f"file://{quote(str(self._directory))}"

    def put(self, key: str, data: bytes) -> bool:
        target = self._path(key)
        with self._translate_errors():
            for attempts_left in reversed(range(_TRIES)):
                try:
                    return self._put(target, data)
                except FileNotFoundError:  # a concurrent `delete` has removed the emptied directory
                    if not attempts_left:
                        raise
        raise AssertionError("unreachable: the last try returns or raises")

    def _put(self, target: Path, data: bytes) -> bool:
        if target.exists():
            sync_directory(target.parent)  # its writer may have linked it and not synced the directory yet
            return False
        self._make_directory(target.parent)
        temporary = target.parent / f"{_TEMPORARY}{secrets.token_hex(8)}"
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                sync_file(file.fileno())
            try:
                target.hardlink_to(temporary)
            except FileExistsError:
                sync_directory(target.parent)
                return False
        finally:
            temporary.unlink(missing_ok=True)
        sync_directory(target.parent)
        return True

    def get(self, key: str) -> bytes | None:
        with self._translate_errors():
            try:
                return self._path(key).read_bytes()
            except FileNotFoundError:
                return None

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        with self._translate_errors():
            try:
                with self._path(key).open("rb") as file:
                    return os.pread(file.fileno(), length, start)
            except FileNotFoundError:
                return None

    def stat(self, key: str) -> Blob | None:
        with self._translate_errors():
            return self._stat(key)

    def _stat(self, key: str) -> Blob | None:
        try:
            found = self._path(key).stat()
        except FileNotFoundError:
            return None
        return Blob(key, found.st_size, found.st_mtime)

    def list(self, prefix: str = "", *, after: str = "", limit: int = MAX_PAGE) -> list[Blob]:
        with self._translate_errors():
            names = sorted(self._keys_below(checked_prefix(prefix)))
            found = (self._stat(name) for name in names[bisect_right(names, after) :])
            return list(islice((one for one in found if one is not None), limit))

    def _keys_below(self, prefix: str) -> Iterator[str]:
        top = self._directory / prefix
        for at, _, files in os.walk(top, onerror=_unless_missing):
            base = "" if Path(at) == self._directory else f"{Path(at).relative_to(self._directory)}/"
            for name in files:
                if name.startswith(_TEMPORARY):
                    _remove_abandoned(Path(at) / name)
                else:
                    yield base + name

    def delete(self, keys: Iterable[str]) -> None:
        emptied: set[Path] = set()
        with self._translate_errors():
            for key in keys:
                path = self._path(key)
                path.unlink(missing_ok=True)
                emptied.add(path.parent)
            for directory in sorted(emptied, key=lambda one: len(one.parts), reverse=True):
                self._tidy(directory)

    def _tidy(self, directory: Path) -> None:
        """Remove empty directories; a concurrent `put` creates them again."""
        with suppress(FileNotFoundError):
            sync_directory(directory)
        while directory != self._directory:
            try:
                directory.rmdir()
            except OSError:
                return
            directory = directory.parent

    def _make_directory(self, directory: Path) -> None:
        """Create a directory and its parents, durably."""
        if directory.is_dir():
            return
        if directory != self._directory:
            self._make_directory(directory.parent)
        with suppress(FileExistsError):
            if directory == self._directory:
                private_directories.make(directory)
            else:
                directory.mkdir(mode=private_directories.DIRECTORY_MODE)
                directory.chmod(private_directories.DIRECTORY_MODE)  # whatever the umask
            sync_directory(directory.parent)

    def _path(self, key: str) -> Path:
        return self._directory / checked_key(key)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise StoreFull(self.location) from error
            if error.errno in _FORBIDDEN:
                raise StoreReadOnly(self.location) from error
            raise StoreUnavailable(
                f"{self.location}: {error.strerror or error}",
                hints=["check that the shared directory is mounted here: RELIGHT_BLOBS"],
            ) from error


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _remove_abandoned(path: Path) -> None:
    with suppress(FileNotFoundError):
        if path.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
            path.unlink()
