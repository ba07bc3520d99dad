"""Make .venv complete: everything pinned, everything hashed, and relight itself in place.

Runs on a bare Python with pip, and needs nothing but the package index. Order: an interpreter that
works, then uv from its own pin, then the requirements, then this package in editable form without
dependencies and without build isolation (a build environment would be fetched without hashes). Where uv
cannot be had, or cannot reach the index pip was configured for, pip does the same work more slowly.

An existing .venv is completed, not replaced, unless its interpreter no longer runs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST = (3, 11)

_PROBE = f"import sys; sys.exit(sys.version_info < {OLDEST} or sys.prefix == sys.base_prefix)"


def main() -> int:
    """Bring the environment up to date; the exit status is the first failure's."""
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:3]))
        print(f"relight needs Python 3.11 or newer, this is {found}", file=sys.stderr)
        print("hint: make PYTHON=python3.11 ...", file=sys.stderr)
        return 1
    python = VENV / "bin" / "python"
    if not _works(python):
        _make_venv()
    pip = _pip(python)
    uv = _uv(python, pip)
    requirements = ["--require-hashes", "-r", str(ROOT / "requirements" / "dev.txt")]
    ourselves = ["--no-deps", "--no-build-isolation", "-e", str(ROOT)]
    assets = [sys.executable, str(ROOT / "tools" / "assets.py")]  # what it cannot bring it says; that is no failure
    _run(assets)
    for what in (requirements, ourselves):
        if uv and _run([*uv, *what]) == 0:
            continue
        status = _run([*pip, *what])
        if status:
            return status
    return 0


def _works(python: Path) -> bool:
    if not python.exists():
        return False
    return subprocess.run([python, "-c", _PROBE], capture_output=True, check=False).returncode == 0


def _make_venv() -> None:
    """A venv with pip, or without where the distribution lacks ensurepip: pip also works from outside."""
    for more in ([], ["--without-pip"]):
        if _run([sys.executable, "-m", "venv", "--clear", *more, str(VENV)]) == 0:
            return
    raise SystemExit("python cannot make a virtual environment (on Debian: apt-get install python3-venv)")


def _pip(python: Path) -> list[str]:
    """The pip of the environment, or ours pointed at it."""
    inside = [str(python), "-m", "pip"]
    has_pip = subprocess.run([*inside, "--version"], capture_output=True, check=False).returncode == 0
    base = inside if has_pip else [sys.executable, "-m", "pip", "--python", str(python)]
    return [*base, "--disable-pip-version-check", "install", "--quiet"]


def _uv(python: Path, pip: list[str]) -> list[str] | None:
    """The pinned uv as an installer, or None where it cannot be installed."""
    if _run([*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "uv.txt")]):
        return None
    # The certificates of the system, as pip and every other client uses them: the machine may have added its own.
    return [str(python.with_name("uv")), "pip", "install", "--quiet", "--system-certs", "--python", str(python)]


def _run(argv: list[str]) -> int:
    return subprocess.run(argv, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
