"""RELIABILITY.md is filled from the figures of a run, and from nothing else."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from tests.docs.pages import ROOT


@pytest.fixture
def reliability() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reliability", ROOT / "tools" / "reliability.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ROWS = [
    {"guarantee": "G10", "figure": "9 kills, 0 twice", "test": "tests/a.py::test_b[x]", "kept": True},
    {"guarantee": "G1", "figure": "5 kills, 1 lost", "test": "tests/a.py::test_a", "kept": False},
]


def test_only_the_marked_part_is_replaced_and_twice_is_the_same(reliability) -> None:
    page = f"before\n{reliability.BEGIN}\nold\n{reliability.END}\nafter\n"
    once = reliability.filled(page, ROWS)
    assert once.startswith("before\n") and once.endswith("\nafter\n") and "old" not in once
    assert reliability.filled(once, ROWS) == once


def test_a_run_of_a_few_tests_leaves_the_other_figures_alone(reliability) -> None:
    here = "tests/docs/test_reliability.py::test_a_broken_promise_is_told"
    former = [
        {"guarantee": "G2", "figure": "3 | 4 kills, 1 mixed", "test": f"{here}[x]", "kept": False},
        {
            "guarantee": "G2",
            "figure": "gone",
            "test": "tests/docs/test_reliability.py::test_that_is_gone",
            "kept": True,
        },
    ]
    page = reliability.filled(f"{reliability.BEGIN}\n{reliability.END}\n", former)
    again = reliability.filled(page, ROWS)
    assert f"| **not kept**: 3 \\| 4 kills, 1 mixed | `{here}` |" in again
    assert "gone" not in again and "5 kills" in again
    newer = reliability.filled(again, [former[0] | {"figure": "9 kills, 0 mixed", "kept": True}])
    assert "9 kills" in newer and "1 mixed" not in newer


def test_what_is_said_twice_is_told_once(reliability) -> None:
    row = {"guarantee": "G1", "figure": "5 kills", "test": "tests/a.py::test_a[one]", "kept": True}
    assert reliability.table([row, row | {"test": "tests/a.py::test_a[two]"}]).count("5 kills") == 1


def test_a_broken_promise_is_told(reliability) -> None:
    table = reliability.table(ROWS)
    assert (
        "| G1 | An acknowledged step is never lost. | **not kept**: 5 kills, 1 lost | `tests/a.py::test_a` |" in table
    )
    assert table.index("G1 ") < table.index("G10 ")
    assert "`tests/a.py::test_b`" in table


def test_the_page_has_a_place_for_the_figures(reliability) -> None:
    page = (ROOT / "RELIABILITY.md").read_text(encoding="utf-8")
    assert page.count(reliability.BEGIN) == page.count(reliability.END) == 1
