"""What Python's modules lack on macOS, taken away at the start of every interpreter; see tools/elsewhere.py.

Only names that relight, a dependency or a test could ask for. What macOS has instead (F_FULLFSYNC, kqueue, clonefile)
is not added: choices for darwin are unit-tested by handing the platform in.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_OS = """
copy_file_range eventfd eventfd_read eventfd_write fdatasync getrandom getresgid getresuid getxattr listxattr
memfd_create pidfd_open pipe2 posix_fadvise posix_fallocate removexattr sched_getaffinity sched_setaffinity setns
setresgid setresuid setxattr splice unshare waitid O_DIRECT O_LARGEFILE O_NOATIME O_PATH O_RSYNC O_TMPFILE P_PIDFD
"""
_LACKING = {
    "os": _OS,
    "posix": _OS,
    "select": "epoll",
    "_signal": "pidfd_send_signal sigtimedwait sigwaitinfo",
    "time": "CLOCK_BOOTTIME CLOCK_TAI",
    "_socket": "SO_PEERCRED SO_PASSCRED SOCK_CLOEXEC SOCK_NONBLOCK AF_NETLINK AF_ALG AF_VSOCK",
    "resource": "prlimit",
    "fcntl": "F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_ADD_SEALS F_GET_SEALS F_SETPIPE_SZ F_GETPIPE_SZ F_NOTIFY",
}
"""`signal` and `socket` take their names from the modules with an underscore, which are loaded faster"""


def begin(procfs: str) -> None:
    """Take the names away, and have psutil read this procfs once it is imported."""
    if os.path.exists("/proc/self"):
        _hide_proc()  # started by a program that has to see it, see --linux-program
    for name, lacking in _LACKING.items():
        module = import_module(name)
        for each in lacking.split():
            module.__dict__.pop(each, None)
        if hasattr(module, "__all__"):
            module.__all__[:] = [each for each in module.__all__ if hasattr(module, each)]
    sys.meta_path.insert(0, _PsutilFinder(procfs))


def _hide_proc() -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x00020000) or libc.mount(b"none", b"/proc", b"tmpfs", ctypes.c_ulong(1), None):
        raise OSError(ctypes.get_errno(), "cannot hide /proc again")


class _PsutilFinder:
    """Finds psutil where it is, and sets its PROCFS_PATH after it was loaded: most processes never import it."""

    def __init__(self, procfs: str) -> None:
        self._procfs = procfs

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "psutil":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def then_tell(module: ModuleType) -> None:
            execute(module)
            vars(module)["PROCFS_PATH"] = self._procfs

        vars(spec.loader)["exec_module"] = then_tell
        return spec
