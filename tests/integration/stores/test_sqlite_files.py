"""The file: private, told apart from other files, readable where it cannot be written, whole when the disk is full."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import apsw
import pytest

from relight.errors import (
    Corrupt,
    NewerStore,
    NotAStore,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from relight.stores.sqlite.migrate import VERSION
from relight.stores.sqlite.store import SqliteStore
from relight.testing.clock import ManualClock
from tests.support import mounting
from tests.support.store_sessions import history, trial


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_and_directories_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        world = trial(tmp_path / "new" / "deep" / "relight.db")
        world.working(3)
        assert [mode(tmp_path / "new"), mode(tmp_path / "new" / "deep")] == [0o700, 0o700]
        found = {path.name: mode(path) for path in (tmp_path / "new" / "deep").iterdir()}
        assert set(found) == {"relight.db", "relight.db-wal", "relight.db-shm", "relight.db-told"}
        assert set(found.values()) == {0o600}
    finally:
        os.umask(before)
        world.store.close()


def test_an_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    trial(tmp_path / "relight.db").store.close()
    assert mode(tmp_path) == 0o755


def test_a_committed_step_is_synced_and_deleted_bytes_are_overwritten(tmp_path: Path) -> None:
    world = trial(tmp_path / "relight.db")
    assert isinstance(world.store, SqliteStore)
    with world.store._writer.transaction() as cursor:
        connection = cursor.connection
        settings = {name: connection.pragma(name) for name in ("synchronous", "journal_mode", "secure_delete")}
    assert settings == {"synchronous": 2, "journal_mode": "wal", "secure_delete": 1}
    world.store.close()


@pytest.mark.parametrize("content", [b"hello", b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 4080], ids=len)
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(NotAStore) as caught:
        trial(path)
    assert str(path) in caught.value.message
    assert path.read_bytes() == content
    assert sorted(other.name for other in tmp_path.iterdir()) == ["notes.txt"]


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStore):
        trial(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(NotAStore):
        trial(tmp_path / "file" / "relight.db")


@pytest.mark.parametrize("settings", ["", "PRAGMA application_id = 7;", "PRAGMA user_version = 3;"])
def test_another_applications_database_is_left_alone(tmp_path: Path, settings: str) -> None:
    path = tmp_path / "other.db"
    with apsw.Connection(str(path)) as other:
        other.execute(f"{settings} CREATE TABLE sessions (x); INSERT INTO sessions VALUES (1)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(NotAStore):
        trial(path)
    assert path.read_bytes() == before


def test_a_newer_store_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "relight.db"
    world = trial(path)
    world.working(2)
    world.store.close()
    newer = apsw.Connection(str(path))
    newer.pragma("user_version", VERSION + 1)
    newer.close()
    with pytest.raises(NewerStore) as caught:
        trial(path)
    assert (caught.value.found, caught.value.known) == (VERSION + 1, VERSION)


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "relight.db").touch()
    world = trial(tmp_path / "relight.db")
    assert world.seqs(world.working(1)) == [1, 2, 3]
    world.store.close()


def test_odd_paths_are_paths(tmp_path: Path) -> None:
    for name in ("a b?x=1#y.db", "ü%20.db", ":memory:", "file:x.db"):
        world = trial(tmp_path / name)
        session = world.working(1)
        world.store.close()
        again = trial(tmp_path / name)
        assert again.seqs(session) == [1, 2, 3]
        again.store.close()


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "left-open"])
def test_a_read_only_store_can_be_read(tmp_path: Path, closed: bool) -> None:
    """With its log or without: everything is read, nothing is written, and every write says why."""
    directory = tmp_path / "store"
    world = trial(directory / "relight.db")
    session = world.working(5, name="there")
    expected = history(world.store, session)
    if closed:
        world.store.close()
    with mounting.bound(directory):
        mounting.make_read_only(directory, is_bound=True)
        reader = trial(directory / "relight.db")
        assert isinstance(reader.store, SqliteStore)
        assert reader.store.info.read_only
        assert history(reader.store, session) == expected
        assert reader.store.find_named("there") is not None
        assert reader.store.find_named("nobody") is None
        assert reader.store.count_sessions() == {"working": 1}
        assert reader.store.check() == []
        with pytest.raises(StoreReadOnly) as caught:
            reader.append(session)
        assert str(directory / "relight.db") in caught.value.message
        with pytest.raises(StoreReadOnly):
            reader.begin()
        with pytest.raises(StoreReadOnly):
            reader.store.delete([session])
        reader.store.close()
        with pytest.raises(StoreReadOnly):
            trial(directory / "another.db")
        with pytest.raises(StoreReadOnly):
            trial(directory / "deep" / "another.db")
    world.store.close()


def test_a_store_that_becomes_read_only_says_so(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    directory.mkdir()
    with mounting.small_disk(directory, "8m"):
        world = trial(directory / "relight.db")
        session = world.working(2)
        world.store.close()
        mounting.make_read_only(directory)
        world = trial(directory / "relight.db")
        with pytest.raises(StoreReadOnly):
            world.append(session)
        assert world.seqs(session) == [1, 2, 3, 4]
        world.store.close()


def test_a_full_disk_acknowledges_nothing_and_keeps_everything(tmp_path: Path) -> None:
    """Fill a small file system with steps: every one that was told is there, and writing goes on once there is room."""
    directory = tmp_path / "small"
    directory.mkdir()
    with mounting.small_disk(directory, "1m"):
        (directory / "ballast").write_bytes(bytes(150_000))
        world = trial(directory / "relight.db")
        session = world.working()
        reported = [1, 2]
        with pytest.raises(StoreFull) as caught:
            for _ in range(1000):
                reported.append(world.append(session, body=os.urandom(3000)).step.seq)
        assert str(directory) in caught.value.message
        for _ in range(5):
            with pytest.raises(StoreFull):
                world.append(session, body=os.urandom(30_000))
        assert world.seqs(session) == reported
        assert world.head(session).seq == reported[-1]
        world.store.close()

        (directory / "ballast").unlink()
        world = trial(directory / "relight.db")
        assert world.seqs(session) == reported
        reported.append(world.append(session).step.seq)
        assert world.seqs(session) == reported
        assert world.store.check() == []
        world.store.close()
    assert len(reported) > 20


def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    directory = tmp_path / "small"
    directory.mkdir()
    with mounting.small_disk(directory, "16k"), pytest.raises(StoreFull):
        trial(directory / "relight.db")


def test_a_locked_store_is_unavailable_after_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "relight.db"
    world = trial(path)
    session = world.working(1)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    store = SqliteStore(path, ManualClock(), busy_seconds=0.2)
    with pytest.raises(StoreUnavailable) as caught:
        store.commit(session, world.draft(owner="first", epoch=1))
    assert str(path) in caught.value.message
    assert [step.seq for step in store.steps(session)] == [1, 2, 3]
    other.execute("ROLLBACK")
    assert store.commit(session, world.draft(owner="first", epoch=1)).step.seq == 4
    other.close()
    store.close()
    world.store.close()


def test_a_store_that_is_deleted_under_us_is_unavailable(tmp_path: Path) -> None:
    world = trial(tmp_path / "gone" / "relight.db")
    session = world.working(1)
    shutil.rmtree(tmp_path / "gone")
    world.clock.advance(1)
    for act in (lambda: world.append(session), lambda: world.store.find(session), world.begin):
        with pytest.raises(StoreUnavailable, match="deleted"):
            act()
    world.store.close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    world = trial(tmp_path / "relight.db")
    session = world.working(1)
    world.store.close()
    for act in (lambda: world.append(session), lambda: world.store.find(session), world.store.changed):
        with pytest.raises(StoreUnavailable, match="closed"):
            act()


@pytest.mark.parametrize("what", ["TABLE heads", "INDEX sessions_name", "TRIGGER sessions_counted"])
def test_a_missing_part_of_the_schema_is_damage(tmp_path: Path, what: str) -> None:
    """It is never quietly made again: an empty table would look like an empty history."""
    path = tmp_path / "relight.db"
    world = trial(path)
    world.working(2)
    world.store.close()
    other = apsw.Connection(str(path))
    other.execute(f"DROP {what}")
    other.close()
    with pytest.raises(Corrupt):
        trial(path)
