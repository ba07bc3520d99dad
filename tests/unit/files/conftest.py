"""A harness over each store that needs no server, and real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guarantees.conftest import fork_server, memory_path
from tests.support.files_harness import FilesHarness

__all__ = ["fork_server", "harness", "memory_path"]


@pytest.fixture(params=["memory", "sqlite"])
def harness(request: pytest.FixtureRequest, memory_path: Path) -> Iterator[FilesHarness]:
    """A store with nothing in it beside a directory with nothing in it."""
    made = FilesHarness(request.param, memory_path)
    yield made
    made.world.close()
