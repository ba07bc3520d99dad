"""Which directory may be a workspace, and by what it is known again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from relight.errors import WorkspaceUnusable
from relight.workspaces import identity


@pytest.fixture
def spellings(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Two paths of one directory, neither of them a link: as two spellings are where case is folded."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    done = subprocess.run(["mount", "--bind", str(one), str(other)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a directory cannot be mounted a second time here: {done.stderr.strip()}")
    try:
        yield one, other
    finally:
        subprocess.run(["umount", str(other)], check=True)


def test_a_home_is_no_workspace_by_another_spelling_of_its_path_either(
    spellings: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = spellings
    (one / "me/project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(one / "me"))
    for path in (one / "me", other / "me"):
        with pytest.raises(WorkspaceUnusable, match="home directory"):
            identity.check_suitable("main", path, ())
    identity.check_suitable("main", other / "me/project", ())


def test_what_is_inside_the_store_is_no_workspace_by_another_spelling_of_its_path_either(
    spellings: tuple[Path, Path],
) -> None:
    one, other = spellings
    (one / "store/below").mkdir(parents=True)
    for path in (one / "store", one / "store/below", other / "store", other / "store/below"):
        with pytest.raises(WorkspaceUnusable, match="own store"):
            identity.check_suitable("main", path, (one / "missing", one / "store"))


def test_a_birth_time_comes_from_stat_where_it_has_one_and_else_from_statx(tmp_path: Path) -> None:
    on_macos = cast(os.stat_result, SimpleNamespace(st_birthtime=1.5))
    assert identity.creation_time(-1, on_macos) == 1_500_000_000
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        first = identity.identity(fd, tmp_path)
        os.utime(tmp_path, ns=(1, 1))
        assert first.is_same(identity.identity(fd, tmp_path))
    finally:
        os.close(fd)
