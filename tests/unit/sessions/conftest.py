"""One world a test, over each store that needs no server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.simulation import Simulation


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Simulation]:
    """A store with nothing in it, and a machine on which nothing runs."""
    made = Simulation(tmp_path / "relight.db" if request.param == "sqlite" else None)
    yield made
    made.close()
