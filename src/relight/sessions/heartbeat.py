"""The heartbeat: one thread that renews the leases of all open sessions. It proves that the process lives, not that the
agent makes progress.

A commit renews its lease too, so a busy session needs no extra renewal. A renewal that finds the lease taken over marks
the recorder as lost; the writer would learn it at its next write in any case. If the store does not answer, the next
beat tries again: an expired lease that no other process claimed is still valid.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from relight.errors import LeaseLost, NotFound, RelightError
from relight.system.fork_handlers import reset_after_fork

if TYPE_CHECKING:
    from relight.sessions.recorder import Recorder

BEATS_A_LEASE: Final = 3
_MAX_PAUSE_SECONDS: Final = 10.0
_TIMED_PAUSE_SECONDS: Final = 1.0
"""with a time limit: the working time of a killed attempt is known up to its last renewal"""


class Heartbeat:
    """The renewal thread of one store; starts with the first session and ends with `stop`."""

    def __init__(self) -> None:
        self._begin()
        self._stopped = False
        reset_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child no thread runs, and the leases are the parent's to renew."""
        self._begin()

    def _begin(self) -> None:
        self._recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._leaving: list[weakref.WeakMethod[Callable[[], None]]] = []

    def add(self, recorder: Recorder) -> None:
        """Renew the lease of this recorder from now on."""
        with self._lock:
            self._recorders.add(recorder)
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="relight-heartbeat", daemon=True)
                self._thread.start()
        self._wake.set()

    def remove(self, recorder: Recorder) -> None:
        """Stop renewing: the lease was released."""
        with self._lock:
            self._recorders.discard(recorder)

    def before_stop(self, leave: Callable[[], None]) -> None:
        """Call this method before `stop`, while the store is still open, if its object still exists then."""
        with self._lock:
            self._leaving = [one for one in self._leaving if one() is not None]
            self._leaving.append(weakref.WeakMethod(leave))

    def stop(self) -> None:
        """End the thread; leases that are not released expire."""
        with self._lock:
            leaving, self._leaving = self._leaving, []
        for one in leaving:  # not under the lock: the callbacks call `remove`
            leave = one()
            if leave is not None:
                leave()
        # `add` starts the thread under the same lock. So a thread seen here has been started and can be joined, and
        # no other can follow.
        with self._lock:
            self._stopped = True
            thread = self._thread
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopped:
            recorders = self._owned()
            pause = min((_pause_seconds(one) for one in recorders), default=_MAX_PAUSE_SECONDS)
            self._wake.wait(pause)
            if self._wake.is_set():
                self._wake.clear()
                continue
            for recorder in self._owned():
                _beat(recorder)

    def _owned(self) -> list[Recorder]:
        with self._lock:
            return [one for one in self._recorders if one.owns]


def _pause_seconds(recorder: Recorder) -> float:
    lease = recorder.head.lease
    longest = _MAX_PAUSE_SECONDS if recorder.identity.policy.seconds is None else _TIMED_PAUSE_SECONDS
    return min(longest, lease.seconds / BEATS_A_LEASE) if lease is not None else longest


def _beat(recorder: Recorder) -> None:
    try:
        recorder.store.renew(recorder.identity.id, owner=recorder.owner, epoch=recorder.epoch)
    except (LeaseLost, NotFound) as error:
        if recorder.owns:
            recorder.lost = error
    except RelightError:
        return  # the store does not answer; the next beat tries again
