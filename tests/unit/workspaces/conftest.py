"""Real processes, and a disk of memory where there is one."""

from __future__ import annotations

from tests.guarantees.conftest import fork_server, memory_path

__all__ = ["fork_server", "memory_path"]
