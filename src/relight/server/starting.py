"""Starts and resumes sessions for HTTP requests; never inside the server, always as `relight resume` would.

With a queue the session is enqueued for a worker. Without one a supervisor process is started, and the request is
answered when it owns the session. A failed start leaves the session unchanged and no fork behind.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Sequence

import msgspec

from relight.errors import UsageError
from relight.library.facade import Relight
from relight.processes.background import BackgroundStart, start_in_background
from relight.server.jobs.callbacks import Callbacks
from relight.values.info import SessionInfo
from relight.values.options import AS_IT_IS, ResumeOptions, RunOptions
from relight.values.outcome import StartOutcome


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was started or enqueued."""

    session: SessionInfo
    pid: int | None
    """of the supervisor; None: enqueued"""
    outcome: StartOutcome | None = None
    """None: enqueued"""


class Starter:
    """Starts supervisor processes, and reaps those that end while the server runs."""

    def __init__(self, rl: Relight, callbacks: Callbacks) -> None:
        self._rl, self._callbacks = rl, callbacks
        self._children: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()

    def resume(
        self,
        rl: Relight,
        ref: str,
        options: ResumeOptions = AS_IT_IS,
        *,
        callback: str | None = None,
        queue: str | None = None,
    ) -> Started:
        """Resume a session, or a fork of a checkpoint. `rl`: the library, pinned to a plan hash if there is one."""
        if callback is not None:
            self._callbacks.check(callback)
        before = rl.sessions.get(ref)
        if queue is not None and options != ResumeOptions(prompt=options.prompt, limits=options.limits):
            wrong = "a queued start takes only a prompt and limits, no other options"
            raise UsageError(wrong, hints=["leave out the other options, or the queue"])
        if queue is not None:
            started = Started(
                session=rl.queues.enqueue(ref, queue=queue, prompt=options.prompt, limits=options.limits), pid=None
            )
        else:
            started = self._track(start_in_background(rl, ref, options))
        if callback is not None:
            # Not from the newest seq: the supervisor may have failed already, and that must be reported too.
            forked = started.session.id != before.id
            after = int((started.session.parent or "@0").rpartition("@")[2]) if forked else before.seq
            self._callbacks.add(started.session.id, callback, after_seq=after)
        return started

    def start(
        self,
        command: Sequence[str],
        options: RunOptions,
        *,
        queue: str | None,
        prompt: str | None,
        callback: str | None,
    ) -> Started:
        """Create a session and start its program. If the program cannot be started, the session is removed again."""
        if callback is not None:
            self._callbacks.check(callback)
        if not os.path.isdir(options.directory):
            raise UsageError(f"no such directory: {options.directory[:200]}")
        if queue is not None:
            info = self._rl.queues.submit(list(command), prompt=prompt, queue=queue, **msgspec.structs.asdict(options))
            if callback is not None:
                self._callbacks.add(info.id, callback, after_seq=0)
            return Started(session=info, pid=None)
        pending = self._rl.runs.plan_launch(list(command), options)
        started = self._track(start_in_background(self._rl, pending, ResumeOptions(prompt=prompt)))
        if callback is not None:
            self._callbacks.add(started.session.id, callback, after_seq=0)
        return started

    def reap(self) -> None:
        """Wait for children that have ended, so that none stays a zombie."""
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]

    def detach(self) -> None:
        """Forget the children: supervisors outlive the server."""
        with self._lock:
            for child in self._children:
                # A return code stops Popen's destructor from warning that the child is still running.
                child.returncode = child.poll() or 0
            self._children.clear()

    def _track(self, begun: BackgroundStart) -> Started:
        with self._lock:
            self._children.append(begun.child)
        return Started(session=begun.session, pid=begun.pid, outcome=begun.outcome)
