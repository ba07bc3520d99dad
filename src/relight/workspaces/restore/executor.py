"""Executes a restore plan through directory descriptors that cannot leave the root.

Order: remove what is in the way of a file or directory; create directories; write files and links in batches (temporary
file, content, mode, mtime, sync; then swap names); delete, children first; set modes of directories; sync them. `swap`
replaces names without losing concurrent changes, `leftovers` removes what a killed restore left.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from relight.journal.files.name_folding import deletes_alike
from relight.journal.files.restore_plan import ancestors
from relight.ports.faults import point
from relight.values.snapshot import Action, Entry
from relight.workspaces.manifest import Manifests
from relight.workspaces.pool.sync import sync_all
from relight.workspaces.restore.leftovers import PARTIAL
from relight.workspaces.restore.name_folding import is_one_path
from relight.workspaces.restore.openat import exists, open_directory
from relight.workspaces.restore.swap import Seen, Swapper

BATCH_FILES: Final = 64
BATCH_BYTES: Final = 64 * 1024 * 1024


class RestoreExecutor:
    """Executes the actions of one restore plan."""

    def __init__(self, root_fd: int, manifests: Manifests, seen: Seen, restore: str, order: Sequence[bytes]) -> None:
        self._root_fd, self._manifests = root_fd, manifests
        self._names = Swapper(root_fd, seen, restore, order)
        self.changed = self._names.changed
        """paths that were left alone because another process changed them"""
        self.written = self.deleted = 0
        self.other_modes: set[bytes] = set()
        """paths whose mode the file system did not take"""

    def run(self, writes: Sequence[Action], deletes: Sequence[Action], *, first: Sequence[int] = ()) -> None:
        """Execute all actions. The descriptors in `first` are synced before anything is changed, and closed."""
        self._first = list(first)
        try:
            self._run(writes, deletes)
        finally:
            for fd in first:
                os.close(fd)

    def _run(self, writes: Sequence[Action], deletes: Sequence[Action]) -> None:
        directories = [one for one in writes if one.entry is not None and one.entry.kind == "dir"]
        if directories or not writes or _obstacles(writes):
            self._sync_all([])
        later = self._clear_the_way(writes, deletes)
        for action in directories:
            self._make_directory(action)
        for batch in _batches(one for one in writes if one.entry is not None and one.entry.kind != "dir"):
            self._write_batch(batch)
        point("restore.writes_done")
        for action in later:
            self._delete(action)
        for action in directories:
            assert action.entry is not None
            self._set_mode(action.path, action.entry.mode)
        self._sync_directories()

    # -- directories ------------------------------------------------------------------------------------------

    def _clear_the_way(self, writes: Sequence[Action], deletes: Sequence[Action]) -> list[Action]:
        """Remove directories that are in the way of a file or link; returns the deletes that remain."""
        obstacles = _obstacles(writes)
        deletes = self._delete_folded(writes, deletes)
        if not obstacles:
            return list(deletes)
        inside = tuple(path + b"/" for path in obstacles)
        for action in deletes:
            if action.path.startswith(inside):
                self._delete(action)
                point("restore.obstacle_removed")
        for path in sorted(obstacles, reverse=True):
            self._delete(Action(path=path, found=Entry(name=path.rpartition(b"/")[2], kind="dir")))
            point("restore.obstacle_removed")
        return [action for action in deletes if not action.path.startswith(inside)]

    def _delete_folded(self, writes: Sequence[Action], deletes: Sequence[Action]) -> list[Action]:
        """Delete what has another spelling of a name to be written, where the file system takes both for one, and what
        is below it; returns the other deletes. Written first, the new name would be deleted with the old one."""
        alike = deletes_alike(writes, deletes)
        folded = {action.path for action, path in alike if is_one_path(self._root_fd, action.path, path)}
        if not folded:
            return list(deletes)
        later = []
        for action in deletes:
            if action.path in folded or any(up in folded for up in ancestors(action.path)):
                self._delete(action)
            else:
                later.append(action)
        return later

    def _make_directory(self, action: Action) -> None:
        path, found = action.path, action.found
        with self._names.parent(path) as (fd, name):
            if fd < 0:
                return
            if found is not None and found.kind != "dir" and exists(fd, name):
                if not self._remove(fd, name, path):
                    return
                point("restore.obstacle_removed")
            try:
                os.mkdir(name, 0o700, dir_fd=fd)
                self.written += 1
            except FileExistsError:
                if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                    self.changed.append(path)
                    return
                self._set_mode(path, 0o700)  # writable while we work in it
            self._names.touched.add(path)

    def _set_mode(self, path: bytes, mode: int) -> None:
        try:
            fd = open_directory(self._root_fd, path)
        except OSError:
            self.changed.append(path)
            return
        try:
            self._change_mode(fd, path, mode)
        finally:
            os.close(fd)

    def _change_mode(self, fd: int, path: bytes, mode: int) -> None:
        """Give an open file its mode. A file system without modes refuses that, or ignores it; it is no error."""
        try:
            os.fchmod(fd, mode)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
        is_taken = stat.S_IMODE(os.fstat(fd).st_mode) == mode
        (self.other_modes.discard if is_taken else self.other_modes.add)(path)

    def _sync_directories(self) -> None:
        fds = []
        try:
            for path in self._names.touched:
                try:
                    fds.append(open_directory(self._root_fd, path))
                except OSError:
                    continue  # removed or replaced meanwhile
            self._sync_all(fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _sync_all(self, fds: list[int]) -> None:
        """Sync these together with what has to be durable first: one parallel round instead of two."""
        fds, self._first = [*self._first, *fds], []
        sync_all(fds)

    # -- files ------------------------------------------------------------------------------------------------

    def _write_batch(self, batch: Sequence[Action]) -> None:
        ready: list[tuple[Action, int]] = []
        try:
            for action in batch:
                fd = self._write_temporary(action)
                if fd is not None:
                    ready.append((action, fd))
                    point("restore.written")
            self._sync_all([fd for _, fd in ready if fd >= 0])
        finally:
            for _, fd in ready:
                if fd >= 0:
                    os.close(fd)
        point("restore.synced")
        for action, _ in ready:
            replaces = action.found is not None and action.found.kind != "dir"
            self.written += self._names.swap_in(action.path, replaces=replaces)
            point("restore.placed")

    def _write_temporary(self, action: Action) -> int | None:
        """Write the temporary file; returns a descriptor to sync, -1 for a link, None if its directory is missing."""
        entry, temporary = action.entry, self._names.temporary(action.path) + PARTIAL
        assert entry is not None
        with self._names.parent(action.path) as (fd, _):
            if fd < 0:
                return None
            if entry.kind == "link":
                os.symlink(entry.ref, temporary, dir_fd=fd)
                return -1
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            out = os.open(temporary, flags, 0o600, dir_fd=fd)
        try:
            for piece in self._manifests.content(entry):
                _write_all(out, piece)
            self._change_mode(out, action.path, entry.mode)
            os.utime(out, ns=(entry.mtime_ns, entry.mtime_ns))
        except BaseException:
            os.close(out)
            raise
        return out

    # -- deleting ---------------------------------------------------------------------------------------------

    def _delete(self, action: Action) -> None:
        found = action.found
        with self._names.parent(action.path) as (fd, name):
            if fd < 0 or found is None or not exists(fd, name):
                return
            if found.kind != "dir":
                self._remove(fd, name, action.path)
                return
            try:
                os.rmdir(name, dir_fd=fd)
                self.deleted += 1
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
                self.changed.append(action.path)
            point("restore.deleted")

    def _remove(self, fd: int, name: bytes, path: bytes) -> bool:
        if not self._names.remove(fd, name, path):
            return False
        self.deleted += 1
        point("restore.deleted")
        return True


def _obstacles(writes: Sequence[Action]) -> tuple[bytes, ...]:
    """Paths of directories that are to become a file or link."""
    return tuple(
        one.path
        for one in writes
        if one.found is not None and one.found.kind == "dir" and one.entry is not None and one.entry.kind != "dir"
    )


def _batches(actions: Iterable[Action]) -> Iterator[list[Action]]:
    batch: list[Action] = []
    size = 0
    for action in actions:
        batch.append(action)
        size += action.entry.size_bytes if action.entry is not None else 0
        if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
