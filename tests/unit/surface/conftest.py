"""One world a test: what the rows of the surface promise is the same on every store, whose own kit proves that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.simulation import Simulation


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Simulation]:
    """A SQLite store with nothing in it, and a machine on which nothing runs."""
    made = Simulation(tmp_path / "relight.db")
    yield made
    made.close()
