"""A guarantee that reports a figure has a planted bug, and a figure arrives from any process."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.files import ROOT, modules, nodes

pytestmark = pytest.mark.house

FIGURES = ROOT / "tests" / "support" / "figures.py"
REPORTING = """
import pytest
@pytest.mark.parametrize("n", range(4))
def test_kept(figure, n): figure("G10", f"{n} tries, 0 lost")
def test_broken(figure):
    figure("G2", "1 try, 1 lost")
    assert False
"""


def test_every_reported_guarantee_has_teeth() -> None:
    reported = {
        node.args[0].value
        for name, _, tree in modules()
        if name.startswith("tests/")
        for node in nodes(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "figure"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    bitten = {bug.name.partition("-")[0] for bug in (ROOT / "tests" / "teeth").glob("*.toml")}
    assert {str(guarantee) for guarantee in reported} - bitten == set()


@pytest.mark.parametrize("workers", [[], ["-p", "xdist.plugin", "-n", "2"]], ids=["alone", "workers"])
def test_figures_are_printed_and_written(workers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELIGHT_TEETH", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # plugins of what we test against take seconds to import
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(FIGURES.read_text(encoding="utf-8"))
    (tmp_path / "test_reporting.py").write_text(REPORTING)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *workers],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    printed = [line for line in run.stdout.splitlines() if line.startswith(("G2: ", "G10: "))]
    kept = [f"G10: {n} tries, 0 lost" for n in range(4)]
    assert printed == ["G2: 1 try, 1 lost   NOT KEPT, see test_reporting.py::test_broken", *kept]
    written = json.loads((tmp_path / "build" / "figures.json").read_text(encoding="utf-8"))
    assert [row["kept"] for row in written] == [False, True, True, True, True]
