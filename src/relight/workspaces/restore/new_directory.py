"""A directory created for a session: kept when its first step is committed, removed if the start failed.

While it is being filled, a locked file beside it names the session and the attempt. A killed process leaves both
behind: the next one that creates a directory beside it removes what no session has begun to use. So a half-filled
directory is never used as a workspace, and one that a session uses is never removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from relight.errors import Conflict, WorkspaceUnusable
from relight.system.durable import sync_file

_SUFFIX: Final = ".relight-making"
_MAX_SCANNED: Final = 1000
_NOTE_BYTES: Final = 200

Begun = Callable[[str, int], bool]
"""(session, attempt): has the session begun a later attempt?"""


class NewDirectory:
    """A directory while it is being created; `keep` or `discard` ends that."""

    def __init__(self, path: str, *, name: str, session: str, attempt: int, begun: Begun) -> None:
        """Create it with its parents. Conflict if it is not empty, WorkspaceUnusable if it cannot be created."""
        self.path = Path(path).absolute()
        if not self.path.name:
            raise WorkspaceUnusable(name, path, "the root of the file system is no workspace")
        self._record_path = _record_path_of(self.path)
        self._parents: list[Path] = []
        self._was_there = False
        self._lock_fd: int | None = None
        try:
            self._parents = _missing(self.path.parent)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            remove_unfinished(self.path.parent, begun)
            self._lock_fd = _lock(self._record_path)
            if self._lock_fd is None:
                raise Conflict(f"{path}: another process is creating it", hints=["try again when that is done"])
            os.pwrite(self._lock_fd, f"{session} {attempt}\n".encode(), 0)
            sync_file(self._lock_fd)
            self._was_there = self.path.is_dir()
            self.path.mkdir(exist_ok=True)
            occupied = next(self.path.iterdir(), None)
        except OSError as error:
            self._unlock()
            self._remove_parents()
            raise WorkspaceUnusable(name, path, error.strerror or str(error)) from error
        except BaseException:
            self._unlock()
            self._remove_parents()
            raise
        if occupied is not None:
            self._unlock()
            raise Conflict(f"{path}: not empty; choose a new directory")

    def keep(self) -> None:
        """Leave it: a session uses it now."""
        self._unlock()

    def discard(self) -> None:
        """Remove it with its content, and the parents that were created for it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._was_there:
            self.path.mkdir(exist_ok=True)
        self._unlock()
        self._remove_parents()

    def _unlock(self) -> None:
        if self._lock_fd is not None:
            self._record_path.unlink(missing_ok=True)
            os.close(self._lock_fd)
            self._lock_fd = None

    def _remove_parents(self) -> None:
        for parent in self._parents:
            try:
                parent.rmdir()
            except OSError:
                return  # it is used by now


def remove_unfinished(parent: Path, begun: Begun) -> None:
    """Remove what killed processes left in this directory."""
    try:
        names = [name for name in os.listdir(parent) if name.startswith(".") and name.endswith(_SUFFIX)]
    except OSError:
        return
    for name in names[:_MAX_SCANNED]:
        _remove_unfinished(parent / name, begun)


def is_unfinished(path: str, begun: Begun) -> bool:
    """True if the process that created this directory was killed: it may be half filled."""
    note = _record_path_of(Path(path).absolute())
    if not os.path.lexists(note):
        return False
    lock_fd = _lock(note)
    if lock_fd is None:
        return False  # its maker lives
    try:
        return not _is_begun(lock_fd, begun)
    finally:
        os.close(lock_fd)


def _remove_unfinished(note: Path, begun: Begun) -> None:
    lock_fd = _lock(note)
    if lock_fd is None:
        return  # its maker lives
    try:
        if not _is_begun(lock_fd, begun):
            shutil.rmtree(note.with_name(note.name[1 : -len(_SUFFIX)]), ignore_errors=True)
        note.unlink(missing_ok=True)
    finally:
        os.close(lock_fd)


def _is_begun(lock_fd: int, begun: Begun) -> bool:
    """True if a session uses the directory, or the file names none: its process died before it created anything."""
    words = os.pread(lock_fd, _NOTE_BYTES, 0).decode("ascii", "replace").split()
    return len(words) != 2 or not words[1].isdecimal() or begun(words[0], int(words[1]))


def _record_path_of(path: Path) -> Path:
    return path.parent / f".{path.name}{_SUFFIX}"


def _lock(note: Path) -> int | None:
    """Create and lock the file; None if another process has locked it."""
    made = os.open(note, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(note, follow_symlinks=False).st_ino != os.fstat(made).st_ino:
            raise BlockingIOError  # it was unlinked and recreated between our open and our lock
    except OSError:
        os.close(made)
        return None
    return made


def _missing(directory: Path) -> list[Path]:
    """The missing directories, deepest first."""
    found = []
    while not directory.exists() and directory != directory.parent:
        found.append(directory)
        directory = directory.parent
    return found
