"""Give a path its new content, or take it away, only while it is what the safety snapshot saw.

Names are swapped first and the former content looked at afterwards: a change in between is put back and told, never
lost. Everything goes through directory descriptors that cannot leave the root.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from relight.ports.faults import point
from relight.workspaces.changes.classify import TEMPORARY
from relight.workspaces.changes.scan import Stat
from relight.workspaces.restore.leftovers import PARTIAL
from relight.workspaces.restore.openat import exchange, open_directory, place

Seen = Callable[[bytes], Stat | None]
"""the stat a path had in the safety snapshot"""


class Swapper:
    """The names of one restore. `changed` collects what somebody else was at, `touched` the directories to sync."""

    def __init__(self, root_fd: int, seen: Seen, restore: str, order: Sequence[bytes]) -> None:
        self.root_fd, self._seen = root_fd, seen
        self._prefix = TEMPORARY + restore.encode() + b"-"
        self._number = {path: number for number, path in enumerate(order)}
        self.touched: set[bytes] = set()
        self.changed: list[bytes] = []

    def temporary(self, path: bytes) -> bytes:
        """The name that belongs to this path in this restore."""
        return self._prefix + str(self._number[path]).encode()

    @contextmanager
    def parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """(descriptor of the directory, name); (-1, name) where no directory of ours is there any more."""
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
        """Give the temporary file of this path its name; whether it has it now."""
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
        """Whether the new content has its name; if not it is still under the temporary one."""
        if not replaces or not exists(fd, name):
            try:
                place(fd, temporary, name)
            except OSError as error:
                if error.errno not in (errno.EEXIST, errno.EISDIR, errno.ENOTEMPTY):
                    raise
                return False
            return True
        try:
            exchange(fd, temporary, name)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOENT):
                raise
            return self._replace_plainly(fd, temporary, name, path)
        point("restore.swapped")
        if self._is_as_seen(fd, temporary, path):
            os.unlink(temporary, dir_fd=fd)
            return True
        exchange(fd, temporary, name)
        return False

    def _replace_plainly(self, fd: int, temporary: bytes, name: bytes, path: bytes) -> bool:
        """For file systems that cannot swap: look, then rename."""
        if exists(fd, name) and not self._is_as_seen(fd, name, path):
            return False
        os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)
        return True

    def remove(self, fd: int, name: bytes, path: bytes) -> bool:
        """Set aside, look, and only then remove: what changed under us gets its name back. Whether it is gone."""
        temporary = self.temporary(path)
        try:
            place(fd, name, temporary)
        except FileNotFoundError:
            return True
        point("restore.set_aside")
        if self._is_as_seen(fd, temporary, path):
            os.unlink(temporary, dir_fd=fd)
            return True
        place(fd, temporary, name)
        self.changed.append(path)
        return False

    def _is_as_seen(self, fd: int, name: bytes, path: bytes) -> bool:
        """Type, size, mtime and inode as in the safety snapshot; a rename changes only the ctime."""
        seen = self._seen(path)
        try:
            now = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if seen is None:
            return False
        mode, size, mtime, _, inode = seen
        return (mode, size, mtime, inode) == (now.st_mode, now.st_size, now.st_mtime_ns, now.st_ino)


def exists(fd: int, name: bytes) -> bool:
    """Whether a directory has this name, whatever it is."""
    try:
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
