"""The system's clock, randomness and process evidence, as the ports in ports/clock.py; and private files."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from functools import cache
from pathlib import Path
from typing import Final

from relight.system.platform import Platform
from relight.system.process_table import ProcessTable, process_table
from relight.values.lease import Instant, Owner


@cache
def _timeline() -> str:
    """The timeline of this boot, made once: every commit asks for it. Empty if the boot has no id."""
    boot = process_table().boot()
    return f"boot:{boot}" if boot else ""


class SystemClock:
    """Wall time for display; time since boot for leases, which is never set back and continues during suspend."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def instant(self) -> Instant:
        timeline = _timeline()
        if timeline:
            return Instant(timeline=timeline, us=time.clock_gettime_ns(_SINCE_BOOT) // 1000)
        # Time since a boot without an id could not be told from that of an earlier boot: a lease of then could last
        # for days after a reboot. The wall clock may be set, which costs a takeover too late or one that is fenced.
        return Instant(timeline=f"host:{os.uname().nodename}", us=self.now_us())

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class SystemEntropy:
    """Ids and jitter from the system's random source."""

    def session_id(self) -> str:
        return os.urandom(16).hex()

    def key(self) -> bytes:
        return os.urandom(8)

    def jitter(self) -> float:
        return int.from_bytes(os.urandom(4), "big") / 2**32


class SystemHost:
    """Evidence about processes from the table of this machine."""

    def __init__(self, table: ProcessTable | None = None) -> None:
        self._given = table

    @property
    def _table(self) -> ProcessTable:
        return self._given if self._given is not None else process_table()

    def owner(self, owner_id: str) -> Owner:
        pid = os.getpid()
        facts = self._table.facts(pid)
        return Owner(
            id=owner_id,
            host=os.uname().nodename,
            boot=self._table.boot(),
            pid_namespace=self._table.namespace(),
            pid=pid,
            pid_start=int(facts.start) if facts is not None else 0,
        )

    def is_gone(self, owner: Owner) -> bool | None:
        if not owner.pid or not owner.pid_start:
            return None
        # A missing pid is evidence of death only in the same boot and pid namespace. Another boot of the same host
        # is evidence too: no process survives a reboot. Where boots have no id, the host's name has to do.
        boot, is_this_host = self._table.boot(), owner.host == os.uname().nodename
        if owner.boot != boot:
            return True if is_this_host and owner.boot and boot else None
        if owner.pid_namespace != self._table.namespace() or not (boot or is_this_host):
            return None
        facts = self._table.facts(owner.pid)
        if facts is None:
            return True if _is_no_pid(owner.pid) else None
        return facts.is_zombie or int(facts.start) != owner.pid_start


def _is_no_pid(pid: int) -> bool:
    """Whether there is no process with this pid. One of another user may be hidden from the table (hidepid)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def clock_since_boot(platform: Platform) -> str:
    """The name in `time` of a clock that is never set and continues during suspend."""
    # On macOS time.monotonic() stands still while the machine sleeps, and a lease would outlive its owner by a night.
    return "CLOCK_BOOTTIME" if platform.is_linux else "CLOCK_MONOTONIC_RAW" if platform.is_macos else "CLOCK_MONOTONIC"


_SINCE_BOOT: Final[int] = getattr(time, clock_since_boot(Platform(sys.platform)), getattr(time, "CLOCK_MONOTONIC", 0))


def write_private(path: Path, content: bytes) -> None:
    """Write a file readable by this user only, atomically, in a directory that is made if need be. Not synced: such
    files are rewritten at every start."""
    from relight.system import private_directories

    private_directories.make(path.parent)
    private_directories.write(path, content)


def open_log(path: Path) -> int:
    """A descriptor that appends to a private log. OSError if the path is not a regular file of this user's own."""
    # No symbolic link is followed and no hard link accepted: either would let another user choose the file written.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_uid != os.geteuid():
        os.close(descriptor)
        raise OSError(errno.EPERM, "not a regular file of this user", str(path))
    os.fchmod(descriptor, 0o600)
    return descriptor
