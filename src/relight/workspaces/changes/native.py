"""The compiled scanner: built once per machine with its C compiler, loaded with ctypes, optional.

The source ships with the package; the library is cached under a name with the hash of source and machine, in a
directory that only the user can write. Without a compiler or cache directory, or with RELIGHT_NATIVE=0, `load` returns
None and `scan` does the same in Python.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Final

from relight.system import private_directories

SOURCE: Final = Path(__file__).with_name("_scan.c")
COMPILE_SECONDS: Final = 30.0


@lru_cache(maxsize=1)
def load() -> ctypes.CDLL | None:
    """The library, or None if there is no compiled scanner on this machine."""
    if os.environ.get("RELIGHT_NATIVE") == "0" or platform.system() != "Linux":
        return None
    try:
        library = ctypes.CDLL(str(_build()))
    except (OSError, subprocess.SubprocessError):
        return None
    library.relight_scan.restype = None
    library.relight_release.restype = None
    return library


def _build() -> Path:
    source = SOURCE.read_bytes()
    name = hashlib.sha256(source + platform.machine().encode() + platform.libc_ver()[1].encode()).hexdigest()[:24]
    home = _cache()
    library = home / f"scan-{name}.so"
    if library.exists():
        return library
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise OSError("no C compiler")
    handle, partial = tempfile.mkstemp(dir=home, suffix=".so")
    os.close(handle)
    try:
        subprocess.run(
            [compiler, "-O2", "-shared", "-fPIC", "-pthread", "-o", partial, str(SOURCE)],
            check=True,
            capture_output=True,
            timeout=COMPILE_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        os.chmod(partial, 0o700)
        os.replace(partial, library)
    finally:
        Path(partial).unlink(missing_ok=True)
    return library


def _cache() -> Path:
    """The private cache directory: a library that another user could write would run as us."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    home = Path(base) / "relight"
    private_directories.make(home)
    found = home.stat()
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise OSError(f"{home} can be written by others")
    return home
