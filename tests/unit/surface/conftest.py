"""One world a test: what the rows of the surface promise is the same on every store, whose own kit proves that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.shell import eventually
from tests.support.simulation import Simulation


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Simulation]:
    """A SQLite store with nothing in it, and a machine on which nothing runs."""
    made = Simulation(tmp_path / "relight.db")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_tool_left() -> Iterator[None]:
    """A tool that outlived its call logs when it ends: that belongs to its own test, not to the next one."""
    yield
    eventually(
        lambda: not [one for one in threading.enumerate() if one.name.startswith("relight-call")],
        what="the end of every tool that the test began",
    )
