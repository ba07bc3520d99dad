"""The files of the repository, as the tests of the house see them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src" / "relight"

_GENERATED = {".git", ".venv", "build", "dist", "__pycache__"}


@cache
def tracked() -> tuple[Path, ...]:
    """Every file git tracks or would track; outside a clone, every file that is not generated."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [path for path in ROOT.rglob("*") if not _is_generated(path)]
    return tuple(sorted(path for path in paths if path.is_file()))


def _is_generated(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return any(part in _GENERATED or part.endswith(("_cache", ".egg-info", ".hypothesis")) for part in parts)


def texts() -> Iterator[tuple[str, str]]:
    """Name and content of every tracked text file."""
    for path in tracked():
        content = path.read_bytes()
        if b"\0" not in content:
            yield name(path), content.decode("utf-8", errors="replace")


def modules(*, only_source: bool = False) -> list[tuple[str, str, ast.Module]]:
    """Name, text and tree of every Python file we keep."""
    paths = [path for path in tracked() if path.suffix == ".py"]
    if only_source:
        paths = [path for path in paths if path.is_relative_to(SOURCE)]
    return [(name(path), text := path.read_text(encoding="utf-8"), ast.parse(text)) for path in paths]


def name(path: Path) -> str:
    """The path as one writes it, from the root of the repository."""
    return path.relative_to(ROOT).as_posix()
