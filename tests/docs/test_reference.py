"""The reference is what the code says, and the table of settings is what the code reads."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

from relight.settings import SETTINGS
from tests.docs.pages import ROOT
from tests.house.files import modules, nodes

READERS = {"os.environ.get", "environ.get", "environment.get", "os.getenv", "getenv"}
ENVIRONMENTS = {"os.environ", "environ", "environment"}
OUTSIDE = {"PATH", "TMPDIR", "PYTHONPATH", "LANG", "LC_ALL", "LC_CTYPE", "USER", "SHELL", "COMP_WORDS", "COMP_CWORD"}
"""variables of the system, which are not settings of relight"""


def test_the_reference_is_fresh() -> None:
    checked = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "reference.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_setting_that_is_read_is_listed() -> None:
    assert read_by_the_code() - {one.name for one in SETTINGS} - OUTSIDE == set()


def test_every_setting_that_is_listed_is_read_by_somebody() -> None:
    """By us, or by a library that draws for us and is named for it."""
    source = "\n".join(text for name, text, _ in modules(only_source=True) if not name.endswith("settings.py"))
    assert [one.name for one in SETTINGS if f'"{one.name}"' not in source] == []


def test_every_setting_is_listed_once_and_explained() -> None:
    names = [one.name for one in SETTINGS]
    assert len(names) == len(set(names))
    assert all(one.meaning.endswith(".") and one.default for one in SETTINGS)


def read_by_the_code() -> set[str]:
    return {
        name for _, _, tree in modules(only_source=True) for node in nodes(tree) for name in _names_read(node) if name
    }


def _names_read(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and ast.unparse(node.func) in READERS and node.args:
        yield _text(node.args[0])
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value) in ENVIRONMENTS:
        yield _text(node.slice)
    elif isinstance(node, ast.Compare) and any(ast.unparse(one) in ENVIRONMENTS for one in node.comparators):
        yield _text(node.left)


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
