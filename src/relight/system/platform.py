"""Which platform this is. Choices by platform take a `Platform` as an argument, so that tests can hand in another."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Final

PROC: Final = "/proc"
"""where Linux shows its processes; no other package reads it"""


class Platform:
    """The operating system by Python's name for it, and whether it shows processes as files, as Linux does."""

    __slots__ = ("has_proc", "system")

    def __init__(self, system: str, has_proc: bool = False) -> None:
        self.system = system
        self.has_proc = has_proc

    @property
    def is_linux(self) -> bool:
        return self.system.startswith("linux")

    @property
    def is_macos(self) -> bool:
        return self.system == "darwin"


def check_supported(platform: Platform) -> None:
    """UsageError on Windows, which lacks the calls of POSIX that sessions and processes need."""
    if platform.system == "win32":
        from relight.errors import UsageError

        hints = ["in PowerShell: wsl --install, then install and run relight inside of it"]
        raise UsageError("relight does not run on Windows itself, but does in WSL, the Linux in Windows", hints=hints)


@cache
def this_platform() -> Platform:
    """The platform that this process runs on."""
    return Platform(sys.platform, has_proc=sys.platform.startswith("linux") and os.path.exists(f"{PROC}/self/stat"))
