"""Layering that import-linter does not see: modules that are named in strings."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.files import SOURCE, modules, nodes

pytestmark = pytest.mark.house

_MODULE = re.compile(r"relight(?:\.[a-z_]+)+")


def _is_module(name: str) -> bool:
    path = SOURCE.joinpath(*name.split(".")[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _named(tree: ast.Module) -> set[str]:
    """Modules of ours that strings of a file name, in full or as one word of a command line."""
    texts = (node.value for node in nodes(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {text for text in texts if _MODULE.fullmatch(text) and _is_module(text)}


def _imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_no_string_names_a_module_past_the_layers() -> None:
    """A module in a string is an import that import-linter cannot see. It may be an entry point of a process, or be
    imported for the type checker in the same file; wiring, the package itself and the demo import everything anyway."""
    anything = ("src/relight/wiring.py", "src/relight/__init__.py", "src/relight/demo/")
    past = {
        f"{name}: {module}"
        for name, _, tree in modules(only_source=True)
        if not name.startswith(anything)
        for module in _named(tree) - _imported(tree)
        if not module.startswith("relight.processes.")
        and not name.startswith(f"src/{module.replace('.', '/')}/")
        and not (module.startswith("relight.cli") and name.startswith("src/relight/cli/"))
    }
    assert past == set()
