"""Several processes on one file, processes that die at any moment, and processes that fork."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from relight.journal.chain import broken_links
from relight.stores.sqlite.store import SqliteStore
from relight.testing.clock import ManualClock
from relight.values.session import GENESIS
from tests.support.store_sessions import trial

Sample = Callable[..., int]

APPEND = """
import sys
from pathlib import Path
from tests.support.store_sessions import trial
world = trial(Path(sys.argv[1]))
for _ in range(int(sys.argv[3])):
    print(world.append(sys.argv[2], text=sys.argv[4], key=__import__("os").urandom(8)).step.seq, flush=True)
"""


def child(code: str, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_several_processes_append_to_one_session(tmp_path: Path) -> None:
    """No gap, no duplicate, one chain; each process is told its own seqs in order."""
    path = tmp_path / "relight.db"
    world = trial(path)
    session = world.working()
    children = [child(APPEND, path, session, 40, f"child {number}") for number in range(4)]
    mine = [world.append(session, text="parent").step.seq for _ in range(40)]
    reported = [mine]
    for one in children:
        output, errors = one.communicate(timeout=60)
        assert (one.returncode, errors) == (0, "")
        reported.append([int(line) for line in output.split()])
    assert sorted(seq for own in reported for seq in own) == list(range(3, 203))
    assert all(own == sorted(own) for own in reported)
    assert list(broken_links(world.store.steps(session), after=0, digest=GENESIS)) == []
    assert world.store.check() == []
    world.store.close()


def test_another_process_is_seen_at_once(tmp_path: Path) -> None:
    path = tmp_path / "relight.db"
    world = trial(path)
    session = world.working(1)
    token = world.store.changed()
    other = child(APPEND, path, session, 1, "other")
    assert other.communicate(timeout=60)[0].split() == ["4"]
    assert world.store.changed() != token
    assert world.head(session).seq == 4
    assert world.append(session).step.seq == 5
    world.store.close()


@pytest.mark.crash
def test_a_killed_writer_loses_nothing_it_was_told(tmp_path: Path, sample: Sample) -> None:
    """SIGKILL at random moments, again and again on the same file: every printed seq is there, the chain is whole."""
    path = tmp_path / "relight.db"
    world = trial(path)
    session = world.working()
    world.store.close()
    chance = random.Random(5)
    reported = 2
    for _ in range(sample(6, proof=500, teeth=4)):
        writer = child(APPEND, path, session, 100_000, "x" * 2000)
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(chance.random() * 0.05)
        writer.send_signal(signal.SIGKILL)
        # Not `communicate`, which reads past what came with the first line and is in the buffer.
        with writer:
            assert writer.stderr is not None
            output, errors = writer.stdout.read(), writer.stderr.read()
        assert errors == ""
        reported = max([reported, *(int(line) for line in (first + output).split("\n")[:-1])])
        store = SqliteStore(path, ManualClock())
        steps = list(store.steps(session))
        assert [step.seq for step in steps] == list(range(1, len(steps) + 1))
        assert len(steps) in (reported, reported + 1)  # one may be durable before anybody was told
        assert list(broken_links(steps, after=0, digest=GENESIS)) == []
        assert store.check() == []
        store.close()


def test_a_forked_child_and_its_parent_both_go_on(tmp_path: Path) -> None:
    path = tmp_path / "relight.db"
    world = trial(path)
    session = world.working(1)
    list(world.store.steps(session))
    pid = os.fork()
    if pid == 0:
        try:
            ok = world.append(session, text="child").step.seq == 4 and world.seqs(session) == [1, 2, 3, 4]
            world.store.close()
            os._exit(0 if ok else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert world.append(session, text="parent").step.seq == 5
    assert world.seqs(session) == [1, 2, 3, 4, 5]
    assert world.store.check() == []
    world.store.close()


READ = """
import sys, time
import apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM sessions").fetchall()
print("reading", flush=True)
sys.stdin.read()
"""


def test_a_deletion_that_a_reader_holds_up_says_so(tmp_path: Path) -> None:
    """Another process reads an older state: the rows are gone, and the error says that bytes are not."""
    from relight.errors import StoreUnavailable

    path = tmp_path / "relight.db"
    world = trial(path)
    session = world.working(3, task="canary-91")
    reader = subprocess.Popen(
        [sys.executable, "-c", READ, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "reading\n"
    with pytest.raises(StoreUnavailable, match="a reader keeps some of their bytes"):
        world.store.delete([session])
    assert world.store.find(session) is None
    reader.communicate()
    again = world.working(1)
    world.store.delete([again])
    world.store.close()
    assert b"canary-91" not in path.read_bytes()
