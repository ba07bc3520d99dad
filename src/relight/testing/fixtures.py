"""pytest fixtures for tests of one's own agents; registered by `pytest_plugins = ["relight.testing"]`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from relight.ports.runtime import PARENT_VARIABLE, SESSION_VARIABLE
from relight.testing.effects import Effects

if TYPE_CHECKING:
    from relight.library.facade import Relight


@pytest.fixture
def relight_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relight]:
    """An empty store on disk, open; the default store of the test and of the processes that it starts."""
    import relight

    for name in (SESSION_VARIABLE, PARENT_VARIABLE):  # where the tests themselves run under `relight run`
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RELIGHT_STORE", str(tmp_path / "relight.db"))
    with relight.open() as rl:
        yield rl


@pytest.fixture
def relight_effects(tmp_path: Path) -> Effects:
    """A counter of effects that outlives the process that counts."""
    return Effects(tmp_path / "relight-effects")
