"""The machine without Linux's special calls is one, and what the suite leaves out there is named, with a reason."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from tests.house.files import ROOT, modules
from tests.support.elsewhere import left_out
from tools.elsewhere import FORBIDDEN, REFUSED, filter_of

pytestmark = pytest.mark.house

LOOK = """
import ctypes, errno, json, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def error(call, *arguments):
    return errno.errorcode.get(ctypes.get_errno()) if getattr(libc, call)(*arguments) == -1 else None
child = "import os, psutil; print(len(os.listdir('/proc')), os.getpid() in psutil.pids(), hasattr(os, 'fdatasync'))"
print(json.dumps({
    "inotify": error("inotify_init1", 0),
    "subreaper": error("prctl", 36, 1, 0, 0, 0),
    "death signal": error("prctl", 1, 9, 0, 0, 0),
    "other prctl": error("prctl", 3, 0, 0, 0, 0),
    "exchange": error("renameat2", -100, b"/no/a", -100, b"/no/b", 2),
    "rename": error("renameat2", -100, b"/no/a", -100, b"/no/b", 0),
    "openat2": error("syscall", 437, -100, b".", bytes(24), 24),
    "pidfd": error("syscall", 434, os.getpid(), 0),
    # a child with no environment at all is on the same machine
    "child": subprocess.run([sys.executable, "-I", "-c", child], env={}, capture_output=True, text=True).stdout.split(),
}))
"""


def test_there_the_special_calls_fail_for_every_child_and_others_work() -> None:
    harness = [sys.executable, str(ROOT / "tools" / "elsewhere.py")]
    run = subprocess.run([*harness, sys.executable, "-c", LOOK], capture_output=True, text=True, check=False)
    if run.returncode == FORBIDDEN:
        pytest.skip(run.stderr.strip())
    assert json.loads(run.stdout or run.stderr) == {
        "inotify": "ENOSYS",
        "subreaper": "EINVAL",
        "death signal": "EINVAL",
        "other prctl": None,
        "exchange": "EINVAL",
        "rename": "ENOENT",
        "openat2": "ENOSYS",
        "pidfd": "ENOSYS",
        "child": ["0", "True", "False"],
    }


@pytest.mark.parametrize("architecture", [0xC000003E, 0xC00000B7], ids=["x86_64", "aarch64"])
def test_the_filter_is_whole_on_both_architectures(architecture: int) -> None:
    filters = filter_of(architecture)
    assert {len(one) for one in filters} == {8}
    refusing = [one for one in filters if int.from_bytes(one[4:], "little") >> 16 == 5]
    unknown = sum((one.x86_64 if architecture == 0xC000003E else one.aarch64) is None for one in REFUSED)
    assert len(refusing) == len(REFUSED) - unknown


def test_what_is_left_out_there_exists_and_has_a_reason() -> None:
    suites, single = left_out()
    assert [
        suite for suite, reason in suites.items() if not list((ROOT / suite).rglob("test_*.py")) or not reason
    ] == []
    defined = {
        f"{name}::{node.name}"
        for name, _, tree in modules()
        if name.startswith("tests/")
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert [test for test, reason in single.items() if test not in defined or not reason] == []
    assert [test for test in single if test.startswith(tuple(f"{suite}/" for suite in suites))] == [], "left out twice"


def test_nothing_else_is_left_out_there() -> None:
    """Only the list decides: no test asks by itself whether it is on that machine."""
    asking = [name for name, text, _ in modules() if name.startswith("tests/") and "RELIGHT_" + "ELSEWHERE" in text]
    assert asking == ["tests/conftest.py", "tests/support/figures.py"]
