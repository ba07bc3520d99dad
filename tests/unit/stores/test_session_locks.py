"""Threads that write to one session exclude each other; no session waits for another one."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from relight.stores.session_locks import MAX_KEPT, SessionLocks

NAMES = [f"s{number}" for number in range(3_000)]


def test_no_two_sessions_share_a_lock() -> None:
    locks = SessionLocks()
    with locks.of("held"):
        for name in NAMES:
            lock = locks.of(name)
            assert lock.acquire(blocking=False), name
            lock.release()


def test_threads_of_one_session_exclude_each_other() -> None:
    locks, start, inside, most = SessionLocks(), threading.Barrier(8), 0, 0

    def enter() -> None:
        nonlocal inside, most
        start.wait()
        for _ in range(500):
            with locks.of("one"):
                inside += 1
                most = max(most, inside)
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(enter) for _ in range(8)]:
            done.result(timeout=60)
    assert most == 1


def test_locks_that_nobody_uses_are_bounded_and_one_that_is_held_stays() -> None:
    locks = SessionLocks()
    with locks.of("held") as _:
        for number in range(MAX_KEPT + 10):
            with locks.of(f"s{number}"):
                assert len(locks) <= MAX_KEPT + 2
        assert locks.of("held").locked()
