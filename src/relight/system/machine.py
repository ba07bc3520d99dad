"""The system's clock, randomness and process evidence, as the ports in ports/clock.py; and private files."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from relight.system import private_directories
from relight.values.lease import Instant, Owner

if TYPE_CHECKING:
    from relight.journal.redaction.redactor import Redactor


@cache
def redactor() -> Redactor:
    """A redactor for the secrets in this process's environment; cached."""
    from relight.journal.redaction.redactor import Redactor

    return Redactor(secrets_of(os.environ))


def secrets_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables with secret values: those with telling names, and those that RELIGHT_SECRETS lists."""
    from relight.journal.redaction.redactor import secret_names

    declared = [name for name in environment.get("RELIGHT_SECRETS", "").split(",") if name in environment]
    return {name: environment[name] for name in (*secret_names(environment), *declared)}


class SystemClock:
    """Wall time for display; time since boot for leases, which is never set back and continues during suspend."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def instant(self) -> Instant:
        return Instant(timeline=_timeline(), us=_boot_time_ns() // 1000)

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
    """Evidence about processes from /proc."""

    def owner(self, owner_id: str) -> Owner:
        pid = os.getpid()
        return Owner(
            id=owner_id,
            host=os.uname().nodename,
            boot=_boot_id(),
            pid_namespace=_pid_namespace(pid),
            pid=pid,
            pid_start=_pid_start(pid) or 0,
        )

    def is_gone(self, owner: Owner) -> bool | None:
        if not owner.pid or not owner.pid_start:
            return None
        # A missing pid is evidence of death only in the same boot and pid namespace. Another boot of the same host
        # is evidence too: no process survives a reboot.
        if owner.boot != _boot_id():
            return True if owner.host == os.uname().nodename and owner.boot else None
        if owner.pid_namespace != _pid_namespace(os.getpid()):
            return None
        return _pid_start(owner.pid) != owner.pid_start


def _boot_time_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns()


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@cache
def _timeline() -> str:
    return f"boot:{_boot_id() or os.uname().nodename}"


def _pid_namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _pid_start(pid: int) -> int | None:
    """Start time in ticks since boot; None if there is no such process, or it is a zombie."""
    try:
        fields_of = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = fields_of.rpartition(b")")[2].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19])


def write_private(path: Path, content: bytes) -> None:
    """Write a file readable by this user only, atomically. Not synced: such files are rewritten at every start."""
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
