"""Starting work for whoever asked over HTTP: never inside the server, always as `relight resume` would.

With a queue the session is put in line for a worker. Without one a supervisor process of its own is started, and the
answer comes when it owns the session. A failed start leaves the session as it was, no fork behind, and says why.
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
from relight.values.outcome import Outcome
from relight.values.pending import Wanted
from relight.values.policy import RunPolicy


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a start."""

    session: SessionInfo
    pid: int | None
    """of the supervisor; None: a worker will take it"""
    outcome: Outcome | None = None
    """None: it stands in a queue"""


class Starter:
    """Starts supervisors, and reaps those that end while the server lives."""

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
        """Go on with a session, or with a fork of the checkpoint. `rl`: the library, or as it was shown to who asks."""
        wanted = wanted or Wanted()
        if callback is not None:
            self._callbacks.check(callback)
        before = rl.get(ref)
        if queue is not None and (
            wanted != Wanted(prompt=wanted.prompt, limits=wanted.limits) or now or retries is not None
        ):
            wrong = "only a prompt and limits are kept in a queue: no other option of a start"
            raise UsageError(wrong, hints=["leave them out, or leave out the queue"])
        if queue is not None:
            started = Started(
                session=rl.enqueue(ref, queue=queue, prompt=wanted.prompt, limits=wanted.limits), pid=None
            )
        else:
            started = self._kept(start_in_background(rl, ref, wanted, now=now, retries=retries))
        if callback is not None:
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
        """Begin a session and start its program; the session goes again where it does not start."""
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
        started = self._kept(start_in_background(self._rl, pending, Wanted(prompt=prompt)))
        if callback is not None:
            self._callbacks.add(started.session.id, callback, after_seq=0)
        return started

    def reap(self) -> None:
        """Children that have ended leave no entry in the process table."""
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]

    def leave(self) -> None:
        """The server ends, and they live on."""
        with self._lock:
            for child in self._children:
                child.returncode = child.poll() or 0
            self._children.clear()

    def _kept(self, begun: BackgroundStart) -> Started:
        with self._lock:
            self._children.append(begun.child)
        return Started(session=begun.session, pid=begun.pid, outcome=begun.outcome)
