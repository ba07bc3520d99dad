"""The conformance kit of the port `engine`: what every engine that wakes workers must do, as plain checks.

    class TestMyEngine(EngineKit):
        def make_store(self): ...
        def make_engine(self, store): ...

is all that pytest needs. Each check gets a new, empty store on real clocks, and as many engines on it as it wants: one
for each worker. Without pytest: `run(make_store, make_engine)` gives a report.

An engine only hints, so little is promised: whoever stands in line is offered, soon; who does not is not, or the claim
would be refused; nothing that a dead worker left keeps a session from being offered again.
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
from relight.testing.promises import Report, add_tests, report_of
from relight.testing.store_checks.trial import equal, require
from relight.values.lease import Owner
from relight.values.queues import QueueKey, QueuePosition
from relight.values.session import Head, Identity
from relight.values.status import StatusChange
from relight.values.step import Claim, Draft

SOON_SECONDS: Final = 15.0
"""within which a hint must arrive, also where a notification was lost"""
A: Final = QueueKey("a")
MakeStore = Callable[[], Store]
MakeEngine = Callable[[Store], WorkEngine]


class EngineTrial:
    """One check's own world."""

    def __init__(self, make_store: MakeStore, make_engine: MakeEngine) -> None:
        self.store = make_store()
        self._make = make_engine
        self._engines: list[WorkEngine] = []
        self._clock, self._entropy = SystemClock(), SystemEntropy()

    def engine(self) -> WorkEngine:
        """One more worker's side."""
        made = self._make(self.store)
        self._engines.append(made)
        made.prepare()
        return made

    def close(self) -> None:
        for engine in self._engines:
            engine.close()
        self.store.close()

    def standing(self, line: QueueKey = A, *, priority: int = 0, in_seconds: float | None = None) -> str:
        """A new session in line."""
        now_us = self._clock.now_us()
        place = QueuePosition(queue=line.queue, wants=line.wants, priority=priority, since_us=now_us)
        identity = Identity(id=self._entropy.session_id(), created_us=now_us, place=place)
        wake_us = now_us + round(in_seconds * 1e6) if in_seconds is not None else None
        self.store.create(identity, Head(session=identity.id, place=place, wake_us=wake_us))
        return identity.id

    def start(self, session: str) -> None:
        """It is claimed and at work."""
        self._write(session, StatusChange(status="working"), release=False)

    def put_back(self, session: str, status: Any = "queued") -> None:
        """It is given back, whoever had it."""
        self._write(session, StatusChange(status=status), release=True)

    def _write(self, session: str, change: StatusChange, *, release: bool) -> None:
        head = self.head(session)
        owner = Owner(id=self._entropy.session_id())
        claim = Claim(owner=owner, seconds=60.0, expected_epoch=head.epoch, owner_gone=True)
        key = self._entropy.key()
        draft = Draft(kind="status", body=b"", key=key, claim=claim, release=release, status=change)
        self.store.commit(session, draft)

    def head(self, session: str) -> Head:
        record = self.store.find(session)
        assert record is not None and record.head is not None
        return record.head

    def is_at_work(self, session: str) -> bool:
        return self.head(session).status == "working"

    def offered(
        self, engine: WorkEngine, *lines: QueueKey, limit: int = 10, seconds: float = SOON_SECONDS
    ) -> list[Ticket]:
        """What it offers, once it offers something; nothing where it never does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = engine.take(list(lines or (A,)), limit)
            if found:
                return found
            engine.wait(0.05)
        return []

    def never(self, engine: WorkEngine, session: str, *lines: QueueKey, seconds: float = 0.2) -> None:
        """This session is not offered for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = [ticket.session for ticket in engine.take(list(lines or (A,)), 10)]
            require(session not in found, "it is not offered")
            engine.wait(0.05)


class EngineCheck(Protocol):
    """One promise; its docstring says it in words."""

    __name__: str

    def __call__(self, trial: EngineTrial) -> None: ...


def who_stands_in_line_is_offered(trial: EngineTrial) -> None:
    """Sessions put in line before and after the engine was made are offered, by priority and age."""
    before = trial.standing()
    engine = trial.engine()
    after, first = trial.standing(), trial.standing(priority=9)
    found = [ticket.session for ticket in trial.offered(engine)]
    equal(found, [first, before, after], "all of them, the first first")


def only_lines_that_were_asked_for_are_offered(trial: EngineTrial) -> None:
    """A worker is offered what fits it, and nothing else; the line is named."""
    engine = trial.engine()
    wanted = QueueKey("a", ("eu", "gpu"))
    long = QueueKey("q" * 90, ("x" * 90,))
    other, fits, far = trial.standing(QueueKey("b")), trial.standing(wanted), trial.standing(long)
    found = trial.offered(engine, wanted)
    equal([(one.session, one.line) for one in found], [(fits, wanted)], "the one that fits")
    trial.never(engine, other, wanted)
    found = trial.offered(engine, long)
    equal([(one.session, one.line) for one in found], [(far, long)], "names of any length")


def a_worker_that_waits_is_woken(trial: EngineTrial) -> None:
    """`wait` ends when something is put in line, by whoever."""
    engine = trial.engine()
    engine.take([A], 1)
    timer = threading.Timer(0.1, trial.standing)
    timer.start()
    end = time.monotonic() + SOON_SECONDS
    while not engine.wait(0.05) and time.monotonic() < end:
        pass
    timer.join()
    require(trial.offered(engine), "it is offered")


def a_time_to_wake_is_kept(trial: EngineTrial) -> None:
    """Not before its time, and soon after it."""
    engine = trial.engine()
    later = trial.standing(in_seconds=0.6)
    trial.never(engine, later)
    equal([one.session for one in trial.offered(engine)], [later], "its time has come")


def a_session_that_is_put_back_is_offered_again(trial: EngineTrial) -> None:
    """A new hint for every time it is put in line: to the same worker, and to another where the first one died."""
    engine, other = trial.engine(), trial.engine()
    session = trial.standing()
    (ticket,) = trial.offered(engine)
    trial.start(session)
    engine.close_ticket(ticket)
    trial.never(engine, session)
    trial.put_back(session)
    (again,) = trial.offered(engine)
    equal(again.session, session, "again")
    trial.start(session)  # and its worker dies with the ticket in its hand
    trial.put_back(session)
    equal([one.session for one in trial.offered(other)], [session], "to another")


def a_hint_that_was_lost_is_made_up_for(trial: EngineTrial) -> None:
    """A ticket whose worker did nothing with it does not keep the session from being offered."""
    engine, other = trial.engine(), trial.engine()
    session = trial.standing()
    equal([one.session for one in trial.offered(engine)], [session], "to the first, who then sleeps")
    equal([one.session for one in trial.offered(other)], [session], "to another")


def who_left_the_line_is_not_offered(trial: EngineTrial) -> None:
    """Cancelled, deleted or taken by somebody else: no hint that a claim would be refused for."""
    engine = trial.engine()
    gone, cancelled, taken = trial.standing(), trial.standing(), trial.standing()
    trial.store.delete([gone])
    trial.put_back(cancelled, "terminated")
    trial.start(taken)
    for session in (gone, cancelled, taken):
        trial.never(engine, session)


def tickets_are_closed_without_harm(trial: EngineTrial) -> None:
    """Closing twice, or what somebody else closed, does nothing."""
    engine = trial.engine()
    trial.standing()
    (ticket,) = trial.offered(engine)
    engine.close_ticket(ticket)
    engine.close_ticket(ticket)
    engine.close_ticket(Ticket(session="never there", line=A, row=999_999_999 if ticket.row is not None else None))


def what_is_put_off_comes_back(trial: EngineTrial) -> None:
    """Where its queue is full a session is offered again, not at once, and not never."""
    engine = trial.engine()
    session = trial.standing()
    (ticket,) = trial.offered(engine)
    engine.postpone(ticket, 0.6)
    trial.never(engine, session)
    equal([one.session for one in trial.offered(engine)], [session], "it comes back")


def a_sweep_leaves_alone_what_is_at_work(trial: EngineTrial) -> None:
    """Sweeping by many, at any time, costs nobody a hint and no session its place."""
    engine, other = trial.engine(), trial.engine()
    working, waiting = trial.standing(), trial.standing()
    trial.start(working)
    for one in (engine, other, engine):
        one.sweep(trial.is_at_work)
    equal([ticket.session for ticket in trial.offered(other)], [waiting], "who stands in line is offered")
    require(trial.is_at_work(working), "who works goes on")


def many_may_prepare_at_once(trial: EngineTrial) -> None:
    """Any number of workers may start at the same moment."""
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
    session = trial.standing()
    equal([one.session for one in trial.offered(trial.engine())], [session], "and it works")


CHECKS: tuple[EngineCheck, ...] = (
    who_stands_in_line_is_offered,
    only_lines_that_were_asked_for_are_offered,
    a_worker_that_waits_is_woken,
    a_time_to_wake_is_kept,
    a_session_that_is_put_back_is_offered_again,
    a_hint_that_was_lost_is_made_up_for,
    who_left_the_line_is_not_offered,
    tickets_are_closed_without_harm,
    what_is_put_off_comes_back,
    a_sweep_leaves_alone_what_is_at_work,
    many_may_prepare_at_once,
)


def run(make_store: MakeStore, make_engine: MakeEngine) -> Report:
    """Every check; a broken promise ends its check, not the run."""
    return report_of(CHECKS, lambda check: try_one(check, make_store, make_engine))


def try_one(check: EngineCheck, make_store: MakeStore, make_engine: MakeEngine) -> None:
    """One check in a world of its own."""
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
        """One worker's side of the engine on that store."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        add_tests(cls, CHECKS, lambda self, check: try_one(check, self.make_store, self.make_engine))
