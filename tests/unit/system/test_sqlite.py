"""Locks of SQLite that another process holds for a moment: every statement waits for them, up to the busy timeout."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

import relight
from relight.system.sqlite import WaitingConnection
from tests.support.shell import eventually

SOURCE = Path(relight.__file__).parent
HEADER = 48
"""bytes of one copy of the header of the log's index; the two follow one another at the start of -shm"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database in WAL mode."""
    (path := tmp_path / "x.db").touch()
    with connected(path) as connection:
        assert connection.set_wal()
        connection.execute("CREATE TABLE t (x)")
    return path


@contextmanager
def connected(path: Path, busy_seconds: float = 30) -> Iterator[WaitingConnection]:
    connection = WaitingConnection(path, busy_seconds=busy_seconds)
    try:
        connection.execute("PRAGMA user_version").fetchall()  # opens the log, if there is one
        yield connection
    finally:
        connection.close()


@contextmanager
def half_written_header(path: Path, connection: apsw.Connection) -> Iterator[None]:
    """What other processes see while a commit replaces the header: the two copies differ, and the writer has its
    lock."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO t VALUES (1)")
    with open(f"{path}-shm", "r+b", buffering=0) as index:
        index.seek(HEADER)
        whole = index.read(HEADER)
        index.seek(HEADER)
        index.write(bytes(HEADER))
        try:
            yield
        finally:
            index.seek(HEADER)
            index.write(whole)
            connection.execute("COMMIT")


def test_counting_the_frames_of_a_log_waits_for_the_commit_that_it_meets(path: Path) -> None:
    with connected(path) as writer, connected(path) as counting:
        before, _ = counting.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_NOOP)
        counted: list[int] = []

        def count() -> None:
            counted.append(counting.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_NOOP)[0])

        with half_written_header(path, writer):
            thread = threading.Thread(target=count)
            thread.start()
            thread.join(0.05)  # without waiting it has ended by now, with an error
            assert thread.is_alive()
        thread.join(30)
        assert counted and counted[0] >= before


def test_a_checkpoint_waits_for_that_of_another_process(path: Path) -> None:
    with connected(path) as reader, connected(path) as writer, connected(path) as first, connected(path) as second:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM t").fetchall()
        writer.execute("INSERT INTO t VALUES (1)")
        threads = [
            threading.Thread(target=one.wal_checkpoint, args=("main", apsw.SQLITE_CHECKPOINT_TRUNCATE))
            for one in (first, second)
        ]
        for thread in threads:
            thread.start()
            thread.join(0.05)
        assert all(thread.is_alive() for thread in threads)
        reader.execute("COMMIT")
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        eventually(lambda: not Path(f"{path}-wal").stat().st_size, what="an empty log")


def test_waiting_ends_with_the_busy_timeout(path: Path) -> None:
    with connected(path) as writer, connected(path, busy_seconds=0.02) as counting:
        counting.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_NOOP)
        with half_written_header(path, writer), pytest.raises(apsw.BusyError):
            counting.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_NOOP)


def test_every_connection_to_a_file_is_one_that_waits() -> None:
    made = [
        f"{file.relative_to(SOURCE)}: {call}"
        for file in SOURCE.rglob("*.py")
        for call in re.findall(r"apsw\.Connection\(.*", file.read_text(encoding="utf-8"))
        if '":memory:"' not in call and "class WaitingConnection" not in file.read_text(encoding="utf-8")
    ]
    assert not made
