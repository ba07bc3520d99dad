"""Program harnesses that are closed when the test is over."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.program_harness import ProgramHarness

Open = Callable[..., ProgramHarness]


@pytest.fixture
def harness() -> Iterator[Open]:
    """`harness(script, VARIABLE=...)`, in a directory with a short name: sockets lie in it."""
    opened: list[ProgramHarness] = []
    with tempfile.TemporaryDirectory(prefix="rl-", ignore_cleanup_errors=True) as base:

        def begin(script: Any = (), **given: Any) -> ProgramHarness:
            opened.append(ProgramHarness(Path(base).resolve() / f"s{len(opened)}", script, **given))
            return opened[-1]

        yield begin
        for one in opened:
            one.close()
