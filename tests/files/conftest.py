"""A desk over each store that needs no server, and real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.files.desk import Desk
from tests.guarantees.conftest import fork_server, memory_path

__all__ = ["desk", "fork_server", "memory_path"]


@pytest.fixture(params=["memory", "sqlite"])
def desk(request: pytest.FixtureRequest, memory_path: Path) -> Iterator[Desk]:
    """A store with nothing in it beside a directory with nothing in it."""
    made = Desk(request.param, memory_path)
    yield made
    made.world.close()
