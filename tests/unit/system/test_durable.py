"""What is synced, and how, is decided by what the platform offers; macOS's way is handed in."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from relight.stores.sqlite.connection import database, watermark
from relight.stores.sqlite.statements import SQL
from relight.system import durable

F_FULLFSYNC = 51


class Darwin:
    """The `fcntl` of macOS; `answer` is the error it raises, 0 for none."""

    F_FULLFSYNC = F_FULLFSYNC

    def __init__(self, answer: int = 0) -> None:
        self.answer, self.calls = answer, [0]

    def fcntl(self, fd: int, command: int) -> int:
        assert (os.fstat(fd).st_size, command) == (1, F_FULLFSYNC)
        self.calls[0] += 1
        if self.answer:
            raise OSError(self.answer, os.strerror(self.answer))
        return 0


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the calls that sync, as they are made."""
    calls: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    monkeypatch.setattr(os, "fdatasync", lambda _: calls.append("fdatasync"), raising=False)
    return calls


@pytest.fixture
def fd(tmp_path: Path) -> int:
    (tmp_path / "file").write_bytes(b"x")
    return os.open(tmp_path / "file", os.O_RDWR)


@pytest.mark.parametrize("sync", [durable.sync_file, durable.sync_data])
def test_macos_waits_for_the_drive(sync: Callable[..., None], synced: list[str], fd: int) -> None:
    darwin = Darwin()
    sync(fd, durable.full_sync_of(darwin))
    assert (darwin.calls, synced) == ([1], [])


@pytest.mark.parametrize("sync", [durable.sync_file, durable.sync_data])
@pytest.mark.parametrize("lacking", [errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_without_f_fullfsync_gets_fsync(
    sync: Callable[..., None], lacking: int, synced: list[str], fd: int
) -> None:
    sync(fd, durable.full_sync_of(Darwin(lacking)))
    assert synced == ["fsync"]


@pytest.mark.parametrize("sync", [durable.sync_file, durable.sync_data])
def test_a_failed_full_sync_is_not_covered_by_a_weaker_one(
    sync: Callable[..., None], synced: list[str], fd: int
) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        sync(fd, durable.full_sync_of(Darwin(errno.EIO)))
    assert synced == []


def test_elsewhere_fsync_is_all_there_is_to_call(synced: list[str], fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert durable.full_sync_of(SimpleNamespace(fcntl=None)) is None and durable.full_sync_of(None) is None
    durable.sync_file(fd, None)
    durable.sync_data(fd, None)
    monkeypatch.delattr(os, "fdatasync")
    durable.sync_data(fd, None)
    assert synced == ["fsync", "fdatasync", "fsync"]
    reported = [durable.describe(durable.full_sync_of(platform)) for platform in (None, Darwin())]
    assert reported == ["fsync", "F_FULLFSYNC, where the file system offers it"]


@pytest.mark.parametrize("is_darwin", [True, False])
def test_sqlite_is_told_on_macos_and_only_there(is_darwin: bool) -> None:
    connection = apsw.Connection(":memory:")
    for setting in database.settings_of(is_darwin):
        connection.execute(SQL[setting])
    reported = [
        connection.execute(f"PRAGMA {name}").get for name in ("synchronous", "fullfsync", "checkpoint_fullfsync")
    ]
    assert reported == [2, is_darwin, is_darwin]


def test_a_file_system_that_cannot_preallocate_gets_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", refused, raising=False)
    one = watermark.Watermark(tmp_path / "relight.db")
    one.write([(1, 3)])
    assert watermark.Watermark(tmp_path / "relight.db").seq(1) == 3


def test_two_that_write_zeros_at_once_lose_no_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the second writes its zeros, the first tries to have its own written and a slot filled."""
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    first, second = (watermark.Watermark(tmp_path / "relight.db") for _ in range(2))
    pwrite, done = os.pwrite, threading.Event()

    def fill() -> None:
        first.write([(1, 7)])
        done.set()

    def held(descriptor: int, data: bytes, at: int) -> int:
        monkeypatch.setattr(os, "pwrite", pwrite)
        threading.Thread(target=fill).start()
        done.wait(0.3)  # as long as the lock keeps it waiting
        return pwrite(descriptor, data, at)

    monkeypatch.setattr(os, "pwrite", held)
    second.write([(2, 8)])
    assert done.wait(60)
    assert [watermark.Watermark(tmp_path / "relight.db").seq(sid) for sid in (1, 2)] == [7, 8]
