"""The compiled scanner: a shared library that was built when relight was installed, loaded with ctypes, optional.

Nothing is compiled at run time, and nothing is loaded but the file beside this module. An install without a C compiler,
a platform other than Linux, a kernel without openat2 and RELIGHT_NATIVE=0 have none: `scan` does the same in Python.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path
from typing import Final

from relight.workspaces.restore.openat import has_openat2

LIBRARY: Final = Path(__file__).with_name("_scan.so.1")
"""the number is raised with every change of `_scan.c` that scan.py must know of; no suffix of a Python module"""


def load() -> ctypes.CDLL | None:
    """The library, or None if directories are to be scanned in Python."""
    if os.environ.get("RELIGHT_NATIVE") == "0" or not has_openat2():
        return None
    return _load(LIBRARY)


@lru_cache(maxsize=1)
def _load(path: Path) -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(path))
    except OSError:  # there is none, or one of another machine
        return None
    library.relight_scan.restype = None
    library.relight_release.restype = None
    return library
