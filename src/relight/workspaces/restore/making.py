"""A directory that is made for a session: there when its first step is committed, gone where the start failed.

While it is made, a file beside it names the session and the attempt it is made for, and is locked by its maker. A maker
that was killed leaves both behind: whoever makes the next directory beside it removes what no session has begun to
work in. So nothing half filled is ever taken for a workspace, and nothing that a session works in is ever removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from relight.errors import Conflict, WorkspaceUnusable

_SUFFIX: Final = ".relight-making"
_MAX_LOOKED_AT: Final = 1000
_NOTE_BYTES: Final = 200

Begun = Callable[[str, int], bool]
"""has this session begun an attempt after this one?"""


class Making:
    """One directory while it is made. `keep` or `discard` ends it."""

    def __init__(self, path: str, *, name: str, session: str, attempt: int, begun: Begun) -> None:
        """Make it, with its parents. Conflict where something is in it, WorkspaceUnusable where it cannot be made."""
        self.path = Path(path).absolute()
        self._note = _note_of(self.path)
        self._parents = _missing(self.path.parent)
        self._was_there = False
        self._locked: int | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            remove_unfinished(self.path.parent, begun)
            self._locked = _lock(self._note)
            if self._locked is None:
                raise Conflict(f"{path}: somebody else is making it", hints=["ask again when that is done"])
            os.pwrite(self._locked, f"{session} {attempt}\n".encode(), 0)
            os.fsync(self._locked)
            self._was_there = self.path.is_dir()
            self.path.mkdir(exist_ok=True)
            occupied = next(self.path.iterdir(), None)
        except OSError as error:
            self._let_go()
            self._remove_parents()
            raise WorkspaceUnusable(name, path, error.strerror or str(error)) from error
        except BaseException:
            self._let_go()
            self._remove_parents()
            raise
        if occupied is not None:
            self._let_go()
            raise Conflict(f"{path}: not empty; choose a new directory")

    def keep(self) -> None:
        """A session works in it now."""
        self._let_go()

    def discard(self) -> None:
        """Remove what was put into it, and all directories that were made for it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._was_there:
            self.path.mkdir(exist_ok=True)
        self._let_go()
        self._remove_parents()

    def _let_go(self) -> None:
        if self._locked is not None:
            self._note.unlink(missing_ok=True)
            os.close(self._locked)
            self._locked = None

    def _remove_parents(self) -> None:
        for parent in self._parents:
            try:
                parent.rmdir()
            except OSError:
                return  # somebody else uses it by now


def remove_unfinished(parent: Path, begun: Begun) -> None:
    """What makers that were killed left in this directory."""
    try:
        names = [name for name in os.listdir(parent) if name.startswith(".") and name.endswith(_SUFFIX)]
    except OSError:
        return
    for name in names[:_MAX_LOOKED_AT]:
        _remove_unfinished(parent / name, begun)


def is_unfinished(path: str, begun: Begun) -> bool:
    """Did a maker that was killed leave this directory behind, perhaps half filled?"""
    note = _note_of(Path(path).absolute())
    if not os.path.lexists(note):
        return False
    locked = _lock(note)
    if locked is None:
        return False  # its maker lives
    try:
        return not _is_begun(locked, begun)
    finally:
        os.close(locked)


def _remove_unfinished(note: Path, begun: Begun) -> None:
    locked = _lock(note)
    if locked is None:
        return  # its maker lives
    try:
        if not _is_begun(locked, begun):
            shutil.rmtree(note.with_name(note.name[1 : -len(_SUFFIX)]), ignore_errors=True)
        note.unlink(missing_ok=True)
    finally:
        os.close(locked)


def _is_begun(locked: int, begun: Begun) -> bool:
    """Is the directory a session's own by now? A note that names none: its maker died before it made anything."""
    words = os.pread(locked, _NOTE_BYTES, 0).decode("ascii", "replace").split()
    return len(words) != 2 or not words[1].isdecimal() or begun(words[0], int(words[1]))


def _note_of(path: Path) -> Path:
    return path.with_name(f".{path.name}{_SUFFIX}")


def _lock(note: Path) -> int | None:
    """The file, made and locked by us; None where somebody else has it."""
    made = os.open(note, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(note, follow_symlinks=False).st_ino != os.fstat(made).st_ino:
            raise BlockingIOError  # another one has replaced it meanwhile
    except OSError:
        os.close(made)
        return None
    return made


def _missing(directory: Path) -> list[Path]:
    """The directories that are not there, the deepest first."""
    found = []
    while not directory.exists() and directory != directory.parent:
        found.append(directory)
        directory = directory.parent
    return found
