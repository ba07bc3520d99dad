"""Figures: what a run measured about the guarantees, said aloud at its end.

A test reports with the `figure` fixture: `figure("G1", "500 kills, 0 acknowledged steps lost")`. A
figure travels to the terminal inside the test's own report, so that it also arrives from another worker
process. It is printed under "guarantees" and written to build/figures.json; the figure of a test that
failed says so. Real agents are a run of their own, with build/figures-agents.json; so are browsers,
frameworks, teeth, what runs on a machine without Linux's special calls, and under another Python.

A run that planted a bug (RELIGHT_TEETH) keeps its figures to itself: they are not the project's.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

PROPERTY = "relight-figure"
_GUARANTEE = re.compile(r"G[1-9][0-9]?")
_ALONE = ("browser", "frameworks", "teeth")

Figure = Callable[[str, str], None]


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Figure:
    """Report a figure for a guarantee: `figure("G1", "500 kills, 0 acknowledged steps lost")`."""

    def report(guarantee: str, text: str) -> None:
        if not _GUARANTEE.fullmatch(guarantee):
            raise ValueError(f"a guarantee is named like G1, not {guarantee!r}")
        request.node.user_properties.append((PROPERTY, [guarantee, text]))

    return report


class Collector:
    """Gathers the figures of a run where its reports arrive, which under xdist is the controlling process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failed: set[str] = set()
        self.rows: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        if report.when != "teardown":
            return
        for name, value in report.user_properties:
            if name == PROPERTY:
                guarantee, text = cast(list[str], value)
                kept = report.nodeid not in self.failed
                self.rows.append({"guarantee": guarantee, "figure": text, "test": report.nodeid, "kept": kept})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.rows:
            return
        self.rows.sort(key=lambda row: (int(row["guarantee"][1:]), row["test"], row["figure"]))
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(self.rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        terminalreporter.section("guarantees")
        for row in self.rows:
            broken = "" if row["kept"] else f"   NOT KEPT, see {row['test']}"
            terminalreporter.line(f"{row['guarantee']}: {row['figure']}{broken}")


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if not is_worker and not os.environ.get("RELIGHT_TEETH"):
        rooms = (room for room in _ALONE if all(f"tests/{room}" in one for one in config.args))
        run = "agents" if config.getoption("markexpr") == "agents" else next(rooms, None)
        where = "elsewhere" if os.environ.get("RELIGHT_ELSEWHERE") else os.environ.get("RELIGHT_PYTHON")
        name = "-".join(filter(None, ["figures", where, run])) + ".json"
        config.pluginmanager.register(Collector(config.rootpath / "build" / name), "relight-figures")
