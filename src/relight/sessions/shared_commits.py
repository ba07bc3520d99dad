"""One thread that commits the steps of many sessions together.

`SharedCommits` runs commit programs (recorder.py) of tasks of an event loop: one thread advances the programs of
all that wait, commits their steps in one transaction, and then answers all of them (docs/decisions/0068). A thread for
each would compete with the others for the interpreter lock.

A program holds its session's lock while its step is committed. The shared thread never waits for such a lock: its owner
may be waiting for one that this thread holds. Such a call is run alone, in a thread that may wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from threading import Lock, RLock
from typing import Any, Final, TypeAlias

from relight.ports.store import SharingStore, Store
from relight.sessions.recorder import CommitProgram, driven
from relight.system.threads.calls import Arrivals, Call
from relight.values.step import Committed, Draft

Submit: TypeAlias = Callable[[Callable[[], object]], None]
"""runs a function in a thread of a pool"""
MAX_SHARED: Final = 128
"""calls in one transaction; each of them waits for the work of all"""


class SharedCall(Call[Any]):
    """A program on its way through the shared thread."""

    __slots__ = ("_context", "lock", "program", "step")

    def __init__(self, program: CommitProgram[Any], lock: RLock, arrivals: Arrivals) -> None:
        super().__init__(arrivals)
        self.program = program
        self.lock = lock
        """of its session"""
        self.step: tuple[str, Draft] | None = None
        """what it wants committed; None once it has ended"""
        self._context = copy_context()

    def advance(self, how: Callable[..., tuple[str, Draft]], value: object) -> None:
        """Run it up to its next step, or to its end."""
        self.step = None
        try:
            self.step = self._context.run(how, value)
        except StopIteration as end:
            self.result = end.value
        except BaseException as error:
            self.error = error

    def finish(self, committed: Committed | BaseException, store: SharingStore) -> None:
        """Run it to its end, from the answer to its step."""
        while self.step is not None:
            if isinstance(committed, BaseException):
                self.advance(self.program.throw, committed)
            else:
                self.advance(self.program.send, committed)
            if self.step is not None:
                [committed] = _committed(store, [self])

    def alone(self, store: Store) -> None:
        """Run it in this thread, which may wait for its session's lock."""
        self.settle(partial(self._context.run, driven, self.program, store))

    def answer(self) -> Callable[[], None]:
        """Give its session back, and end; returns what wakes its caller."""
        self.lock.release()
        return self.end()


class SharedCommits:
    """The calls of one store that wait for a thread. Each transaction is done by a thread of a pool: while it waits for
    the disk, the next one runs the programs of those that have come since, and takes the last of them at its turn."""

    def __init__(self) -> None:
        self._waiting: deque[SharedCall] = deque()
        self._turn = Lock()
        """held by the thread whose steps are being committed"""
        self._is_expected = False
        """a thread will look at the queue"""

    def add(self, call: SharedCall, store: SharingStore, submit: Submit) -> None:
        """Have it run. From any thread."""
        # In this order, and the opposite one in `_commit`: a call that relies on a thread is seen by it.
        self._waiting.append(call)
        if not self._is_expected:
            try:
                self._expect(store, submit)
            except BaseException:
                call.cancel()
                raise

    def _expect(self, store: SharingStore, submit: Submit) -> None:
        try:
            self._is_expected = True
            submit(partial(self._commit, store, submit))
        except BaseException:
            # Ctrl-C, or the process ends: the next call must not rely on a thread that may not exist. If it does, there
            # are two, which is safe.
            self._is_expected = False
            raise

    def _commit(self, store: SharingStore, submit: Submit) -> None:
        """Run the programs of those that wait, and commit their steps together."""
        calls: list[SharedCall] = []
        self._begin(calls, store, submit)
        with self._turn:
            self._is_expected = False
            self._begin(calls, store, submit)
            if self._waiting:  # more than fit
                self._go_on(store, submit)
            waiting = [call for call in calls if call.step is not None]
            answers = _committed(store, waiting)
        for call, committed in zip(waiting, answers, strict=True):
            call.finish(committed, store)
        # A loop that is woken takes the interpreter lock at once: it is woken when all are answered.
        for wake in {call.answer() for call in calls}:
            wake()

    def _go_on(self, store: SharingStore, submit: Submit) -> None:
        try:
            self._expect(store, submit)
        except RuntimeError as error:  # the process ends
            while self._waiting:
                _refuse(self._waiting.popleft(), error)

    def _begin(self, calls: list[SharedCall], store: SharingStore, submit: Submit) -> None:
        """Add those in front, each run up to its step. Where the session's lock is held, by an earlier call too, the
        call is run alone."""
        locked = {id(call.lock) for call in calls}
        while len(calls) < MAX_SHARED:
            try:
                call = self._waiting.popleft()
            except IndexError:
                return
            if id(call.lock) in locked or not call.lock.acquire(blocking=False):
                try:
                    submit(partial(call.alone, store))
                except RuntimeError as error:
                    _refuse(call, error)
            elif call.claim():
                locked.add(id(call.lock))
                calls.append(call)
                call.advance(call.program.send, None)
            else:
                call.lock.release()


def _refuse(call: SharedCall, error: RuntimeError) -> None:
    def refuse() -> None:
        raise error

    call.settle(refuse)


def _committed(store: SharingStore, calls: Sequence[SharedCall]) -> Sequence[Committed | BaseException]:
    try:
        return store.commit_all([call.step for call in calls if call.step is not None])
    except BaseException as error:  # no answer of the store: each finds out what became of its step
        return [error] * len(calls)
