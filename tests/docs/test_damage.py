"""The table of docs/resume.md, line by line: what is told, what is kept, and what goes on."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import relight
from relight.errors import Corrupt, NewerStore, NotAStore, StoreError

STEPS = 6
"""an attempt, four messages, a verdict"""

WRITER = """
import os, sys, relight
s = relight.open(sys.argv[1]).session("work")
for n in range(4):
    print(s.append({"role": "user", "content": f"message {n} " + "." * 100}).seq, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with one session of six steps, closed."""
    path = tmp_path / "relight.db"
    with relight.open(path) as rl, rl.session("work") as s:
        for number in range(4):
            s.append({"role": "user", "content": f"message {number}"})
        s.complete("done")
    return path


def sql(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()


def refusal(path: Path) -> Corrupt:
    """What `load` says; opening the session says the same."""
    with relight.open(path) as rl:
        with pytest.raises(Corrupt) as loading:
            rl.history.load("work")
        with pytest.raises(Corrupt) as opening:
            rl.session("work")
    assert (opening.value.seq, opening.value.offered) == (loading.value.seq, loading.value.offered)
    return loading.value


def went_on(path: Path) -> int:
    """Take the offer, open the session and write to it; how many messages were kept."""
    with relight.open(path) as rl:
        rl.runs.prepare("work", from_last_good=True)
        with rl.session("work") as s:
            kept = len(s.messages)
            s.append({"role": "user", "content": "and on"})
            s.complete("done after all")
        assert rl.history.load("work").result == "done after all"
        assert rl.history.verify("work").ok
    return kept


BREAK_BODY = "UPDATE bodies SET data = x'00112233' WHERE id = (SELECT body FROM steps WHERE sid = 1 AND seq = {})"
BREAK_DIGEST = "UPDATE steps SET digest = x'00112233' WHERE sid = 1 AND seq = {}"
BREAK_COLUMN = "UPDATE steps SET message_count = 77 WHERE sid = 1 AND seq = {}"


@pytest.mark.parametrize("damage", [BREAK_BODY, BREAK_DIGEST, BREAK_COLUMN], ids=["body", "digest", "column"])
def test_a_corrupt_newest_step_is_named_and_the_one_before_offered(store: Path, damage: str) -> None:
    sql(store, damage.format(STEPS))
    error = refusal(store)
    assert (error.seq, error.offered) == (STEPS, f"work@{STEPS - 1}")
    with relight.open(store) as rl:
        report = rl.history.verify("work")
        assert [(problem.seq, problem.offered) for problem in report.problems] == [(STEPS, f"work@{STEPS - 1}")]
    assert went_on(store) == 4


def test_a_corrupt_step_in_the_middle_is_named_and_everything_before_it_kept(store: Path) -> None:
    sql(store, BREAK_BODY.format(4))
    error = refusal(store)
    assert (error.seq, error.offered) == (4, "work@3")
    assert went_on(store) == 2


def test_a_lost_tail_is_noticed_because_the_head_names_it(store: Path) -> None:
    sql(store, "DELETE FROM steps WHERE seq > 4")
    error = refusal(store)
    assert (error.seq, error.offered) == (5, "work@4")
    assert went_on(store) == 3


def test_a_missing_row_is_named_by_load_and_by_verify(store: Path) -> None:
    sql(store, "DELETE FROM steps WHERE seq = 4")
    error = refusal(store)
    assert (error.seq, error.what, error.offered) == (4, "the step is missing", "work@3")
    with relight.open(store) as rl:
        report = rl.history.verify("work")
        assert not report.ok
        assert [problem.seq for problem in report.problems if not problem.abandoned] == [4]
    assert went_on(store) == 2


@pytest.mark.parametrize("damage", ["UPDATE heads SET record = x'00112233'", "DELETE FROM heads"])
def test_a_broken_head_row_is_rebuilt_from_the_journal(store: Path, damage: str) -> None:
    sql(store, damage)
    error = refusal(store)
    assert error.offered == f"work@{STEPS}"
    with relight.open(store) as rl:
        (listed,) = rl.sessions.list()
        assert listed.attention is not None and listed.attention.kind == "corrupt"
    assert went_on(store) == 4


def test_a_broken_identity_row_is_listed_and_named(store: Path) -> None:
    sql(store, "UPDATE sessions SET record = x'00112233'")
    with relight.open(store) as rl:
        assert [info.name for info in rl.sessions.list()] == ["work"]
        assert not rl.history.verify().ok
        with pytest.raises(Corrupt):
            rl.history.load("work")


def test_other_sessions_are_not_hurt(store: Path) -> None:
    with relight.open(store) as rl, rl.session("other") as s:
        s.append({"role": "user", "content": "hello"})
    sql(store, BREAK_BODY.format(4))
    with relight.open(store) as rl:
        assert len(rl.history.load("other").messages) == 1
        assert rl.history.verify("other").ok
        assert not rl.history.verify().ok


@pytest.mark.parametrize(
    ("content", "error"),
    [(b"Dear Ada, this is a letter.\n" * 100, NotAStore), (b"\0" * 8192, StoreError)],
    ids=["text", "zeros"],
)
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes, error: type[StoreError]) -> None:
    path = tmp_path / "letter.db"
    path.write_bytes(content)
    with pytest.raises(error):
        relight.open(path).close()
    assert path.read_bytes() == content


def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    sql(path, "CREATE TABLE mail (text)")
    before = path.read_bytes()
    with pytest.raises(NotAStore):
        relight.open(path).close()
    assert path.read_bytes() == before


def test_a_store_of_a_newer_relight_is_left_alone(store: Path) -> None:
    sql(store, "PRAGMA user_version = 999")
    with pytest.raises(NewerStore):
        relight.open(store).close()


def test_damaged_content_of_a_file_is_told_and_hurts_nothing_else(tmp_path: Path) -> None:
    path, files = tmp_path / "relight.db", tmp_path / "files"
    files.mkdir()
    (files / "one").write_bytes(random.Random(1).randbytes(5000))
    (files / "two").write_bytes(b"two")
    with relight.open(path) as rl, rl.session("work", workspace=files) as s:
        s.append({"role": "user", "content": "before"})
        (files / "one").write_bytes(b"1")
        (files / "two").write_bytes(b"2")
        s.append({"role": "user", "content": "after"})
    flip_content(path.with_name(path.name + ".blobs"), random.Random(1).randbytes(5000))
    with relight.open(path) as rl:
        with pytest.raises(Corrupt) as refused:
            rl.files.restore("work@2")
        assert refused.value.exit_code == 5
        assert {name: (files / name).read_bytes() for name in ("one", "two")} == {"one": b"1", "two": b"2"}
        assert len(rl.history.load("work").messages) == 2
        rl.history.undo("work")
        assert sorted(file.name for file in files.iterdir()) == ["one", "two"]
        rl.files.restore("work@2", paths=["two"])
        assert {name: (files / name).read_bytes() for name in ("one", "two")} == {"one": b"1", "two": b"two"}


def flip_content(blobs: Path, content: bytes) -> None:
    """Flip one bit in the stored bytes of a file that does not compress."""
    (segment,) = [file for file in blobs.rglob("*") if file.is_file() and content[:64] in file.read_bytes()]
    data = bytearray(segment.read_bytes())
    data[data.index(content[:64]) + 100] ^= 1
    segment.write_bytes(data)


@pytest.mark.parametrize("part", [0.9, 0.5, 0.1, 0.01])
def test_a_torn_file_is_told_and_never_shorter_in_silence(store: Path, part: float) -> None:
    whole = store.read_bytes()
    store.write_bytes(whole[: int(len(whole) * part)])
    assert tells_or_is_whole(store, messages=4)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A store whose writer was killed: its steps lie in the write-ahead log."""
    path = tmp_path / "relight.db"
    ran = subprocess.run([sys.executable, "-c", WRITER, str(path)], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["2", "3", "4", "5"]
    return path


def tells_or_is_whole(path: Path, *, messages: int) -> bool:
    """Either every acknowledged message is there, or somebody says that something is wrong."""
    try:
        with relight.open(path) as rl:
            return len(rl.history.load("work").messages) == messages or not rl.history.verify().ok
    except StoreError:
        return True


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def newest_flipped(data: bytes) -> bytes:
    return data[:-2000] + bytes([data[-2000] ^ 1]) + data[-1999:]


def test_what_a_killed_writer_left_in_the_log_is_there(log: Path) -> None:
    with relight.open(log) as rl:
        assert len(rl.history.load("work").messages) == 4
        assert rl.history.verify().ok


@pytest.mark.parametrize("damage", [flipped, newest_flipped, cut])
def test_a_damaged_log_is_told_and_never_shorter_in_silence(log: Path, damage: Callable[[bytes], bytes]) -> None:
    wal = log.with_name(log.name + "-wal")
    wal.write_bytes(damage(wal.read_bytes()))
    assert tells_or_is_whole(log, messages=4)


def test_a_session_that_lost_its_newest_steps_goes_on_from_what_is_whole(log: Path) -> None:
    wal = log.with_name(log.name + "-wal")
    wal.write_bytes(wal.read_bytes()[:-3000])
    with relight.open(log) as rl:
        found = [problem.what for problem in rl.history.verify().problems]
        assert any("step 5 was acknowledged, and the journal ends at 4" in what for what in found)
    assert went_on(log) == 3


def test_removing_the_witness_accepts_the_loss(log: Path) -> None:
    log.with_name(log.name + "-wal").unlink()
    with relight.open(log) as rl, pytest.raises(Corrupt, match="sessions are lost"):
        rl.session("work")
    log.with_name(log.name + "-told").unlink()
    with relight.open(log) as rl, rl.session("work") as s:
        assert s.is_new
