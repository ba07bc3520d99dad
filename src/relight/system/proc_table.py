"""Linux's table of processes: the files in /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from relight.system.platform import PROC
from relight.system.process_facts import Facts

_STATE, _PARENT, _GROUP, _SESSION, _FOREGROUND, _START = 0, 1, 2, 3, 5, 19
_ENDED: Final = (b"Z", b"X")


class ProcTable:
    """As `ProcessTable` says. Start times are ticks since boot."""

    def boot(self) -> str:
        return _boot_id()

    def namespace(self) -> str:
        return _link(f"{PROC}/self/ns/pid")

    def pids(self) -> Iterator[int]:
        try:
            names = os.listdir(PROC)
        except OSError:
            return
        yield from (int(name) for name in names if name.isdigit())

    def facts(self, pid: int) -> Facts | None:
        fields = _stat(pid)
        if not fields:
            return None
        return Facts(
            start=fields[_START].decode(),
            is_zombie=fields[_STATE] in _ENDED,
            parent=int(fields[_PARENT]),
            group=int(fields[_GROUP]),
            session=int(fields[_SESSION]),
        )

    def environment(self, pid: int) -> list[bytes]:
        return _content(f"{PROC}/{pid}/environ").split(b"\0")

    def words(self, pid: int) -> list[str]:
        return _content(f"{PROC}/{pid}/cmdline").decode("utf-8", "surrogateescape").split("\0")[:-1]

    def executable(self, pid: int) -> str:
        return _link(f"{PROC}/{pid}/exe").removesuffix(" (deleted)")

    def input(self, pid: int) -> str:
        return _link(f"{PROC}/{pid}/fd/0")

    def files(self, pid: int) -> Iterator[str]:
        directory = f"{PROC}/{pid}/fd"
        try:
            names = os.listdir(directory)
        except OSError:  # it ended, or is another user's
            return
        yield from (_link(f"{directory}/{name}") for name in names)

    def foreground(self, pid: int) -> int:
        fields = _stat(pid)
        return max(int(fields[_FOREGROUND]), 0) if fields else 0

    def children(self) -> list[int]:
        found: list[int] = []
        try:
            for task in os.listdir(f"{PROC}/self/task"):
                found += map(int, Path(f"{PROC}/self/task/{task}/children").read_text(encoding="ascii").split())
        except OSError:  # a kernel without /proc/.../children, or a thread that ended meanwhile
            parent = str(os.getpid()).encode()
            return [pid for pid in self.pids() if _stat(pid)[_PARENT : _PARENT + 1] == [parent]]
        return found


def inotify_limits() -> Path:
    """The directory with the kernel's limits of inotify."""
    return Path(f"{PROC}/sys/fs/inotify")


@cache
def _boot_id() -> str:
    return _content(f"{PROC}/sys/kernel/random/boot_id").decode("ascii").strip()


def _stat(pid: int) -> list[bytes]:
    """The fields after the program's name; the name may contain spaces and parentheses."""
    return _content(f"{PROC}/{pid}/stat").rpartition(b")")[2].split()


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
