"""On a full disk sessions can be removed, and what they took is free again; nothing else is lost by it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import relight
from relight.errors import StoreFull
from relight.stores.sqlite import reserve
from relight.stores.sqlite.connection import database
from relight.stores.sqlite.reserve import reserve_path
from tests.support import mounting
from tests.support.mounting import fill
from tests.support.shell import Shell

MB = 1024 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounting.small_disk(tmp_path / "small", "96m") as location:
        yield location


def free(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


@pytest.fixture
def store(disk: Path) -> Path:
    """A store of ten megabytes on a full disk: one large session, one of many small messages, one to keep."""
    path = disk / "relight.db"
    with relight.open(path) as rl:
        for name, size, count in (("large", 800_000, 26), ("many", 200, 2500), ("kept", 200, 5)):
            with rl.session(name) as s:
                for number in range(count):
                    s.append({"role": "user", "content": f"canary-{name}-{number} {os.urandom(size // 2).hex()}"})
                s.complete()
    assert reserve_path(path).stat().st_blocks * 512 >= reserve.RESERVE_BYTES, "space, not only a size"
    assert reserve_path(path).stat().st_mode & 0o777 == 0o600
    fill(disk)
    return path


@pytest.mark.parametrize("name", ["large", "many"])
def test_a_session_is_removed_on_a_full_disk_and_its_space_is_free_again(disk: Path, store: Path, name: str) -> None:
    shell = Shell(store, disk)
    assert shell.run("label", "kept@2", "here").returncode == 5, "the disk is full for everything else"
    done = shell.run("rm", name, "--yes")
    assert done.returncode == 0, done.stderr
    if name == "large":
        assert free(disk) > 4 * MB
    assert reserve_path(store).exists(), "for the next removal"
    left = b"".join(
        path.read_bytes() for path in disk.iterdir() if path.name.startswith("relight.db") and path.is_file()
    )
    assert f"canary-{name}".encode() not in left
    with relight.open(store) as rl:
        assert {info.name for info in rl.sessions.list()} == {"large", "many", "kept"} - {name}
        assert rl.history.verify().ok and len(rl.history.load("kept").messages) == 5
        if name == "large":
            rl.session("next").append({"role": "user", "content": "it goes on"})


def test_captured_files_are_removed_on_a_full_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "big").write_bytes(os.urandom(20 * MB))
    monkeypatch.setattr(database, "FROM_BYTES", 1)
    with mounting.small_disk(tmp_path / "small", "300m") as disk:  # captures leave 200 MB free
        path = disk / "relight.db"
        with relight.open(path) as rl, rl.session("files", workspace=str(work)) as s:
            s.append({"role": "user", "content": "one"})
            s.complete()
        fill(disk)
        with relight.open(path) as rl:
            assert rl.sessions.remove("files").file_bytes >= 20 * MB
        assert free(disk) >= 20 * MB and not list(disk.rglob("*.seg"))


def test_a_removal_that_does_not_fit_removes_nothing_and_keeps_the_reserve(
    disk: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    little = 116 * 1024  # room for the pages of the indexes, not for the pages of many small messages
    monkeypatch.setattr(reserve, "RESERVE_BYTES", little)
    os.truncate(reserve_path(store), little)
    fill(disk)
    with relight.open(store) as rl:
        with pytest.raises(StoreFull):
            rl.sessions.remove("many")
        assert {info.name for info in rl.sessions.list()} == {"large", "many", "kept"}
        assert reserve_path(store).stat().st_size >= little // 2
        rl.sessions.remove("kept")
    (disk / "filler").unlink()
    with relight.open(store) as rl:
        assert {info.name for info in rl.sessions.list()} == {"large", "many"}
        assert rl.history.verify().ok
