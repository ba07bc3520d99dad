"""What is installed is what was pinned, what ships is what is needed, and no file knows where it was made."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.house.files import ROOT, SOURCE, name, texts, tracked

pytestmark = pytest.mark.house

# Written in halves, so that this file is not its own first finding.
REGISTRIES = [
    "pypi" + ".org",
    "python" + "hosted",
    "npm" + "js.",
    "yarn" + "pkg.",
    "deb." + "debian",
    "crates" + ".io",
]
MACHINE_PATHS = ["/wo" + "rk/", "/ro" + "ot/", "/opt/" + "wheels", "/opt/" + "pypi", "file:" + "///opt"]

PINNED = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(.*)$")


def pins(path: Path) -> dict[str, str]:
    """Each requirement of a file with all that belongs to it, continuation lines joined, comments gone."""
    joined = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    matches = [PIN.match(line) for line in lines]
    assert all(matches), f"{name(path)} holds something that is no requirement"
    return {_normal(match[1]): match[2] for match in matches if match}


def _normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def _package(requirement: str) -> str:
    return _normal(re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0])


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_every_pin_has_its_hash(path: Path) -> None:
    loose = [
        package
        for package, rest in pins(path).items()
        if not rest.startswith("==") or not re.search(r"--hash=sha256:[0-9a-f]{64}\b", rest)
    ]
    assert loose == []


def test_the_pins_cover_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = {_package(requirement) for requirement in project["dependencies"]}
    developing = (ROOT / "requirements" / "dev.in").read_text(encoding="utf-8").splitlines()
    asked_to_develop = {_package(line) for line in developing if line and not line.startswith("#")}
    base, dev = pins(ROOT / "requirements" / "base.txt"), pins(ROOT / "requirements" / "dev.txt")
    assert asked - base.keys() == set()
    assert (asked | asked_to_develop) - dev.keys() == set()


def test_both_files_pin_the_same_versions() -> None:
    base, dev = pins(ROOT / "requirements" / "base.txt"), pins(ROOT / "requirements" / "dev.txt")
    assert {package for package, rest in base.items() if _version(dev.get(package, "")) != _version(rest)} == set()


def _version(rest: str) -> list[str]:
    """Version and hashes, without the marker: to develop, a package may be needed on more platforms than to use."""
    return re.sub(r";[^-]*", "", rest).split()


def test_nothing_lies_in_the_top_directory_that_nobody_put_there() -> None:
    top = {path.relative_to(ROOT).parts[0] for path in tracked()}
    documents = {one for one in top if one.isupper() or one.endswith(".md") or one.startswith(".")}
    assert top - documents == {
        "Containerfile", "Makefile", "bench", "compose.yaml", "docs", "pyproject.toml", "requirements", "src", "tests",
        "tools",
    }  # fmt: skip


@pytest.mark.parametrize("word", [*REGISTRIES, *MACHINE_PATHS])
def test_no_file_knows_a_registry_or_a_machine(word: str) -> None:
    telling = [
        f"{where}:{number}"
        for where, text in texts()
        if word in text
        for number, line in enumerate(text.splitlines(), 1)
        if word in line
    ]
    assert telling == []


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    """SQL, templates and py.typed too: what only an editable install can find breaks at a user's."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    ours = {path.relative_to(SOURCE.parent).as_posix() for path in tracked() if path.is_relative_to(SOURCE)}
    assert ours - packed == set()
    assert "relight/py.typed" in packed
