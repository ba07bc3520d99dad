"""Stages that are cleared when the test is over."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.stage import Stage

Open = Callable[..., Stage]


@pytest.fixture
def stage() -> Iterator[Open]:
    """`stage(script, VARIABLE=...)`, in a directory with a short name: sockets lie in it."""
    stages: list[Stage] = []
    with tempfile.TemporaryDirectory(prefix="rl-", ignore_cleanup_errors=True) as base:

        def begin(script: Any = (), **given: Any) -> Stage:
            stages.append(Stage(Path(base).resolve() / f"s{len(stages)}", script, **given))
            return stages[-1]

        yield begin
        for one in stages:
            one.close()
