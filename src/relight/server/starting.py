"""Starts and resumes sessions for HTTP requests; never inside the server, always as `relight resume` would.

With a queue the session is enqueued for a worker. Without one a supervisor process is started, and the request is
answered when it owns the session. A failed start leaves the session unchanged and no fork behind.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from relight.errors import UsageError
from relight.library.facade import Relight
from relight.processes.background import BackgroundStart, start_in_background
from relight.server.jobs.callbacks import Callbacks
from relight.values.info import SessionInfo
from relight.values.outcome import StartOutcome
from relight.values.pending import Wanted
from relight.values.policy import RunPolicy


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
        wanted: Wanted | None = None,
        *,
        callback: str | None = None,
        queue: str | None = None,
        now: bool = False,
        retries: int | None = None,
    ) -> Started:
        """Resume a session, or a fork of a checkpoint. `rl`: the library, pinned to a plan hash if there is one."""
        wanted = wanted or Wanted()
        if callback is not None:
            self._callbacks.check(callback)
        before = rl.get(ref)
        if queue is not None and (
            wanted != Wanted(prompt=wanted.prompt, limits=wanted.limits) or now or retries is not None
        ):
            wrong = "a queued start takes only a prompt and limits, no other options"
            raise UsageError(wrong, hints=["leave out the other options, or the queue"])
        if queue is not None:
            started = Started(
                session=rl.enqueue(ref, queue=queue, prompt=wanted.prompt, limits=wanted.limits), pid=None
            )
        else:
            started = self._track(start_in_background(rl, ref, wanted, now=now, retries=retries))
        if callback is not None:
            # Not from the newest seq: the supervisor may have failed already, and that must be reported too.
            forked = started.session.id != before.id
            after = int((started.session.parent or "@0").rpartition("@")[2]) if forked else before.seq
            self._callbacks.add(started.session.id, callback, after_seq=after)
        return started

    def start(
        self,
        command: Sequence[str],
        *,
        directory: str | None,
        name: str | None,
        workspace: Mapping[str, str],
        labels: Mapping[str, str],
        runtime: str,
        policy: RunPolicy,
        agent: str,
        env: Mapping[str, str],
        secrets: Sequence[str],
        queue: str | None,
        prompt: str | None,
        callback: str | None,
    ) -> Started:
        """Create a session and start its program. If the program cannot be started, the session is removed again."""
        if callback is not None:
            self._callbacks.check(callback)
        where = directory or next(iter(workspace.values()), None) or os.getcwd()
        if not os.path.isdir(where):
            raise UsageError(f"no such directory: {where[:200]}")
        fields: dict[str, Any] = {"name": name, "runtime": runtime, "workspace": dict(workspace), "policy": policy}
        fields |= {"env": env, "secrets": secrets}
        if queue is not None:
            info = self._rl.submit(
                list(command), agent=agent, prompt=prompt, directory=where, labels=dict(labels), queue=queue, **fields
            )
            if callback is not None:
                self._callbacks.add(info.id, callback, after_seq=0)
            return Started(session=info, pid=None)
        pending = self._rl.plan_launch(list(command), directory=where, agent=agent, labels=dict(labels), **fields)
        started = self._track(start_in_background(self._rl, pending, Wanted(prompt=prompt)))
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
