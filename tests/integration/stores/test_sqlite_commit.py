"""The commit path: what a fault at any point leaves, who is told what, and what an unknown outcome queue out to be."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relight.errors import LeaseLost
from relight.ports import faults
from relight.stores.sqlite.group_commit import Waiter, WriterQueue
from relight.stores.sqlite.store import SqliteStore
from relight.testing.clock import ManualClock
from relight.testing.store_checks.trial import Trial
from tests.support.store_sessions import trial

BOUND_SECONDS = 30.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Trial]:
    world = trial(tmp_path / "relight.db")
    yield world
    faults.disarm()
    world.store.close()


def stop(name: str) -> None:
    raise faults.InjectedFault(name)


@pytest.mark.parametrize("point", ["commit.enter", "commit.begun", "commit.written", "commit.committed"])
def test_a_fault_leaves_the_step_whole_or_absent(world: Trial, point: str) -> None:
    session = world.working(2)
    draft = world.draft(owner="first", epoch=1)
    faults.arm(point, stop)
    with pytest.raises(faults.InjectedFault):
        world.store.commit(session, draft)
    faults.disarm()
    durable = point == "commit.committed"
    assert (world.store.find_commit(session, draft.key, after=4) is not None) == durable
    assert world.append(session).step.seq == (6 if durable else 5)
    assert world.seqs(session) == list(range(1, world.head(session).seq + 1))
    assert world.store.check() == []


class Gate:
    """Holds the first writer inside its transaction until others wait behind it."""

    def __init__(self) -> None:
        self.inside, self.go = threading.Event(), threading.Event()

    def __call__(self, name: str) -> None:
        if not self.inside.is_set():
            self.inside.set()
            assert self.go.wait(BOUND_SECONDS)


def has_waiting(store: SqliteStore, number: int) -> bool:
    return len(store._writer._queue._waiting) == number


def wait_until(condition: Callable[[], bool]) -> None:
    waited = threading.Event()
    for _ in range(round(BOUND_SECONDS * 200)):
        if condition():
            return
        waited.wait(0.005)
    raise AssertionError("it did not happen")


def gathered(world: Trial, acts: list[Callable[[], object]]) -> list[object]:
    """Run the first; the others wait in line behind it and then go together. What each returned or raised."""
    results: list[object] = [None] * len(acts)
    gate = Gate()
    faults.arm("commit.begun", gate)

    def run(number: int) -> None:
        try:
            results[number] = acts[number]()
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(acts))]
    threads[0].start()
    assert gate.inside.wait(BOUND_SECONDS)
    assert isinstance(world.store, SqliteStore)
    for number, thread in enumerate(threads[1:]):
        thread.start()
        wait_until(lambda number=number: has_waiting(world.store, number + 1))  # type: ignore[misc]
    gate.go.set()
    for thread in threads:
        thread.join(BOUND_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    return results


def test_those_who_wait_share_one_transaction(world: Trial) -> None:
    sessions = [world.working() for _ in range(9)]
    assert isinstance(world.store, SqliteStore)
    before = world.store._writer.transactions
    results = gathered(world, [lambda s=session: world.append(s).step.seq for session in sessions])  # type: ignore[misc]
    assert results == [3] * 9
    assert world.store._writer.transactions == before + 2


def test_a_refusal_concerns_one_of_a_group(world: Trial) -> None:
    good, bad, after = world.working(), world.working(), world.working()
    acts: list[Callable[[], object]] = [
        lambda: world.append(good).step.seq,
        lambda: world.append(good).step.seq,
        lambda: world.append(bad, "stranger", epoch=7),
        lambda: world.append(after).step.seq,
        lambda: world.append(good).step.seq,
    ]
    results = gathered(world, acts)
    assert isinstance(results[2], LeaseLost)
    assert [results[0], results[1], results[3], results[4]] == [3, 4, 3, 5]
    assert (world.seqs(good), world.seqs(bad), world.seqs(after)) == ([1, 2, 3, 4, 5], [1, 2], [1, 2, 3])


def test_an_interrupted_leader_does_not_take_its_companions_along(world: Trial) -> None:
    """Ctrl-C in the leader's thread, rows written and not committed: the others are served by another leader."""
    sessions = [world.working() for _ in range(5)]
    seen = []

    def interrupt(name: str) -> None:
        seen.append(name)
        if len(seen) == 2:
            raise KeyboardInterrupt

    faults.arm("commit.written", interrupt)
    results = gathered(world, [lambda s=session: world.append(s).step.seq for session in sessions])  # type: ignore[misc]
    assert [type(result) for result in results] == [int, KeyboardInterrupt, int, int, int]
    assert [world.seqs(session) for session in sessions] == [[1, 2, 3], [1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 3]]
    assert world.append(sessions[1]).step.seq == 3


def test_a_leader_interrupted_after_commit_leaves_everybody_told(world: Trial) -> None:
    sessions = [world.working() for _ in range(4)]
    seen = []

    def interrupt(name: str) -> None:
        seen.append(name)
        if len(seen) == 2:
            raise KeyboardInterrupt

    faults.arm("commit.committed", interrupt)
    results = gathered(world, [lambda s=session: world.append(s).step.seq for session in sessions])  # type: ignore[misc]
    assert [type(result) for result in results] == [int, KeyboardInterrupt, int, int]
    assert [world.seqs(session) for session in sessions] == [[1, 2, 3]] * 4


def test_other_writes_wait_their_turn(world: Trial) -> None:
    """A stream of commits does not keep a change waiting for ever, nor the other way round."""
    session = world.working()
    acts: list[Callable[[], object]] = [
        lambda: world.append(session).step.seq,
        lambda: world.append(session).step.seq,
        lambda: world.store.label(session, 2, "between", 0),
        lambda: world.append(session).step.seq,
    ]
    assert gathered(world, acts) == [3, 4, None, 5]
    assert world.store.find_label(session, "between") == 2


def test_waiters_are_never_lost() -> None:
    """Many threads, some exclusive, some followers of a leader: each is served exactly once."""
    queue, served = WriterQueue(), [0] * 40

    class Numbered(Waiter):
        __slots__ = ("number",)

        def __init__(self, number: int) -> None:
            super().__init__(exclusive=number % 7 == 0)
            self.number = number

    def run(number: int) -> None:
        for _ in range(200):
            mine = Numbered(number)
            if queue.enter(mine):
                group = [mine]
                queue.take_followers(mine, group, 1 if mine.exclusive else 6)
                for one in group:
                    served[one.number] += 1
                queue.wake_served()
                queue.leave(mine, group[1:])

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_SECONDS)
    assert served == [200] * 40


# -- errors of the disk ---------------------------------------------------------------------------------------------

WRITE = """
import sys
from pathlib import Path
from relight.errors import StoreError
from tests.support.store_sessions import trial
world = trial(Path(sys.argv[1]))
session, last = sys.argv[2], int(sys.argv[3])
for number in range(12):
    draft = world.draft(owner="first", epoch=1, text=str(number), key=bytes([last % 256]) * 7 + bytes([number]))
    try:
        last = world.store.commit(session, draft).step.seq
        print("told", last, flush=True)
    except StoreError as error:
        found = world.store.find_commit(session, draft.key, after=last)
        print("resolved", error.code, found.step.seq if found else "absent", flush=True)
        last = found.step.seq if found else last
world.store.close()
print("closed", flush=True)
"""


@pytest.mark.crash
def test_an_error_of_the_disk_is_never_acknowledged(
    tmp_path: Path, program: Callable[[str], str], sample: Callable[..., int]
) -> None:
    """EIO and ENOSPC from the Nth write or sync: an error of ours, the outcome found by its key, the chain whole."""
    path = tmp_path / "relight.db"
    world = trial(path)
    session = world.working()
    world.store.close()
    failed = 0
    for number in range(sample(12, proof=600, teeth=6)):
        call, error = [("fdatasync,fsync", "EIO"), ("pwrite64", "EIO"), ("pwrite64", "ENOSPC")][number % 3]
        nth = 3 + number if number % 3 else 2 + number // 3
        last = trial_length(path, session)
        inject = f"inject={call}:error={error}:when={nth}"
        strace = [program("strace"), "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
        run = subprocess.run(
            [*strace, sys.executable, "-c", WRITE, str(path), session, str(last)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if run.returncode:  # the injected error hit the opening: then an error of ours, and nothing written
            assert "\nrelight.errors." in run.stderr, run.stderr
        lines = [line.split() for line in run.stdout.splitlines()]
        failed += any(line[0] == "resolved" for line in lines)
        reported = [int(line[-1]) for line in lines if line[0] in ("told", "resolved") and line[-1] != "absent"]
        length = trial_length(path, session)
        assert reported == list(range(last + 1, length + 1)), run.stdout
    assert failed


def trial_length(path: Path, session: str) -> int:
    """How long the journal is; it must be whole."""
    store = SqliteStore(path, ManualClock())
    steps = [step.seq for step in store.steps(session)]
    assert steps == list(range(1, len(steps) + 1))
    assert store.check() == []
    store.close()
    return len(steps)
