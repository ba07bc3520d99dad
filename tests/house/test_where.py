"""The tables "Where is X?" of ARCHITECTURE.md name files that exist and functions that are defined there."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from relight.cli.app.group import VERBS
from tests.house.files import ROOT, SOURCE

pytestmark = pytest.mark.house

_NAMED = re.compile(r"`([\w/]+\.py)`(?: `([\w.]+)`)?")


def rows() -> list[list[str]]:
    """The cells of both tables, without their headings."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.partition("\n## Where is X?\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@cache
def definitions(path: str) -> frozenset[str]:
    """Names of the functions and classes of a module, with methods as `Class.method`."""
    names: set[str] = set()
    for node in ast.parse((SOURCE / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
    return frozenset(names)


def test_every_verb_is_in_the_table_with_the_function_that_runs_it() -> None:
    table = {cells[0].strip("`"): cells[1] for cells in rows() if len(cells) == 3 and cells[0] != "verb"}
    expected = {}
    for verb, target in VERBS.items():
        module, _, function = target.partition(":")
        expected[verb] = f"`cli/{module.replace('.', '/')}.py` `{function or module.rpartition('.')[2]}`"
    assert table == expected


def test_every_file_of_the_tables_exists_and_defines_what_is_named() -> None:
    named = [one for cells in rows() for cell in cells for one in _NAMED.findall(cell)]
    assert len(named) > 100
    lost = [path for path, _ in named if not (SOURCE / path).is_file()]
    assert lost == [], "ARCHITECTURE.md names files that are not there"
    wrong = [f"{path} {name}" for path, name in named if name and name not in definitions(path)]
    assert wrong == [], "ARCHITECTURE.md names functions that are not there"


def test_every_feature_has_one_row() -> None:
    subjects = [cells[0].partition(":")[0] for cells in rows() if len(cells) == 2]
    assert sorted(subjects) == sorted(set(subjects))


def test_every_page_in_reading_order_has_a_feature_in_the_table() -> None:
    """docs/README.md lists what relight does; the words of its left column lead into the table."""
    features = " ".join(cells[0] for cells in rows() if len(cells) == 2).lower()
    for word in ("coding agents", "langgraph", "files", "bundles", "damage", "stores", "object storage", "dashboard",
                 "http api", "queues"):  # fmt: skip
        assert word in features


def test_the_list_of_packages_is_that_of_the_source() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    listed = re.findall(r"^  (\w+)/ ", text.partition("## The packages")[2].partition("\n## ")[0], re.MULTILINE)
    packages = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
    assert sorted(listed) == packages
