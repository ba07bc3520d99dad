"""Plants one bug and asks whether the test that should notice it does.

A tooth is a patch against src/ whose head names the test and the reason:

    # test: tests/store/test_commit.py::test_an_acknowledged_step_is_never_lost
    # why: the row is told before it is durable
    diff --git a/src/relight/... b/src/relight/...

`# test:` holds pytest arguments, so `tests -k "lost or torn"` works too. The source is copied, patched
and put before the installed package; the named tests must fail there, as tests: an error while
collecting, a fixture that breaks, no test at all, or more than the bound of time is no proof, and each
is told apart.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

BOUND_SECONDS = 120
PYTEST_PASSED, PYTEST_FAILED, PYTEST_NONE = 0, 1, 5  # pytest's exit codes that speak of tests, not of trouble

_HEAD = re.compile(r"^# (test|why): *(.+)$", re.MULTILINE)
_TARGET = re.compile(r"^(?:---|\+\+\+) [ab]/(\S+)", re.MULTILINE)


class Toothless(AssertionError):
    """The planted bug proves nothing; the text says why."""


@dataclass(frozen=True, kw_only=True)
class Tooth:
    """One planted bug."""

    patch: Path  # the file itself
    test: list[str]  # pytest arguments that name the tests which must fail
    why: str  # what is broken, in a sentence


def read(patch: Path) -> Tooth:
    """The tooth in a patch file, or Toothless where its head is incomplete."""
    head, _, _ = patch.read_text(encoding="utf-8").partition("\n--- ")
    found: dict[str, list[str]] = {"test": [], "why": []}
    for key, value in _HEAD.findall(head):
        found[key].append(value.strip())
    for key, values in found.items():
        if not values:
            raise Toothless(f"{patch.name} has no line '# {key}: ...'")
    return Tooth(patch=patch, test=shlex.split(" ".join(found["test"])), why=" ".join(found["why"]))


def bite(tooth: Tooth, *, root: Path, scratch: Path, bound_seconds: float = BOUND_SECONDS) -> None:
    """Return if the named tests fail on the planted bug; raise Toothless if they do not."""
    plant(tooth, root=root, scratch=scratch)
    results = scratch / "results.xml"
    status, output = _run_tests(tooth, root=root, scratch=scratch, results=results, bound_seconds=bound_seconds)
    tests, failures, errors = _count(results)
    said = f"{tooth.patch.name} ({tooth.why}): "
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
    """Copy src/ of root into scratch and apply the patch there."""
    shutil.copytree(root / "src", scratch / "src")  # times too, so that what was compiled before still counts
    # Without the ceiling git may find a repository above scratch, and then silently skips our files.
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(scratch.resolve().parent)}
    applied = subprocess.run(
        ["git", "apply", "-p1", "--whitespace=nowarn", str(tooth.patch.resolve())],
        cwd=scratch,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if applied.returncode:
        raise Toothless(f"{tooth.patch.name} does not apply to src/ any more: {applied.stderr.strip()}")
    for target in set(_TARGET.findall(tooth.patch.read_text(encoding="utf-8"))):
        before, after = root / target, scratch / target
        if before.exists() and after.exists() and before.read_bytes() == after.read_bytes():
            raise Toothless(f"{tooth.patch.name} left {target} as it was")


def _run_tests(
    tooth: Tooth, *, root: Path, scratch: Path, results: Path, bound_seconds: float
) -> tuple[int | None, str]:
    """Exit code (None where the bound was reached) and output of the named tests over the patched copy."""
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
