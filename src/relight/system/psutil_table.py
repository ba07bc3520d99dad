"""The table of processes where there is no /proc: psutil, plain POSIX calls, and `ps` for what psutil does not tell."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Final

import psutil

from relight.system.platform import Platform
from relight.system.process_facts import Facts

_BOOT_IDS: Final = {"darwin": b"kern.bootsessionuuid", "freebsd": b"kern.boot_id"}
_PS_SECONDS: Final = 5.0


class PsutilTable:
    """As `ProcessTable` says. Start times are microseconds, as the kernel recorded them when the process started."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def works(self) -> bool:
        """Whether it sees this process itself, without which a missing process is no evidence of anything."""
        return self.facts(os.getpid()) is not None

    def boot(self) -> str:
        # The time of the boot is no id: it moves whenever the clock is set.
        return self._boot

    @cached_property
    def _boot(self) -> str:
        name = next((name for system, name in _BOOT_IDS.items() if self._platform.system.startswith(system)), b"")
        return _sysctl(name) if name else ""

    def namespace(self) -> str:
        return ""

    def pids(self) -> Iterable[int]:
        try:
            return list(psutil.pids())
        except (psutil.Error, OSError):
            return ()

    def facts(self, pid: int) -> Facts | None:
        if pid <= 0:
            return None
        is_zombie, parent = False, 0
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                # As the kernel recorded it. The public create_time() is corrected when the clock is set, by each
                # process with its own correction, so two processes may get different values for the same process.
                start = str(round(process._proc.create_time(monotonic=True) * 1e6))
                parent = process.ppid()
                is_zombie = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        except psutil.ZombieProcess:
            start, is_zombie = "", True
        except (psutil.Error, OSError):
            return None
        return Facts(start, is_zombie, parent, _number(os.getpgid, pid), _number(os.getsid, pid))

    def environment(self, pid: int) -> list[bytes]:
        found: dict[str, str] = _asked(pid, lambda process: process.environ(), {})
        return [os.fsencode(f"{name}={value}") for name, value in found.items()]

    def words(self, pid: int) -> list[str]:
        found: list[str] = _asked(pid, lambda process: process.cmdline(), [])
        return found

    def executable(self, pid: int) -> str:
        return str(_asked(pid, lambda process: process.exe(), "")).removesuffix(" (deleted)")

    def input(self, pid: int) -> str:
        """Its controlling terminal. Descriptors of other processes are not shown, so every process on a terminal is
        taken for one that could read from it."""
        return _asked(pid, lambda process: process.terminal(), "") or ""

    def files(self, pid: int) -> Iterable[str]:
        return [file.path for file in _asked(pid, lambda process: process.open_files(), [])]

    def foreground(self, pid: int) -> int:
        try:
            words = ["ps", "-o", "tpgid=", "-p", str(pid)]
            done = subprocess.run(words, capture_output=True, timeout=_PS_SECONDS, check=False)
            return max(int(done.stdout), 0)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return 0

    def children(self) -> list[int]:
        ours = os.getpid()
        return [pid for pid in self.pids() if (found := self.facts(pid)) is not None and found.parent == ours]


def _asked(pid: int, question: Callable[[psutil.Process], Any], otherwise: Any) -> Any:
    """The answer for this process; `otherwise` if it is gone or belongs to another user."""
    try:
        return question(psutil.Process(pid)) if pid > 0 else otherwise
    except (psutil.Error, OSError):
        return otherwise


def _number(call: Callable[[int], int], pid: int) -> int:
    try:
        return call(pid)
    except OSError:
        return 0


def _sysctl(name: bytes) -> str:
    """A text from the kernel's own table of values; empty if there is no such call or value."""
    try:
        read = ctypes.CDLL(None, use_errno=True).sysctlbyname
    except (AttributeError, OSError):
        return ""
    buffer, size = ctypes.create_string_buffer(128), ctypes.c_size_t(128)
    if read(name, buffer, ctypes.byref(size), None, ctypes.c_size_t(0)):
        return ""
    return buffer.value.decode("ascii", "replace")
