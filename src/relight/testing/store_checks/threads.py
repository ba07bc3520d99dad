"""Concurrency: no gap, no duplicate, one winner, and readers that see only committed steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import msgspec

from relight.errors import Conflict, LeaseHeld, RelightError
from relight.journal.chain import broken_links
from relight.testing.store_checks.trial import Check, Trial, equal, require
from relight.values.session import GENESIS

_THREADS: Final = 16
_STEPS: Final = 20
_BOUND_SECONDS: Final = 60.0


def _in_threads(act: Callable[[int], None]) -> list[Exception]:
    """Run a function in many threads that start at the same moment; the exceptions they raised."""
    raised: list[Exception] = []
    start = threading.Barrier(_THREADS)

    def run(number: int) -> None:
        start.wait(_BOUND_SECONDS)
        try:
            act(number)
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_BOUND_SECONDS)
    require(not any(thread.is_alive() for thread in threads), "every thread ends")
    return raised


def many_threads_on_one_session(trial: Trial) -> None:
    """Concurrent commits to one session have distinct seqs without gap, one chain, and each thread's order."""
    session = trial.working()
    first = trial.head(session).seq
    acknowledged: list[list[int]] = [[] for _ in range(_THREADS)]

    def act(number: int) -> None:
        for _ in range(_STEPS):
            acknowledged[number].append(trial.append(session, text=f"thread {number}").step.seq)

    equal(_in_threads(act), [], "no error")
    everything = sorted(seq for own in acknowledged for seq in own)
    equal(everything, list(range(first + 1, first + 1 + _THREADS * _STEPS)), "every seq once")
    require(all(own == sorted(own) for own in acknowledged), "each thread's steps in its order")
    breaks = list(broken_links(trial.store.steps(session), after=0, digest=GENESIS))
    equal(breaks, [], "one chain")


def many_threads_on_many_sessions(trial: Trial) -> None:
    """Concurrent commits to many sessions, some refused, leave each session with exactly its own steps."""
    sessions = [trial.working() for _ in range(_THREADS)]
    taken = trial.working()

    def act(number: int) -> None:
        for step in range(_STEPS):
            trial.append(sessions[number], text=f"{number}/{step}")
            try:
                trial.append(taken, "stranger", epoch=9)
            except RelightError:
                continue
            raise AssertionError("a stranger wrote")

    equal(_in_threads(act), [], "no error")
    for session in sessions:
        equal(trial.seqs(session), list(range(1, _STEPS + 3)), "its own steps, without gap")
    equal(trial.seqs(taken), [1, 2], "nothing of the refused ones")


def one_claim_wins(trial: Trial) -> None:
    """Of many concurrent claims exactly one succeeds."""
    session = trial.begin()
    won: list[int] = []

    def act(number: int) -> None:
        try:
            trial.claim(session, f"owner-{number}", epoch=0)
        except (LeaseHeld, Conflict):
            return
        won.append(number)

    equal(_in_threads(act), [], "no other error")
    equal(len(won), 1, "one winner")
    lease = trial.head(session).lease
    require(lease is not None and lease.owner.id == f"owner-{won[0]}", "the winner has the lease")


def one_name_is_given_once(trial: Trial) -> None:
    """Of many sessions created concurrently with one name exactly one succeeds."""
    begun: list[str] = []

    def act(number: int) -> None:
        try:
            begun.append(trial.begin(name="wanted"))
        except Conflict:
            return

    equal(_in_threads(act), [], "no other error")
    equal(len(begun), 1, "one has it")


def no_change_of_an_identity_is_undone(trial: Trial) -> None:
    """Of concurrent updates of one session none loses what another one has written."""
    session = trial.begin()

    def act(number: int) -> None:
        add = {f"label-{number}": "x"}
        trial.store.update(session, lambda now: msgspec.structs.replace(now, labels={**now.labels, **add}))

    equal(_in_threads(act), [], "no error")
    equal(len(trial.record(session).identity.labels), _THREADS, "every label is there")


def readers_see_whole_commits(trial: Trial) -> None:
    """While others write, a reader never sees a head without its step, nor a gap."""
    session = trial.working()

    def act(number: int) -> None:
        for _ in range(_STEPS):
            if number % 2:
                trial.append(session)
                continue
            head = trial.head(session)
            seqs = trial.seqs(session)
            require(seqs == list(range(1, len(seqs) + 1)), "no gap")
            require(len(seqs) >= head.seq, "the head's step is there")

    equal(_in_threads(act), [], "no error")


CHECKS: Final[tuple[Check, ...]] = (
    many_threads_on_one_session,
    many_threads_on_many_sessions,
    one_claim_wins,
    one_name_is_given_once,
    no_change_of_an_identity_is_undone,
    readers_see_whole_commits,
)
