"""Runs the demo and the suite on a simulated machine without Linux's special calls; see tools/elsewhere.py.

First mypy reads the source as for macOS: a name that its standard library lacks is an error there. Then, on that
machine, the demo as a whole, and the suite with the samples of planted bugs, without what tests/elsewhere.toml names.
Arguments go to pytest. The real agents on that machine: tools/test_agents.py --elsewhere.
Where the kernel forbids such a machine, the rest is skipped and that is said.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.elsewhere import left_out  # noqa: E402 - found by the line above
from tools.elsewhere import FORBIDDEN  # noqa: E402

THERE = [sys.executable, str(ROOT / "tools" / "elsewhere.py")]


def main(arguments: list[str]) -> int:
    """Check, play, test: every part runs, whatever became of the one before."""
    os.chdir(ROOT)
    darwin = [sys.executable, "-m", "mypy", "--platform", "darwin", "--no-warn-unreachable", "src"]
    read = subprocess.run([*darwin, "--cache-dir", ".mypy_cache/darwin"], check=False).returncode
    if subprocess.run([*THERE, "true"], check=False).returncode == FORBIDDEN:
        return read
    demo = subprocess.run([*THERE, sys.executable, "-m", "relight.cli", "demo"], check=False).returncode
    suite = subprocess.run([*THERE, *_pytest(), *arguments], check=False).returncode
    return read or demo or suite


def _pytest() -> list[str]:
    jobs = ["-n", os.environ.get("JOBS", "auto"), "--dist", "worksteal", "--durations=8"]
    suites, _ = left_out()
    return [sys.executable, "-m", "pytest", *jobs, *(f"--ignore={suite}" for suite in suites), "tests"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
