"""The runner of the teeth accepts a failing test as proof, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.teeth.runner import Toothless, bite, read

CONFTEST = (Path(__file__).resolve().parent.parent / "conftest.py").read_text(encoding="utf-8")
SOURCE = '"""A package of one promise."""\n\n\ndef keeps() -> bool:\n    return True\n'
TESTS = {
    "noticing": "import relight\ndef test_it(): assert relight.keeps()\n",
    "blind": "def test_it(): pass\n",
    "broken": "import nothing_of_that_name\n",
    "fixture": "import pytest\n@pytest.fixture\ndef bad(): raise OSError\ndef test_it(bad): pass\n",
    "endless": "import signal\ndef test_it():\n    while True: signal.pause()\n",
}
BUG = """\
test = '{test}'
why = 'the promise is broken'

[[edit]]
file = 'src/relight/__init__.py'
within = '{within}'
replace = '''
    return {old}
'''
by = '''
    return False
'''
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project of one module and a few tests, with the real conftest."""
    root = tmp_path / "project"
    (root / "src" / "relight").mkdir(parents=True)
    (root / "src" / "relight" / "__init__.py").write_text(SOURCE)
    (root / "src" / "relight" / "wiring.py").touch()  # which the real conftest imports
    (root / "tests").mkdir()
    (root / "pytest.ini").write_text("[pytest]\n")
    (root / "tests" / "conftest.py").write_text(re.sub(r"(?m)^pytest_plugins = .*$", "", CONFTEST))
    for name, text in TESTS.items():
        (root / "tests" / f"test_{name}.py").write_text(text)
    return root


def try_tooth(root: Path, test: str, *, old: str = "True", within: str = "keeps", bound_seconds: float = 60) -> None:
    bug = root / "G1-promise.toml"
    bug.write_text(BUG.format(test=test, old=old, within=within))
    scratch = root.parent / "scratch"
    scratch.mkdir()
    bite(read(bug), root=root, scratch=scratch, bound_seconds=bound_seconds)


def test_a_failing_test_is_proof(root: Path) -> None:
    try_tooth(root, "tests/test_noticing.py::test_it")
    assert (root / "src" / "relight" / "__init__.py").read_text() == SOURCE, "the real source is untouched"


def test_an_expression_may_name_the_tests(root: Path) -> None:
    try_tooth(root, 'tests/test_noticing.py tests/test_blind.py -k "it and not other"')


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("tests/test_blind.py", "do not notice"),
        ("tests/test_broken.py", "could not run"),
        ("tests/test_fixture.py", "could not run"),
        ("tests/test_noticing.py::test_gone", "could not run"),
        ("tests/test_noticing.py -k nothing", "no test ran"),
    ],
)
def test_anything_else_is_not(root: Path, test: str, reason: str) -> None:
    with pytest.raises(Toothless, match=reason):
        try_tooth(root, test)


def test_a_run_without_end_is_not(root: Path) -> None:
    with pytest.raises(Toothless, match=r"did not end within"):
        try_tooth(root, "tests/test_endless.py", bound_seconds=3)


@pytest.mark.parametrize(("within", "old"), [("keeps", "maybe"), ("breaks", "True")])
def test_an_edit_that_no_longer_applies_is_named(root: Path, within: str, old: str) -> None:
    with pytest.raises(Toothless, match=r"G1-promise\.toml does not apply"):
        try_tooth(root, "tests/test_noticing.py", old=old, within=within)


def test_an_edit_whose_text_stands_twice_is_named(root: Path) -> None:
    (root / "src" / "relight" / "__init__.py").write_text(SOURCE + "    return True\n")
    with pytest.raises(Toothless, match="stands 2 times"):
        try_tooth(root, "tests/test_noticing.py")


@pytest.mark.parametrize("key", ["test", "why"])
def test_a_planted_bug_without_its_head_is_named(root: Path, key: str) -> None:
    bug = root / "G1-promise.toml"
    bug.write_text(BUG.replace(f"{key} =", f"{key}s =").format(test="tests", old="True", within="keeps"))
    with pytest.raises(Toothless, match=rf"G1-promise\.toml has no '{key}'"):
        read(bug)


def test_a_run_over_the_wrong_source_is_refused(root: Path) -> None:
    (root / "relight").mkdir()  # found before PYTHONPATH, in the directory pytest starts from
    (root / "relight" / "__init__.py").write_text(SOURCE)
    (root / "relight" / "wiring.py").touch()
    with pytest.raises(Toothless, match="not from the patched copy"):
        try_tooth(root, "tests/test_noticing.py")
