"""Real processes, and a disk of memory where there is one."""

from __future__ import annotations

from tests.guarantees.conftest import memory_path, nursery

__all__ = ["memory_path", "nursery"]
