"""The tree workspace keeps the public kit's promises: watching, walking, and without the compiled walker."""

from __future__ import annotations

from pathlib import Path

import pytest

from relight.ports.workspace import Workspace
from relight.testing.workspace_kit import WorkspaceChecks
from relight.workspaces.changes import native
from tests.support.trees import open_tree


class TreeChecks(WorkspaceChecks):
    def __init__(self, directory: Path, *, watch: bool) -> None:
        super().__init__(directory)
        self.home, self.watch = directory / "home", watch

    def open(self, path: Path) -> Workspace:
        return open_tree(path, self.home, watch=self.watch)


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("mode", ["walk", "watch", "python"])
def test_tree_keeps_every_promise_of_the_kit(tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mode == "python":
        monkeypatch.setattr(native, "load", lambda: None)
    checks = list(TreeChecks(tmp_path, watch=mode == "watch").checks())
    assert len(checks) >= 11
    for check in checks:
        check()
