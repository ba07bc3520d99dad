"""HEAD of the repositories in a workspace, read as text. git is never run.

What is read is recorded only if it looks like a ref or a commit id, so a hostile `.git` file can make us read a few
kilobytes and nothing else. A repository that cannot be read has no head; that is no error.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Final

from relight.values.snapshot import GitHead
from relight.workspaces.restore.openat import open_directory

_COMMIT: Final = re.compile(rb"[0-9a-f]{40}([0-9a-f]{24})?")
_REF: Final = re.compile(rb"refs/[\x21-\x7e]{1,200}")
_MAX_BYTES: Final = 4096
_MAX_PACKED_BYTES: Final = 1024 * 1024


def read_head(root_fd: int, path: bytes) -> GitHead | None:
    """The HEAD of the repository in this directory; None if there is none that can be read."""
    try:
        dir_fd = open_directory(root_fd, path)
    except OSError:
        return None
    try:
        return _head_in(dir_fd, path)
    except OSError:
        return None
    finally:
        os.close(dir_fd)


def _head_in(dir_fd: int, path: bytes) -> GitHead | None:
    git = ".git"
    pointer = _text(dir_fd, git) if not stat.S_ISDIR(os.stat(git, dir_fd=dir_fd).st_mode) else b""
    if pointer.startswith(b"gitdir: "):
        git = os.fsdecode(pointer[8:])
    head = _text(dir_fd, f"{git}/HEAD")
    if _COMMIT.fullmatch(head):
        return GitHead(path=path, commit=head.decode())
    ref = head.removeprefix(b"ref: ")
    if ref == head or not _REF.fullmatch(ref) or b".." in ref:
        return None
    return GitHead(path=path, ref=ref.decode(), commit=_commit(dir_fd, git, ref))


def _commit(dir_fd: int, git: str, ref: bytes) -> str:
    found = _text(dir_fd, f"{git}/{ref.decode()}")
    if _COMMIT.fullmatch(found):
        return found.decode()
    for line in _text(dir_fd, f"{git}/packed-refs", _MAX_PACKED_BYTES).splitlines():
        commit, _, name = line.partition(b" ")
        if name == ref and _COMMIT.fullmatch(commit):
            return commit.decode()
    return ""


def _text(dir_fd: int, path: str, max_bytes: int = _MAX_BYTES) -> bytes:
    """The beginning of a small file; empty if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=dir_fd)
    except OSError:
        return b""
    try:
        return os.read(fd, max_bytes).strip()
    except OSError:
        return b""
    finally:
        os.close(fd)
