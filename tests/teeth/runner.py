"""Plants one bug and asks whether the test that should notice it does.

A planted bug is a TOML file of edits against src/, with the test that must fail and the reason:

    test = 'tests/store/test_commit.py::test_an_acknowledged_step_is_never_lost'
    why = 'the row is told before it is durable'

    [[edit]]
    file = 'src/relight/...'
    within = 'Class.method'     # optional: the function or class that holds the text
    replace = '''...'''         # must stand there exactly once
    by = '''...'''

An edit has no line numbers and no context, so it survives whatever happens around it. `test` holds pytest arguments,
so `tests -k "lost or torn"` works too. The source is copied, edited and put before the installed package; the named
tests must fail there, as tests: an error while collecting, a fixture that breaks, no test at all, or more than the
bound of time is no proof, and each is told apart.
"""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

BOUND_SECONDS = 120
PYTEST_PASSED, PYTEST_FAILED, PYTEST_NONE = 0, 1, 5  # pytest's exit codes that speak of tests, not of trouble


class Toothless(AssertionError):
    """The planted bug proves nothing; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One replacement of text that stands exactly once in its scope."""

    file: str
    within: str | None = None
    replace: str
    by: str


@dataclass(frozen=True, kw_only=True)
class Tooth:
    """One planted bug."""

    path: Path  # the file itself
    test: list[str]  # pytest arguments that name the tests which must fail
    why: str  # what is broken, in a sentence
    edits: list[Edit]


def read(path: Path) -> Tooth:
    """The planted bug of a file, or Toothless where the file is incomplete."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        edits = [Edit(**edit) for edit in found.get("edit", [])]
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise Toothless(f"{path.name} cannot be read: {error}") from error
    for key in ("test", "why", "edit"):
        if not found.get(key):
            raise Toothless(f"{path.name} has no {key!r}")
    return Tooth(path=path, test=shlex.split(found["test"]), why=found["why"], edits=edits)


def bite(tooth: Tooth, *, root: Path, scratch: Path, bound_seconds: float = BOUND_SECONDS) -> None:
    """Return if the named tests fail on the planted bug; raise Toothless if they do not."""
    plant(tooth, root=root, scratch=scratch)
    results = scratch / "results.xml"
    status, output = _run_tests(tooth, root=root, scratch=scratch, results=results, bound_seconds=bound_seconds)
    tests, failures, errors = _count(results)
    said = f"{tooth.path.name} ({tooth.why}): "
    tail = f"\n--- output of the inner run, exit {status}\n{output[-4000:]}"
    if status is None:
        raise Toothless(f"{said}the named tests did not end within {bound_seconds} s{tail}")
    if status == PYTEST_NONE:
        raise Toothless(f"{said}no test ran{tail}")
    if errors or status not in (PYTEST_PASSED, PYTEST_FAILED):
        raise Toothless(f"{said}the named tests could not run, which is no failed test{tail}")
    if status == PYTEST_PASSED or not failures:
        raise Toothless(f"{said}{tests} named tests passed, so they do not notice the bug{tail}")


def plant(tooth: Tooth, *, root: Path, scratch: Path) -> None:
    """Copy src/ of root into scratch and make the edits there."""
    shutil.copytree(root / "src", scratch / "src")  # times too, so that what was compiled before still counts
    for edit in tooth.edits:
        text = edited(tooth, edit, source_of(tooth, edit, scratch))
        (scratch / edit.file).write_text(text, encoding="utf-8")


def source_of(tooth: Tooth, edit: Edit, root: Path) -> str:
    """The text that an edit is about; Toothless where the file is gone."""
    try:
        return (root / edit.file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Toothless(f"{tooth.path.name} does not apply: there is no {edit.file}") from None


def edited(tooth: Tooth, edit: Edit, text: str) -> str:
    """The text with the edit made; Toothless unless what it replaces stands exactly once in its scope."""
    lines = text.splitlines(keepends=True)
    scopes = [(0, len(lines))] if edit.within is None else _scopes(text, edit.within)
    if len(scopes) != 1:
        raise Toothless(f"{tooth.path.name} does not apply: {len(scopes)} x {edit.within} in {edit.file}")
    [(first, last)] = scopes
    scope = "".join(lines[first:last])
    if (times := scope.count(edit.replace)) != 1 or edit.replace == edit.by:
        where = f"{edit.file}, {edit.within}" if edit.within else edit.file
        raise Toothless(f"{tooth.path.name} does not apply: its text stands {times} times in {where}")
    return "".join([*lines[:first], scope.replace(edit.replace, edit.by), *lines[last:]])


def _scopes(text: str, within: str) -> list[tuple[int, int]]:
    """Line ranges of every function or class of that dotted name."""
    found: list[tuple[int, int]] = []

    def visit(node: ast.AST, path: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            inner = path
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = (*path, child.name)
                if ".".join(inner) == within:
                    starts = [child.lineno, *(one.lineno for one in child.decorator_list)]
                    found.append((min(starts) - 1, child.end_lineno or child.lineno))
            visit(child, inner)

    visit(ast.parse(text), ())
    return found


def _run_tests(
    tooth: Tooth, *, root: Path, scratch: Path, results: Path, bound_seconds: float
) -> tuple[int | None, str]:
    """Exit code (None where the bound was reached) and output of the named tests over the edited copy."""
    source = scratch / "src"
    plugins = ["-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider"]
    quiet = [*plugins, "-x", "-q", "--timeout", "0"]
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))},
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # the others take seconds to import
        "PYTHONPATH": str(source),
        "RELIGHT_TEETH": str(source),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "hypothesis"),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *quiet, "--junitxml", str(results), *tooth.test],
        cwd=root,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=bound_seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output


def _count(results: Path) -> tuple[int, int, int]:
    """Tests, failures and errors of a run, from its JUnit file; zeros where it wrote none."""
    if not results.exists():
        return 0, 0, 0
    suites = ET.parse(results).getroot().iter("testsuite")
    counts = [tuple(int(suite.get(key, 0)) for key in ("tests", "failures", "errors")) for suite in suites]
    tests, failures, errors = (sum(column) for column in zip(*counts, strict=True))
    return tests, failures, errors
