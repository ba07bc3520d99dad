"""The files of the repository, as the tests of the house see them."""

from __future__ import annotations

import ast
import gc
import subprocess
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


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Name and content of every tracked text file; read once in a process."""
    contents = ((name(path), path.read_bytes()) for path in tracked())
    return tuple(
        (path, content.decode("utf-8", errors="replace")) for path, content in contents if b"\0" not in content
    )


def modules(*, only_source: bool = False) -> list[tuple[str, str, ast.Module]]:
    """Name, text and tree of every Python file we keep."""
    return [one for one in _parsed() if not only_source or one[0].startswith("src/relight/")]


@cache
def _parsed() -> tuple[tuple[str, str, ast.Module], ...]:
    """Every Python file, parsed once in a process, with the garbage collector off and blind to what stays."""
    # The trees are a million objects that live as long as the process. Collections while they are made would look
    # at each of them again and again (three quarters of the time), and so would every later one of other tests.
    gc.disable()
    try:
        found = tuple((path, text, ast.parse(text)) for path, text in texts() if path.endswith(".py"))
        for _, _, tree in found:
            nodes(tree)
        gc.freeze()
    finally:
        gc.enable()
    return found


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Every node of a module, as `ast.walk` gives them."""
    return tuple(ast.walk(tree))


def name(path: Path) -> str:
    """The path as one writes it, from the root of the repository."""
    return path.relative_to(ROOT).as_posix()
