"""Running the demo as a user does: in a process of its own, in a temporary directory that is looked at afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import relight
from tests.support.processes import directory, living

SOURCE = Path(relight.__file__).resolve().parent.parent
"""of the very relight under test, which may be a patched one"""
RELIGHT = "import sys; from relight.cli.main import main; sys.exit(main())"
SECONDS = 100

Done = subprocess.CompletedProcess[str]


def environment(temporary: Path, **changes: str | None) -> dict[str, str]:
    """Ours, with a temporary directory of its own; None takes a variable away."""
    given = (
        dict(os.environ) | {"TMPDIR": str(temporary), "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(SOURCE)} | changes
    )
    return {name: value for name, value in given.items() if value is not None}


def play(*arguments: str, temporary: Path, cwd: Path | None = None, **changes: str | None) -> Done:
    """One demo to its end."""
    return python(RELIGHT, "demo", *arguments, temporary=temporary, cwd=cwd, **changes)


def python(program: str, *arguments: str, temporary: Path, cwd: Path | None = None, **changes: str | None) -> Done:
    """A program in a process of its own, to its end."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment(temporary, **changes),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )


def numbers(done: Done) -> dict[str, Any]:
    """The document of a demo whose claims all held."""
    assert done.returncode == 0, done.stderr + done.stdout
    assert "Traceback" not in done.stderr, "a thread that answers an agent outlives its kill quietly"
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["ok"] is True
    return document


def players(temporary: Path) -> list[int]:
    """Processes that work in a demo's directory."""
    return [pid for pid in living() if directory(pid).startswith(str(temporary.resolve()))]


def wait_for(true: Callable[[], Any], what: str, seconds: float = 30.0) -> None:
    """Until a condition holds; a failure names it."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)
