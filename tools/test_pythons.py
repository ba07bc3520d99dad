"""Runs the fast suites and the demo under every supported Python that this machine has, and names the others.

The versions are those of pyproject.toml's classifiers. An interpreter is looked for on PATH and under pyenv; each found
one gets an environment of its own in build/pythons, with the pinned requirements. For one that is not found the source
is at least read by mypy with the standard library of that version: that finds names it lacks, and runs nothing.
Arguments go to pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OURS = f"{sys.version_info.major}.{sys.version_info.minor}"
SUITES = ["tests/unit/sessions", "tests/unit/journal"]


def main(arguments: list[str]) -> int:
    """Each version in turn, whatever became of the one before; the status is the first failure's."""
    os.chdir(ROOT)
    status, missing = 0, []
    for version in versions():
        python = find(version)
        if version == OURS:
            print(f"Python {version}: this environment's own, under which `make test` runs", flush=True)
        elif python is None:
            missing.append(version)
            read = [sys.executable, "-m", "mypy", "--python-version", version, "--cache-dir", ".mypy_cache", "src"]
            print(f"Python {version}: not found, only read by mypy", flush=True)
            status = subprocess.run(read, check=False).returncode or status
        else:
            print(f"Python {version}: {python}", flush=True)
            status = run(version, python, arguments) or status
    if missing:
        print(f"not run, for there is no such interpreter here: Python {', '.join(missing)}")
    return status


def versions() -> list[str]:
    """The versions that pyproject.toml claims."""
    claimed = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', claimed)


def find(version: str) -> str | None:
    """An interpreter of this version that starts; a shim of pyenv may be there and not start."""
    return next((one for one in _candidates(version) if _version_of(one) == version), None)


def _candidates(version: str) -> Iterator[str]:
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True))


def _version_of(python: str) -> str:
    tell = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", tell], capture_output=True, text=True, check=False).stdout.strip()


def run(version: str, python: str, arguments: list[str]) -> int:
    """Make its environment complete, import, play the demo, test."""
    place = ROOT / "build" / "pythons" / version
    inside = str(place / "bin" / "python")
    install = [str(ROOT / ".venv" / "bin" / "uv"), "pip", "install", "--quiet", "--system-certs", "--python", inside]
    jobs = ["-n", os.environ.get("JOBS", "auto"), "--dist", "worksteal", "-p", "no:cacheprovider"]
    for command in (
        [python, "-m", "venv", "--without-pip", str(place)],
        [*install, "--require-hashes", "-r", "requirements/dev.txt"],
        [*install, "--no-deps", "--no-build-isolation", "-e", "."],
        [inside, "-W", "error", "-m", "relight.cli", "--version"],
        [inside, "-m", "relight.cli", "demo", "--json"],
        [inside, "-m", "pytest", "-q", *jobs, *SUITES, *arguments],
    ):
        environment = {**os.environ, "RELIGHT_PYTHON": version}
        shown = None if "pytest" in command else subprocess.DEVNULL
        code = subprocess.run(command, env=environment, stdout=shown, check=False).returncode
        if code:
            print(f"Python {version}: failed with {code}: {' '.join(command)}", flush=True)
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
