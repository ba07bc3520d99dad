"""Processes as the tests see them, by psutil: also where tools/elsewhere.py hides /proc from relight."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import cast

import psutil  # type: ignore[import-untyped, unused-ignore]


def alive(pid: int) -> bool:
    """Does it run? One that only waits to be buried does not."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def living() -> list[int]:
    """Every process that runs, without this one."""
    return [pid for pid in psutil.pids() if pid != os.getpid() and alive(pid)]


def environment(pid: int) -> dict[str, str]:
    """What it was started with; empty where it has ended."""
    try:
        return cast(dict[str, str], psutil.Process(pid).environ())
    except (psutil.Error, OSError):
        return {}


def marked(name: str, value: str) -> list[int]:
    """The processes whose environment has this variable with this value."""
    return [pid for pid in living() if environment(pid).get(name) == value]


def words(pid: int) -> list[str]:
    """Its command line; empty where it has ended."""
    try:
        return cast(list[str], psutil.Process(pid).cmdline())
    except (psutil.Error, OSError):
        return []


def executable(pid: int) -> str:
    """The file it runs; empty where it has ended."""
    try:
        return cast(str, psutil.Process(pid).exe())
    except (psutil.Error, OSError):
        return ""


def directory(pid: int) -> str:
    """Where it works; empty where it has ended."""
    try:
        return cast(str, psutil.Process(pid).cwd())
    except (psutil.Error, OSError):
        return ""


def parent(pid: int) -> int:
    """The process that started it; 0 where it has ended."""
    try:
        return cast(int, psutil.Process(pid).ppid())
    except psutil.Error:
        return 0


def children(pid: int) -> list[int]:
    """Its children, those included that only wait to be buried."""
    return [child.pid for child in psutil.Process(pid).children()]


def peak_megabytes() -> int:
    """The most memory this process has had so far."""
    if hasattr(psutil, "PROCFS_PATH"):  # on Linux rusage counts the process it was started from too
        status = Path(psutil.PROCFS_PATH, "self", "status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20
