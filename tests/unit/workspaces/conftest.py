"""Real processes, and a disk of memory where there is one."""

from __future__ import annotations

import pytest

from relight.workspaces.restore import openat
from tests.guarantees.conftest import fork_server, memory_path

__all__ = ["fork_server", "memory_path"]


@pytest.fixture(params=["Linux", "POSIX"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel's own calls, and a system that has none beyond POSIX."""
    if request.param != "Linux":
        monkeypatch.setattr(openat, "calls", openat.Calls(None, request.param))
    return str(request.param)
