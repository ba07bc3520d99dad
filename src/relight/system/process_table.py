"""Evidence about the processes of this machine: start times, parents, environments, and which boot this is.

There are two sources: the files in /proc (proc_table.py) and psutil (psutil_table.py). Where neither works the table is
empty and `boot` too, so nothing is taken for dead and nothing is ended by mistake.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Protocol

from relight.system.platform import Platform, this_platform
from relight.system.process_facts import Facts


class ProcessTable(Protocol):
    """The processes that this process can see. Nothing raises: what cannot be read is empty."""

    def boot(self) -> str:
        """An id of this boot of this machine; empty if it has none."""
        ...

    def namespace(self) -> str:
        """The pid namespace; empty where there are none."""
        ...

    def pids(self) -> Iterable[int]:
        """All processes."""
        ...

    def facts(self, pid: int) -> Facts | None:
        """None if there is no such process, or it cannot be seen."""
        ...

    def environment(self, pid: int) -> list[bytes]:
        """The variables it was started with, as NAME=VALUE."""
        ...

    def words(self, pid: int) -> list[str]:
        """Its command line."""
        ...

    def executable(self, pid: int) -> str:
        """The path of its program file, which a process cannot choose as it can its command line."""
        ...

    def input(self, pid: int) -> str:
        """What its standard input is, or could be: equal for two processes that read from the same terminal."""
        ...

    def files(self, pid: int) -> Iterable[str]:
        """The real paths of its open files."""
        ...

    def foreground(self, pid: int) -> int:
        """The foreground group of its terminal; 0 if it has none."""
        ...

    def children(self) -> list[int]:
        """The children of this process, zombies included."""
        ...


class NoProcessTable:
    """The table of a machine that shows no processes."""

    def boot(self) -> str:
        return ""

    def namespace(self) -> str:
        return ""

    def pids(self) -> Iterable[int]:
        return ()

    def facts(self, pid: int) -> Facts | None:
        return None

    def environment(self, pid: int) -> list[bytes]:
        return []

    def words(self, pid: int) -> list[str]:
        return []

    def executable(self, pid: int) -> str:
        return ""

    def input(self, pid: int) -> str:
        return ""

    def files(self, pid: int) -> Iterable[str]:
        return ()

    def foreground(self, pid: int) -> int:
        return 0

    def children(self) -> list[int]:
        return []


def table_for(platform: Platform) -> ProcessTable:
    """The best source of evidence that this platform has."""
    if platform.has_proc:
        from relight.system.proc_table import ProcTable

        return ProcTable()
    try:
        from relight.system.psutil_table import PsutilTable
    except ImportError:
        return NoProcessTable()
    table = PsutilTable(platform)
    # On a Linux without /proc psutil reports every process as missing, which must not be read as their death.
    return table if table.works() else NoProcessTable()


@cache
def process_table() -> ProcessTable:
    """The table of this machine."""
    return table_for(this_platform())
