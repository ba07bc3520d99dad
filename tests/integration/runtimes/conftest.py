"""tmux servers of a test's own, and orphans that go to init again when the test is over."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import pytest

from tests.guarantees.conftest import fork_server, memory_path
from tests.support.tmux_servers import Sockets

__all__ = ["fork_server", "memory_path"]

PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(autouse=True)
def nobody_is_adopted_afterwards() -> Iterator[None]:
    """A test that spawns in this process makes it a subreaper, which other tests do not expect to be."""
    yield
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def sockets(program: Callable[[str], str]) -> Iterator[Sockets]:
    program("tmux")
    program("bwrap")
    made = Sockets()
    yield made
    made.close()
