"""`rl.queues`: sessions for workers: submitted and queued, the limits of queues, the workers."""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from relight.library.noun import Noun
from relight.sessions import limits as limiting
from relight.system.lazy_module import LazyModule
from relight.values.info import SessionInfo
from relight.values.options import RunOptions
from relight.values.policy import NO_ALLOWANCE, Allowance, RunPolicy
from relight.values.queues import DEFAULT_QUEUE, Queue

if TYPE_CHECKING:
    from relight.fleet import queues as queueing
    from relight.history import fork
else:
    fork, queueing = map(LazyModule, ("relight.history.fork", "relight.fleet.queues"))


class Queues(Noun):
    """The queues of a store, and the workers that take from them."""

    def submit(
        self,
        command: Sequence[str] | None = None,
        *,
        agent: str | None = None,
        prompt: str | None = None,
        name: str | None = None,
        directory: str | None = None,
        workspace: Mapping[str, str] | str | os.PathLike[str] | None = None,
        runtime: str = "process",
        labels: Mapping[str, str] | None = None,
        wants: Sequence[str] = (),
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        not_before: datetime | float | None = None,
        policy: RunPolicy | None = None,
        env: Mapping[str, str | None] | None = None,
        secrets: Sequence[str] | None = None,
        parent: str | None = None,
    ) -> SessionInfo:
        """Create a session for a worker; it is queued from the commit that creates it. Nothing is started here.

        `wants`: labels that the worker must have; `not_before`: a time, or seconds from now. Without a command, `agent`
        is one that relight knows how to prompt, and `prompt` is its prompt. `parent`: the session whose
        child it is; name it `PARENT.NAME`, and `s.join("NAME")` waits for it.
        """
        context = self._context
        roots = {"main": os.fspath(workspace)} if isinstance(workspace, str | os.PathLike) else workspace
        options = RunOptions(
            directory=os.path.abspath(directory or next(iter((roots or {}).values()), None) or os.getcwd()),
            agent=agent or "",
            name=name,
            runtime=runtime,
            workspace=roots,
            policy=policy or RunPolicy(),
            labels=labels,
            env=env,
            secrets=secrets,
            parent=parent,
        )
        queue_position = queueing.position_for(context, queue, priority=priority, wants=wants)
        wake_us = queueing.not_before_us(context, not_before)
        made = queueing.submit(
            context, command, options, prompt=prompt, queue_position=queue_position, not_before_us=wake_us
        )
        return self._info(made.id)

    def enqueue(
        self,
        ref: str,
        *,
        queue: str | None = None,
        prompt: str | None = None,
        priority: int = 0,
        wants: Sequence[str] = (),
        not_before: datetime | float | None = None,
        limits: Allowance = NO_ALLOWANCE,
    ) -> SessionInfo:
        """Queue a stopped session for a worker; before the head, a fork. Refused while it is owned. Without a queue: in
        the one it came from, else the default one."""
        context, found = self._context, self._found(ref)
        former = found.whole_head().queue_position
        own = former.queue if former is not None else DEFAULT_QUEUE
        queue_position = queueing.position_for(context, queue or own, priority=priority, wants=wants)
        # Before the fork below: a refusal must not leave a new session behind.
        queueing.refuse_unstartable(found.identity)
        limiting.refuse(context, found, limits)
        if found.seq is not None and found.seq != found.whole_head().head:
            made = fork.fork(context, found)
            found = self._found(made.id)
        wake_us = queueing.not_before_us(context, not_before)
        queueing.enqueue(context, found, queue_position, prompt=prompt, wake_us=wake_us, limits=limits)
        return self._info(found.identity.id)

    def list(self) -> builtins.list[queueing.QueueInfo]:
        """Queues that have settings, sessions or workers."""
        return queueing.queues(self._context)

    def set(
        self, name: str, *, concurrency: int | None = None, rate: str | None = None, retries: int | None = None
    ) -> Queue:
        """Set the limits of a queue, for all workers from their next claim on. None leaves a limit as it is."""
        return queueing.set_queue(self._context, name, concurrency=concurrency, rate=rate, retries=retries)

    def forget(self, name: str) -> None:
        """Remove the limits of a queue; its sessions stay queued."""
        queueing.forget_queue(self._context, name)

    def unserved(self) -> frozenset[str]:
        """Queues with sessions in line that no living worker takes."""
        return queueing.unserved(self._context)

    def workers(self) -> builtins.list[queueing.WorkerInfo]:
        """Workers that have not deregistered, including silent ones."""
        return queueing.workers(self._context)
