"""Conformance kit of the wakeup engine port: checks that every engine has to pass.

    class TestMyEngine(EngineKit):
        def make_store(self): ...
        def make_engine(self, store): ...

is all that pytest needs. Each check gets a new, empty store on real clocks, and one engine per simulated worker.
Without pytest: `run(make_store, make_engine)` returns a report.

An engine only gives hints; the claim decides. So the contract is small: a queued session is offered soon, others are
not offered, and nothing that a dead worker left prevents a session from being offered again.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Protocol

from relight.ports.store import Store
from relight.ports.wakeup import Ticket, WorkEngine
from relight.system.machine import SystemClock, SystemEntropy
from relight.testing.checks import Report, add_tests, report_of
from relight.testing.store_checks.trial import equal, require
from relight.values.lease import Owner
from relight.values.queues import QueueKey, QueuePosition
from relight.values.session import Head, Identity
from relight.values.status import StatusChange
from relight.values.step import Claim, Draft

SOON_SECONDS: Final = 15.0
"""within which a hint must arrive, even if a notification was lost"""
A: Final = QueueKey("a")
MakeStore = Callable[[], Store]
MakeEngine = Callable[[Store], WorkEngine]


class EngineTrial:
    """Store, engines and shortcuts for one check."""

    def __init__(self, make_store: MakeStore, make_engine: MakeEngine) -> None:
        self.store = make_store()
        self._make = make_engine
        self._engines: list[WorkEngine] = []
        self._clock, self._entropy = SystemClock(), SystemEntropy()

    def engine(self) -> WorkEngine:
        """The engine of one more worker."""
        made = self._make(self.store)
        self._engines.append(made)
        made.prepare()
        return made

    def close(self) -> None:
        for engine in self._engines:
            engine.close()
        self.store.close()

    def enqueue(self, line: QueueKey = A, *, priority: int = 0, in_seconds: float | None = None) -> str:
        """A new queued session; its id."""
        now_us = self._clock.now_us()
        queue_position = QueuePosition(queue=line.queue, wants=line.wants, priority=priority, since_us=now_us)
        identity = Identity(id=self._entropy.session_id(), created_us=now_us, queue_position=queue_position)
        wake_us = now_us + round(in_seconds * 1e6) if in_seconds is not None else None
        self.store.create(identity, Head(session=identity.id, queue_position=queue_position, wake_us=wake_us))
        return identity.id

    def start(self, session: str) -> None:
        """Claim a session and set it to working."""
        self._write(session, StatusChange(status="working"), release=False)

    def requeue(self, session: str, status: Any = "queued") -> None:
        """Release a session with a status, as if its owner were gone."""
        self._write(session, StatusChange(status=status), release=True)

    def _write(self, session: str, change: StatusChange, *, release: bool) -> None:
        head = self.head(session)
        # A new owner with evidence that the old one is gone: the check plays whichever process takes over.
        owner = Owner(id=self._entropy.session_id())
        claim = Claim(owner=owner, seconds=60.0, expected_epoch=head.epoch, owner_gone=True)
        key = self._entropy.key()
        draft = Draft(kind="status", body=b"", key=key, claim=claim, release=release, status=change)
        self.store.commit(session, draft)

    def head(self, session: str) -> Head:
        record = self.store.find(session)
        assert record is not None and record.head is not None
        return record.head

    def is_working(self, session: str) -> bool:
        return self.head(session).status == "working"

    def offered(
        self, engine: WorkEngine, *lines: QueueKey, limit: int = 10, seconds: float = SOON_SECONDS
    ) -> list[Ticket]:
        """The first tickets that the engine offers; empty after `seconds` without any."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = engine.take(list(lines or (A,)), limit)
            if found:
                return found
            engine.wait(0.05)
        return []

    def never(self, engine: WorkEngine, session: str, *lines: QueueKey, seconds: float = 0.2) -> None:
        """Require that a session is not offered for `seconds`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = [ticket.session for ticket in engine.take(list(lines or (A,)), 10)]
            require(session not in found, "it is not offered")
            engine.wait(0.05)


class EngineCheck(Protocol):
    """One check; its docstring states the requirement."""

    __name__: str

    def __call__(self, trial: EngineTrial) -> None: ...


def queued_sessions_are_offered(trial: EngineTrial) -> None:
    """Sessions queued before and after the engine was made are offered, by priority and age."""
    before = trial.enqueue()
    engine = trial.engine()
    after, first = trial.enqueue(), trial.enqueue(priority=9)
    found = [ticket.session for ticket in trial.offered(engine)]
    equal(found, [first, before, after], "all of them, in order")


def only_requested_queues_are_offered(trial: EngineTrial) -> None:
    """A worker is offered only sessions of the requested queues; the ticket names the queue."""
    engine = trial.engine()
    wanted = QueueKey("a", ("eu", "gpu"))
    long = QueueKey("q" * 90, ("x" * 90,))
    other, fits, longest = trial.enqueue(QueueKey("b")), trial.enqueue(wanted), trial.enqueue(long)
    found = trial.offered(engine, wanted)
    equal([(one.session, one.line) for one in found], [(fits, wanted)], "the one that fits")
    trial.never(engine, other, wanted)
    found = trial.offered(engine, long)
    equal([(one.session, one.line) for one in found], [(longest, long)], "names of any length")


def a_waiting_worker_is_woken(trial: EngineTrial) -> None:
    """`wait` returns when any process queues a session."""
    engine = trial.engine()
    engine.take([A], 1)  # nothing is queued yet
    timer = threading.Timer(0.1, trial.enqueue)
    timer.start()
    end = time.monotonic() + SOON_SECONDS
    while not engine.wait(0.05) and time.monotonic() < end:
        pass
    timer.join()
    require(trial.offered(engine), "it is offered")


def a_wake_time_is_respected(trial: EngineTrial) -> None:
    """A session with a wake time is not offered before it, and soon after it."""
    engine = trial.engine()
    later = trial.enqueue(in_seconds=0.6)
    trial.never(engine, later)
    equal([one.session for one in trial.offered(engine)], [later], "offered after its wake time")


def a_requeued_session_is_offered_again(trial: EngineTrial) -> None:
    """A session is offered each time it is queued: to the same worker, or to another if the first one died."""
    engine, other = trial.engine(), trial.engine()
    session = trial.enqueue()
    (ticket,) = trial.offered(engine)
    trial.start(session)
    engine.close_ticket(ticket)
    trial.never(engine, session)
    trial.requeue(session)
    (again,) = trial.offered(engine)
    equal(again.session, session, "again")
    trial.start(session)  # and its worker dies without closing the ticket
    trial.requeue(session)
    equal([one.session for one in trial.offered(other)], [session], "to another worker")


def a_lost_hint_is_repeated(trial: EngineTrial) -> None:
    """A ticket that its worker never used does not prevent the session from being offered again."""
    engine, other = trial.engine(), trial.engine()
    session = trial.enqueue()
    equal([one.session for one in trial.offered(engine)], [session], "to the first worker, which does nothing")
    equal([one.session for one in trial.offered(other)], [session], "to another worker")


def sessions_that_left_the_queue_are_not_offered(trial: EngineTrial) -> None:
    """A session that was cancelled, deleted or claimed by another worker is not offered."""
    engine = trial.engine()
    gone, cancelled, taken = trial.enqueue(), trial.enqueue(), trial.enqueue()
    trial.store.delete([gone])
    trial.requeue(cancelled, "terminated")
    trial.start(taken)
    for session in (gone, cancelled, taken):
        trial.never(engine, session)


def closing_a_ticket_is_idempotent(trial: EngineTrial) -> None:
    """Closing a ticket twice, or one that is unknown, does nothing."""
    engine = trial.engine()
    trial.enqueue()
    (ticket,) = trial.offered(engine)
    engine.close_ticket(ticket)
    engine.close_ticket(ticket)
    engine.close_ticket(Ticket(session="never there", line=A, row=999_999_999 if ticket.row is not None else None))


def a_postponed_session_is_offered_again(trial: EngineTrial) -> None:
    """A session postponed because its queue is full is offered again later, not at once."""
    engine = trial.engine()
    session = trial.enqueue()
    (ticket,) = trial.offered(engine)
    engine.postpone(ticket, 0.6)
    trial.never(engine, session)
    equal([one.session for one in trial.offered(engine)], [session], "offered again")


def a_sweep_ignores_running_sessions(trial: EngineTrial) -> None:
    """Sweeps by many workers, at any time, lose no hint and no queue position."""
    engine, other = trial.engine(), trial.engine()
    working, waiting = trial.enqueue(), trial.enqueue()
    trial.start(working)
    for one in (engine, other, engine):
        one.sweep(trial.is_working)
    equal([ticket.session for ticket in trial.offered(other)], [waiting], "the queued session is offered")
    require(trial.is_working(working), "the running session keeps running")


def workers_may_prepare_concurrently(trial: EngineTrial) -> None:
    """Any number of workers may prepare at the same time."""
    errors: list[BaseException] = []

    def prepare() -> None:
        engine = trial._make(trial.store)
        try:
            engine.prepare()
        except BaseException as error:
            errors.append(error)
        finally:
            engine.close()

    threads = [threading.Thread(target=prepare) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(errors, [], "none of them fails")
    session = trial.enqueue()
    equal([one.session for one in trial.offered(trial.engine())], [session], "and offers work")


CHECKS: tuple[EngineCheck, ...] = (
    queued_sessions_are_offered,
    only_requested_queues_are_offered,
    a_waiting_worker_is_woken,
    a_wake_time_is_respected,
    a_requeued_session_is_offered_again,
    a_lost_hint_is_repeated,
    sessions_that_left_the_queue_are_not_offered,
    closing_a_ticket_is_idempotent,
    a_postponed_session_is_offered_again,
    a_sweep_ignores_running_sessions,
    workers_may_prepare_concurrently,
)


def run(make_store: MakeStore, make_engine: MakeEngine) -> Report:
    """Run every check; a failure ends its check, not the run."""
    return report_of(CHECKS, lambda check: try_one(check, make_store, make_engine))


def try_one(check: EngineCheck, make_store: MakeStore, make_engine: MakeEngine) -> None:
    """Run one check on a new store."""
    trial = EngineTrial(make_store, make_engine)
    try:
        check(trial)
    finally:
        trial.close()


class EngineKit(ABC):
    """For pytest: a subclass whose name begins with `Test` has one test for every check."""

    @abstractmethod
    def make_store(self) -> Store:
        """A new, empty store on real clocks."""

    @abstractmethod
    def make_engine(self, store: Store) -> WorkEngine:
        """The engine of one worker on that store."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        add_tests(cls, CHECKS, lambda self, check: try_one(check, self.make_store, self.make_engine))
