"""Servers for blobs, one of each for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.guarantees.conftest import fork_server, memory_path
from tests.support import postgres_server
from tests.support.object_storage import ObjectStorage, running

__all__ = ["fork_server", "memory_path"]


@pytest.fixture(scope="session")
def s3() -> Iterator[ObjectStorage]:
    with running() as one:
        yield one


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_server.Server]:
    with postgres_server.running(fsync="off") as one:
        yield one
