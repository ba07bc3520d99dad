"""Build the compiled scanner of workspaces beside its source: `python tools/build_scan.py`, and every wheel's build.

It is a plain shared library that `relight.workspaces.changes.native` loads with ctypes, so it needs a C compiler but no
headers of Python, and one build serves every version of Python. It exists for Linux only. Without it, or with
RELIGHT_NATIVE=0 during the build, the wheel is pure and directories are scanned in Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parent.parent / "src/relight/workspaces/changes/_scan.c"
BUILT: Final = SOURCE.with_name("_scan.so.1")
TAG: Final = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
"""the tag of a wheel that holds the library"""
COMPILE_SECONDS: Final = 60.0


def build(target: Path = BUILT, *, platform: str = sys.platform) -> str:
    """Compile the scanner to `target`; returns why there is none, empty if it was built. No former one is left."""
    reason = _compile(target, platform)
    for former in target.parent.glob("_scan.so*"):
        if reason or former != target:
            former.unlink(missing_ok=True)
    return reason


def _compile(target: Path, platform: str) -> str:
    if os.environ.get("RELIGHT_NATIVE") == "0":
        return "RELIGHT_NATIVE is 0"
    if platform != "linux":
        return f"it is for Linux, and this is {platform}"
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return "there is no C compiler"
    # In a directory of its own and renamed: a process that has the former library loaded keeps it.
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        command = [compiler, "-O2", "-shared", "-fPIC", "-pthread", "-o", str(made), str(SOURCE)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{compiler}: {error}"
        if done.returncode:
            return f"{compiler}: {done.stderr.strip()[-400:]}"
        made.replace(target)
    return ""


if __name__ == "__main__":
    print(build() or BUILT)
