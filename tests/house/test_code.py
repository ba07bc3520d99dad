"""The code stays in style: small, explained in its first lines, nothing swallowed, nothing pretended."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.files import modules, nodes, texts

pytestmark = pytest.mark.house

MAX_LINES_A_FILE = 600
MAX_LINES_A_FUNCTION = 70
MAX_LINES_A_README = 100

UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
NO_CLOCK = ("values", "journal", "sessions", "history", "files", "bundles", "supervision", "operations", "library")
CLOCKS = {"now", "utcnow", "today"}  # the ways datetime and date read a clock


def test_every_module_says_what_it_is() -> None:
    silent = [name for name, _, tree in modules(only_source=True) if not ast.get_docstring(tree)]
    assert silent == []


def test_no_file_is_too_long_to_hold() -> None:
    lengths = {name: text.count("\n") for name, text, _ in modules()}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES_A_FILE} == {}


def test_no_function_needs_a_map() -> None:
    too_long = {
        f"{name}:{node.lineno} {node.name}": lines
        for name, _, tree in modules()
        for node in nodes(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_LINES_A_FUNCTION
    }
    assert too_long == {}


def test_nothing_is_left_unfinished() -> None:
    left = [
        f"{name}:{number}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert left == []


def test_no_exception_is_swallowed() -> None:
    """A bare except, or a broad one whose body does nothing, hides the bug that a test should find."""
    swallowed = [
        f"{name}:{handler.lineno}"
        for name, _, tree in modules()
        for handler in nodes(tree)
        if isinstance(handler, ast.ExceptHandler)
        and (handler.type is None or (_is_broad(handler.type) and _does_nothing(handler.body)))
    ]
    assert swallowed == []


def _is_broad(caught: ast.expr) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(one, ast.Name) and one.id in {"Exception", "BaseException"} for one in names)


def _does_nothing(body: list[ast.stmt]) -> bool:
    return all(
        isinstance(statement, ast.Pass | ast.Continue)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in body
    )


def test_no_port_is_mocked() -> None:
    """Fakes are our public ones, in relight.testing; a mock agrees with whatever it is told."""
    mocked = [
        name
        for name, _, tree in modules()
        for node in nodes(tree)
        if any(module.startswith("unittest.mock") or module == "mock" for module in _imported(node))
    ]
    assert mocked == []


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def test_messages_quote_foreign_text_in_one_way() -> None:
    """By `!r`: it escapes what is not printable, as text/safe.py does, and leaves names in any script readable."""
    odd = "\x1b[31m\x9b\u202e\u200b\ud800"
    assert repr(odd).isprintable() and repr("Müller 日本") == "'Müller 日本'"
    other = [
        f"{name}:{node.lineno}"
        for name, _, tree in modules(only_source=True)
        for node in nodes(tree)
        if isinstance(node, ast.FormattedValue) and node.conversion == ord("a")
    ]
    assert other == []


def test_values_and_decisions_read_no_clock() -> None:
    """The layering forbids `time` there; datetime is a value, and only its clock is forbidden."""
    read = [
        f"{name}:{node.lineno}"
        for name, _, tree in modules(only_source=True)
        if name.startswith(tuple(f"src/relight/{room}/" for room in NO_CLOCK))
        for node in nodes(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLOCKS
        and ast.unparse(node.func.value) in {"datetime", "datetime.datetime", "date", "datetime.date", "dt"}
    ]
    assert read == []


def test_readme_fits_one_screen_or_two() -> None:
    lengths = [text.count("\n") for name, text in texts() if name == "README.md"]
    assert all(lines < MAX_LINES_A_README for lines in lengths)


def test_one_module_says_what_durable_means() -> None:
    """On macOS fsync is not enough: whatever syncs asks system/durable.py, which knows."""
    loose = [
        path
        for path, _, tree in modules(only_source=True)
        for node in nodes(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("fsync", "fdatasync")
    ]
    assert set(loose) == {"src/relight/system/durable.py"}


def test_one_package_reads_proc() -> None:
    """macOS has no /proc: whatever asks about processes asks system/process_table.py, which has two sources."""
    loose = [
        path
        for path, _, tree in modules(only_source=True)
        for node in nodes(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/" + "proc")
    ]
    assert set(loose) == {"src/relight/system/platform.py"}
