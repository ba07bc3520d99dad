"""The worlds of tests/unit/sessions, and real processes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.child_processes import ForkServer
from tests.unit.sessions.conftest import world

__all__ = ["fork_server", "memory_path", "world"]

SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A directory on a disk of memory, where there is one: what a killed process wrote is there all the same, and a
    test of many kills does not wait for a real disk."""
    if not SHARED_MEMORY.is_dir():
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="relight-", dir=SHARED_MEMORY))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    """Starts real processes fast."""
    made = ForkServer()
    yield made
    made.close()
