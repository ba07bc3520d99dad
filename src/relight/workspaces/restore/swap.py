"""Replaces or removes a path only while it is what the safety snapshot saw.

Names are swapped first, by one call of the kernel or by three renames, and the former content is checked afterwards: a
concurrent change is put back and reported, never lost. Everything goes through directory descriptors that cannot leave
the root.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from relight.ports.faults import point
from relight.workspaces.changes.classify import TEMPORARY
from relight.workspaces.changes.scan import Stat
from relight.workspaces.restore.leftovers import ASIDE, PARTIAL, give_back
from relight.workspaces.restore.openat import exists, open_directory, rename_exchange, rename_noreplace

Seen = Callable[[bytes], Stat | None]
"""the stat of a path in the safety snapshot"""


class Swapper:
    """Swaps names for one restore. `changed` collects paths that others changed, `touched` the directories to sync."""

    def __init__(self, root_fd: int, seen: Seen, restore: str, order: Sequence[bytes]) -> None:
        self.root_fd, self._seen = root_fd, seen
        self._prefix = TEMPORARY + restore.encode() + b"-"
        self._number = {path: number for number, path in enumerate(order)}
        self.touched: set[bytes] = set()
        self.changed: list[bytes] = []

    def temporary(self, path: bytes) -> bytes:
        """The temporary name of this path in this restore."""
        return self._prefix + str(self._number[path]).encode()

    @contextmanager
    def parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """(descriptor of the directory, name); (-1, name) if the directory is gone or was replaced."""
        parent, _, name = path.rpartition(b"/")
        try:
            fd = open_directory(self.root_fd, parent)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV):
                raise
            self.changed.append(path)
            yield -1, name
            return
        self.touched.add(parent)
        try:
            yield fd, name
        finally:
            os.close(fd)

    def swap_in(self, path: bytes, *, replaces: bool) -> bool:
        """Rename the temporary file of this path to its name; whether that worked."""
        temporary = self.temporary(path)
        with self.parent(path) as (fd, name):
            if fd < 0:
                return False
            os.rename(temporary + PARTIAL, temporary, src_dir_fd=fd, dst_dir_fd=fd)
            if self._take_name(fd, temporary, name, path, replaces):
                return True
            os.unlink(temporary, dir_fd=fd)
            self.changed.append(path)
            return False

    def _take_name(self, fd: int, temporary: bytes, name: bytes, path: bytes, replaces: bool) -> bool:
        """Whether the new content has its name; if not, it is still under the temporary one."""
        if not replaces or not exists(fd, name):
            return _take_free_name(fd, temporary, name)
        try:
            if not rename_exchange(fd, temporary, name):
                return self._replace_in_three(fd, temporary, name, path)
        except FileNotFoundError:  # deleted since we looked
            return _take_free_name(fd, temporary, name)
        # Checked after the swap: between a check and a swap the file could change, and that change would be deleted
        # below.
        point("restore.swapped")
        if self._is_unchanged(fd, temporary, path):
            os.unlink(temporary, dir_fd=fd)
            return True
        rename_exchange(fd, temporary, name)
        return False

    def _replace_in_three(self, fd: int, temporary: bytes, name: bytes, path: bytes) -> bool:
        """Where names cannot be exchanged: set the former content aside, take the name, delete what was set aside.

        No rename replaces anything, so a concurrent change is never lost. A kill in between leaves the path without its
        name; both contents have theirs from the undo log's record, by which the next restore or undo finds them.
        """
        aside = temporary + ASIDE
        rename_noreplace(fd, name, aside)
        point("restore.set_aside")
        if not self._is_unchanged(fd, aside, path):
            give_back(fd, aside, name)
            return False
        is_placed = _take_free_name(fd, temporary, name)  # if not, another process created the file: its content stays
        point("restore.swapped")
        os.unlink(aside, dir_fd=fd)
        return is_placed

    def remove(self, fd: int, name: bytes, path: bytes) -> bool:
        """Rename to a temporary name, check, and only then delete; a changed file gets its name back. Whether it is
        gone."""
        temporary = self.temporary(path)
        try:
            rename_noreplace(fd, name, temporary)
        except FileNotFoundError:
            return True
        point("restore.set_aside")
        if self._is_unchanged(fd, temporary, path):
            os.unlink(temporary, dir_fd=fd)
            return True
        give_back(fd, temporary, name)
        self.changed.append(path)
        return False

    def _is_unchanged(self, fd: int, name: bytes, path: bytes) -> bool:
        """True if type, size, mtime and inode are as in the safety snapshot; a rename changes only the ctime."""
        seen = self._seen(path)
        try:
            now = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if seen is None:
            return False
        mode, size, mtime, _, inode = seen
        return (mode, size, mtime, inode) == (now.st_mode, now.st_size, now.st_mtime_ns, now.st_ino)


def _take_free_name(fd: int, temporary: bytes, name: bytes) -> bool:
    """Whether the new content has its name, which must be free."""
    try:
        rename_noreplace(fd, temporary, name)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.EISDIR, errno.ENOTEMPTY):
            raise
        return False
    return True
