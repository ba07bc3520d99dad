"""The heartbeat: one thread that renews the leases of all open sessions. It proves that the process lives, not that the
agent makes progress.

It knows nothing of sessions: what has a lease (a recorder, or the run of a framework) says when its next beat is due.
A commit renews a lease too, so a busy session needs no extra renewal.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from typing import Final, Protocol

from relight.system.fork_handlers import reset_after_fork

BEATS_A_LEASE: Final = 3
MAX_PAUSE_SECONDS: Final = 10.0
MAX_CLAIMS: Final = 1000
"""claims that are remembered without a holder: older leases have expired"""


class LeaseHolder(Protocol):
    """What has a lease to renew. Both methods are called by the heartbeat's thread."""

    def beat_seconds(self) -> float | None:
        """At most so many seconds between two beats; None: there is no lease at present."""
        ...

    def beat(self) -> None:
        """Renew the lease. An error is remembered or ignored, never raised: the leases of other sessions are still
        renewed."""
        ...


class Claims:
    """Which object holds each lease that this process has claimed for a session it opened in this store.

    Not here: the claims of a worker, which hands its leases over to other processes. A claim has an owner id of its
    own. If its holder is gone (interrupted before it could release, or dropped by the program), nothing in this process
    can write under it any more, and the session can be claimed again at once.
    """

    def __init__(self) -> None:
        self._holders: dict[str, Callable[[], object | None]] = {}

    def add(self, owner: str, holder: object) -> None:
        """Before the claim is committed."""
        if len(self._holders) >= MAX_CLAIMS:
            for other, held_by in list(self._holders.items()):
                if held_by() is None:
                    self._holders.pop(other, None)
        self._holders[owner] = weakref.ref(holder)

    def abandon(self, owner: str) -> None:
        """Its holder writes nothing any more, whether or not the release was written."""
        if owner in self._holders:
            self._holders[owner] = _nothing

    def is_abandoned(self, owner: str) -> bool:
        """Whether this process made the claim and nothing holds it any more."""
        held_by = self._holders.get(owner)
        return held_by is not None and held_by() is None


def _nothing() -> None:
    return None


class Heartbeat:
    """The renewal thread of one store; starts with the first session and ends with `stop`."""

    def __init__(self) -> None:
        self.claims = Claims()
        self._begin()
        self._stopped = False
        reset_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child no thread runs, and the leases are the parent's to renew."""
        self._begin()

    def _begin(self) -> None:
        self._holders: weakref.WeakSet[LeaseHolder] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        """in C, unlike `threading.Event`: a signal handler that raises in `set` would leave the event's lock taken"""
        self._thread: threading.Thread | None = None
        self._leaving: list[weakref.WeakMethod[Callable[[], None]]] = []

    def add(self, holder: LeaseHolder) -> None:
        """Renew its lease from now on."""
        with self._lock:
            self._holders.add(holder)
            # Without an ident its start was interrupted. Two threads would renew twice, which does no harm.
            if (self._thread is None or self._thread.ident is None) and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="relight-heartbeat", daemon=True)
                self._thread.start()
        self._wake.put(None)

    def remove(self, holder: LeaseHolder) -> None:
        """Stop renewing: the lease was released."""
        with self._lock:
            self._holders.discard(holder)

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
        self._wake.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopped:
            pause = min((seconds for _, seconds in self._due()), default=MAX_PAUSE_SECONDS)
            try:
                self._wake.get(timeout=pause)
            except queue.Empty:
                for holder, _ in self._due():
                    holder.beat()

    def _due(self) -> list[tuple[LeaseHolder, float]]:
        """Those that have a lease, with the longest pause that each allows."""
        with self._lock:
            holders = [(one, one.beat_seconds()) for one in self._holders]
        return [(one, seconds) for one, seconds in holders if seconds is not None]
