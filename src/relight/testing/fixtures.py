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
    """An empty store on disk: the one that `relight.session` uses in this test, and the processes that it starts."""
    from relight.shared_handles import HANDLES

    for name in (SESSION_VARIABLE, PARENT_VARIABLE):  # where the tests themselves run under `relight run`
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RELIGHT_STORE", str(tmp_path / "relight.db"))
    yield HANDLES.get(None)
    HANDLES.close()


@pytest.fixture
def relight_effects(tmp_path: Path) -> Effects:
    """A counter of effects that outlives the process that counts."""
    return Effects(tmp_path / "relight-effects")
