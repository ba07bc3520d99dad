"""Damage: any flipped byte gives the same history or an error of ours; a damaged log loses nothing silently."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from relight.errors import Corrupt, RelightError
from relight.journal.chain import broken_links, unseal_head
from relight.ports.store import Query, Store
from relight.stores.sqlite.connection.wal_check import _sums
from relight.stores.sqlite.store import SqliteStore
from relight.testing.clock import ManualClock
from relight.values.session import GENESIS
from tests.guarantees.conftest import memory_path
from tests.support.store_sessions import history, trial

Sample = Callable[..., int]
Picture = dict[str, list[bytes]]

WRITE = """
import os, signal, sys
from pathlib import Path
from tests.support.store_sessions import trial
world = trial(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    session = world.working(12, name=f"s{number}", labels={"team": "core"}, task="t" * 300, key=f"k{number}")
    world.append(session, label="best", body=bytes(range(256)) * 30)
    world.store.label(session, 3, "given", 0)
    print(session, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

__all__ = ["memory_path"]


def written_and_killed(path: Path, sessions: int = 4) -> Picture:
    """A store whose writer was killed, log and all, and what every session in it must say."""
    child = subprocess.run(
        [sys.executable, "-c", WRITE, str(path), str(sessions)], stdout=subprocess.PIPE, text=True, check=False
    )
    names = child.stdout.split()
    assert len(names) == sessions
    store = SqliteStore(copied(path, path.parent / "look"), ManualClock())
    picture = {session: history(store, session) for session in names}
    store.close()
    return picture


def copied(path: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for part in path.parent.glob(path.name + "*"):
        if part.is_file():
            shutil.copyfile(part, to / part.name)
    return to / path.name


def flip(path: Path, position: int, mask: int) -> None:
    with open(path, "r+b", buffering=0) as file:  # in place: some file systems sync a file that was emptied first
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ mask]))


def silent_loss(path: Path, expected: Picture) -> str | None:
    """Read everything as the engine would; what came out different without anybody saying so, if anything."""
    try:
        store = SqliteStore(path, ManualClock())
    except RelightError:
        return None
    try:
        found = _listed(store, expected)
        return found or next(filter(None, (_differs(store, session, expected) for session in expected)), None)
    finally:
        store.close()


def _listed(store: Store, expected: Picture) -> str | None:
    try:
        records = store.list_sessions(Query())
        store.count_sessions()
        store.check()
    except RelightError:
        return None
    whole = {record.identity.id for record in records if record.head is not None}
    damaged = [record for record in records if record.head is None]
    if len(whole) + len(damaged) == len(expected):
        return None
    return None if store.check() else f"{len(expected) - len(records)} sessions are not listed, and nobody knows"


def _differs(store: Store, session: str, expected: Picture) -> str | None:
    try:
        record = store.find(session)
        if record is None:
            return f"{session} is not found"
        if record.head is None:
            return None
        steps = list(store.steps(session))
        named = store.find_named(record.identity.name or "")
        rows = store.checkpoints(session)
        label = store.find_label(session, "given")
    except RelightError:
        return None
    if list(broken_links(steps, after=0, digest=GENESIS)) or not steps or steps[-1].seq != record.head.seq:
        return None
    if [step.body for step in steps] != expected[session]:
        return f"{session} says something else"
    if named is None or named.identity.id != session:
        return f"{session} is not found by its name"
    if len(rows) != len(steps) or label != 3:
        return f"{session} has other checkpoints or labels"
    return None


@pytest.mark.parametrize("part", ["relight.db", "relight.db-wal", "relight.db-told"])
def test_a_flipped_byte_is_never_silent(memory_path: Path, part: str, sample: Sample) -> None:
    """Database, log and witness; any position, any bit."""
    path = memory_path / "relight.db"
    expected = written_and_killed(path)
    if part == "relight.db":  # closed properly: everything is in the database
        SqliteStore(path, ManualClock()).close()
    whole = {one.name: one.read_bytes() for one in memory_path.iterdir() if one.is_file()}
    chance = random.Random(part)
    there = memory_path / "flipped" / "relight.db"
    silent = []
    for _ in range(sample(120, proof=30_000, teeth=60)):
        there = copied(path, memory_path / "flipped")
        position, mask = chance.randrange(len(whole[part])), 1 << chance.randrange(8)
        flip(there.with_name(part), position, mask)
        problem = silent_loss(there, expected)
        if problem is not None:
            silent.append((position, mask, problem))
    assert silent == []


@pytest.mark.parametrize("part", ["relight.db", "relight.db-wal"])
def test_a_truncated_or_zeroed_file_is_never_silent(memory_path: Path, part: str, sample: Sample) -> None:
    path = memory_path / "relight.db"
    expected = written_and_killed(path)
    if part == "relight.db":
        SqliteStore(path, ManualClock()).close()
    size = path.with_name(part).stat().st_size
    chance = random.Random(part)
    silent = []
    for number in range(sample(30, proof=5_000, teeth=30)):
        there = copied(path, memory_path / "cut")
        target, position = there.with_name(part), chance.randrange(size)
        if number % 2:
            os.truncate(target, position)
        else:
            with open(target, "r+b", buffering=0) as file:
                file.seek(position)
                file.write(bytes(min(512, size - position)))
        problem = silent_loss(there, expected)
        if problem is not None:
            silent.append((number % 2, position, problem))
    assert silent == []


def test_a_log_that_is_gone_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "relight.db"
    expected = written_and_killed(path)
    path.with_name("relight.db-wal").unlink()
    assert silent_loss(path, expected) is None


def test_a_damaged_log_is_kept_and_reported_once(tmp_path: Path) -> None:
    """Without the witness too: two commits behind the damage prove the loss. The copy stays as evidence."""
    path = tmp_path / "relight.db"
    written_and_killed(path)
    log = path.with_name("relight.db-wal")
    path.with_name("relight.db-told").unlink()
    size = log.stat().st_size
    flip(log, size // 2, 0x10)
    damaged = log.read_bytes()
    with pytest.raises(Corrupt) as caught:
        SqliteStore(path, ManualClock())
    (evidence,) = path.parent.glob("relight.db-wal-damaged-*")
    assert str(evidence) in caught.value.message
    assert evidence.read_bytes() == damaged
    store = SqliteStore(path, ManualClock())
    assert any(str(evidence) in damage.what for damage in store.check())
    store.close()


def test_a_log_cut_off_by_a_crash_is_no_damage(tmp_path: Path) -> None:
    """The last transaction half written: SQLite's own recovery, and not a word from us."""
    path = tmp_path / "relight.db"
    expected = written_and_killed(path)
    log = path.with_name("relight.db-wal")
    frame = 24 + 4096
    with log.open("ab") as file:  # the beginning of a transaction nobody was told of
        header = bytearray(log.read_bytes()[-frame : -frame + 24])
        header[4:8] = bytes(4)
        file.write(bytes(header) + bytes(2000))
    store = SqliteStore(path, ManualClock())
    assert {session: history(store, session) for session in expected} == expected
    assert store.check() == []
    store.close()


def test_a_log_that_was_begun_anew_is_no_damage(tmp_path: Path) -> None:
    """Everything was written back, and the next writer has not begun: the old frames still stand in the file."""
    path = tmp_path / "relight.db"
    world = trial(path)
    session = world.working(5)
    connection = apsw.Connection(str(path))
    connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_RESTART)
    assert path.with_name("relight.db-wal").stat().st_size > 0
    again = trial(path)
    assert again.seqs(session) == [1, 2, 3, 4, 5, 6, 7]
    assert again.store.check() == []
    for one in (connection, again.store, world.store):
        one.close()


def test_a_log_that_was_cut_off_at_its_new_beginning_is_no_damage(tmp_path: Path) -> None:
    """A writer began the log anew and was killed before its first frame: a new header, and old frames behind it."""
    path = tmp_path / "relight.db"
    written_and_killed(path)
    log = path.with_name("relight.db-wal")
    frames = log.read_bytes()
    store = SqliteStore(path, ManualClock())
    names = [record.identity.id for record in store.list_sessions(Query())]
    expected = [b"".join(history(store, name)) for name in names]
    store.close()
    header = bytearray(frames[:24])
    header[12:24] = bytes([0, 0, 0, 9]) + bytes(range(8))
    first, second = _sums(bytes(header), (0, 0), "<")
    log.write_bytes(bytes(header) + first.to_bytes(4, "big") + second.to_bytes(4, "big") + frames[32:])
    store = SqliteStore(path, ManualClock())
    assert [b"".join(history(store, name)) for name in names] == expected
    assert store.check() == []
    store.close()


def test_lost_steps_make_a_session_corrupt_until_its_head_is_rebuilt(tmp_path: Path) -> None:
    path = tmp_path / "relight.db"
    world = trial(path)
    lost, whole = world.working(3), world.working(3)
    world.store.close()
    older = path.read_bytes()
    world = trial(path)
    world.append(lost)
    world.store.close()
    path.write_bytes(older)

    world = trial(path)
    assert world.record(lost).head is None
    assert [record.identity.id for record in world.store.list_sessions(Query()) if record.head is None] == [lost]
    with pytest.raises(Corrupt, match="step 6 was acknowledged, and the journal ends at 5"):
        world.append(lost)
    assert any("step 6 was acknowledged" in damage.what for damage in world.store.check())
    world.append(whole)
    whole_head = world.head(whole)

    connection = apsw.Connection(str(path))
    record = connection.execute("SELECT record FROM heads WHERE sid = 1").get
    connection.close()
    world.store.rebuild_head(unseal_head(record))
    assert world.append(lost).step.seq == 6
    assert world.head(whole) == whole_head
    assert world.store.check() == []
    world.store.close()


def test_a_damaged_session_does_not_hurt_its_neighbours(tmp_path: Path) -> None:
    """In one group of commits too: its writer is refused, the others are acknowledged."""
    path = tmp_path / "relight.db"
    world = trial(path)
    sessions = [world.working(2, name=f"s{number}") for number in range(5)]
    world.store.close()
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE heads SET record = zeroblob(9) WHERE sid = 2")
    connection.execute("UPDATE sessions SET record = zeroblob(9) WHERE sid = 3")
    connection.execute("UPDATE sessions SET key = 'changed' WHERE sid = 4")
    connection.close()
    world = trial(path)
    listed = {record.identity.id: record for record in world.store.list_sessions(Query())}
    assert sorted(listed) == sorted(sessions)
    assert [listed[session].head is None for session in sessions] == [False, True, True, True, False]
    assert listed[sessions[2]].identity.name == "s2"
    assert world.record(sessions[1]).head is None
    with pytest.raises(Corrupt) as caught:
        world.store.find(sessions[2])
    assert caught.value.session == sessions[2]
    with pytest.raises(Corrupt):
        world.append(sessions[1])
    assert world.append(sessions[0]).step.seq == 5
    assert len(world.store.check()) == 3
    world.store.delete([sessions[1], sessions[2], sessions[3]])
    assert world.store.check() == []
    world.store.close()


@pytest.mark.parametrize("index", ["sessions_id", "sessions_name"])
def test_a_damaged_index_is_not_taken_for_a_missing_session(tmp_path: Path, index: str) -> None:
    path = tmp_path / "relight.db"
    world = trial(path)
    session = world.working(2, name="here")
    world.store.close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA writable_schema = ON")
    empty = "(SELECT rootpage FROM sqlite_schema WHERE name = 'snapshots_pool')"
    connection.execute(f"UPDATE sqlite_schema SET rootpage = {empty} WHERE name = ?", (index,))
    connection.close()
    world = trial(path)
    with pytest.raises(Corrupt):
        world.store.find(session) if index == "sessions_id" else world.store.find_named("here")
    with pytest.raises(Corrupt):
        world.append("f" * 32)
    world.store.close()
