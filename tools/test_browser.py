"""Runs the tests of the pages in a real browser: Debian's chromium, installed first where that is possible.

The browser comes from the system's packages, its driver from the environment; nothing else is fetched. It has a profile
of its own and talks to servers on loopback alone. Screenshots are kept in build/screenshots. Arguments go to pytest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "chromium"


def main(arguments: list[str]) -> int:
    """Install, bring the third-party files, run."""
    os.chdir(ROOT)
    if shutil.which(PACKAGE) is None:
        _install()
    subprocess.run([sys.executable, str(ROOT / "tools" / "assets.py")], check=False)
    shutil.rmtree(ROOT / "build" / "screenshots", ignore_errors=True)
    jobs = ["-n", os.environ.get("JOBS", "auto"), "--dist", "loadfile"]  # a browser a process, a file a process
    python = [sys.executable, "-m", "pytest", *jobs, "--durations=8"]
    return subprocess.run([*python, *(arguments or ["tests/integration/browser"])], check=False).returncode


def _install() -> None:
    """As root with apt-get; anybody else is told by the first test that needs it."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    install = ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", PACKAGE]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.run(install, env=environment, stdout=sys.stderr, check=False).returncode:
        subprocess.run(["apt-get", "update", "--quiet"], env=environment, stdout=sys.stderr, check=False)
        subprocess.run(install, env=environment, stdout=sys.stderr, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
