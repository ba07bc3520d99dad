"""The verbs for queues and workers: submit and enqueue sessions, set limits, list workers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from relight.errors import NotResumable, Refused, StoreError, UsageError
from relight.history.loading import resolve
from relight.library.lazy_module import LazyModule
from relight.library.reading import Reading
from relight.sessions import limits as limiting
from relight.values.info import SessionInfo
from relight.values.options import ResumeOptions, RunOptions
from relight.values.policy import NO_ALLOWANCE, Allowance, RunPolicy
from relight.values.queues import DEFAULT_QUEUE, Queue

if TYPE_CHECKING:
    from relight.fleet import queues as queueing
    from relight.history import fork
    from relight.supervision import agent as supervise_agent
    from relight.supervision import launch, program, watcher
else:
    fork, launch, queueing = map(
        LazyModule, ("relight.history.fork", "relight.supervision.launch", "relight.fleet.queues")
    )
    program, supervise_agent, watcher = map(
        LazyModule, ("relight.supervision.program", "relight.supervision.agent", "relight.supervision.watcher")
    )


class Queueing(Reading):
    """An open store with the verbs for queues; base of `Relight`."""

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
    ) -> SessionInfo:
        """Create a session for a worker; it is queued from the commit that creates it. Nothing is started here.

        `wants`: labels that the worker must have; `not_before`: a time, or seconds from now. Without a command, `agent`
        is one that relight knows how to prompt (claude, codex), and `prompt` is its prompt.
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
        )
        queue_position = queueing.position_for(context, queue, priority=priority, wants=wants)
        wake_us = queueing.not_before_us(context, not_before)
        made = queueing.submit(
            context, command, options, prompt=prompt, queue_position=queue_position, not_before_us=wake_us
        )
        return self.get(made.id)

    def enqueue(
        self,
        ref: str,
        *,
        queue: str = DEFAULT_QUEUE,
        prompt: str | None = None,
        priority: int = 0,
        wants: Sequence[str] = (),
        not_before: datetime | float | None = None,
        limits: Allowance = NO_ALLOWANCE,
    ) -> SessionInfo:
        """Queue a stopped session for a worker; before the head, a fork. Refused while it is owned."""
        context, found = self._context, resolve(self._context.store, ref)
        queue_position = queueing.position_for(context, queue, priority=priority, wants=wants)
        # Before the fork below: a refusal must not leave a new session behind.
        queueing.refuse_unstartable(found.identity)
        limiting.refuse(context, found, limits)
        if found.seq is not None and found.seq != found.whole_head().head:
            made = fork.fork(context, found)
            found = resolve(context.store, made.id)
        wake_us = queueing.not_before_us(context, not_before)
        queueing.enqueue(context, found, queue_position, prompt=prompt, wake_us=wake_us, limits=limits)
        return self.get(found.identity.id)

    def attend(self, session: str, *, worker: str, owner: str | None, retries: int | None) -> program.Supervision:
        """For a worker's own process: a supervision that takes over the lease held under `owner` or, without one,
        first restores the session's workspace on this machine."""
        context, found = self._context, resolve(self._context.store, session)
        handover = watcher.Handover(worker=worker, owner=owner)
        options = ResumeOptions(retries=retries, restore=owner is None)
        made: program.Supervision
        if context.agent(found.identity).capabilities.transcript:
            made = supervise_agent.AgentSupervision(context, found.identity.id, options, handover=handover)
        else:
            made = program.Supervision(context, found.identity.id, options, handover=handover)
        try:
            launch.check_startable(context, found, options)
        # An unavailable store says nothing about the session. Recording a refusal would fail a session that another
        # worker can start.
        except StoreError:
            raise
        except (NotResumable, Refused, UsageError) as error:
            made.refuse(error, limiting.used_up(context, found, found.identity.policy))
            raise
        if options.restore:
            launch.bring_back(context, found)
        return made

    # -- queues and workers -----------------------------------------------------------------------------------

    def queues(self) -> list[queueing.QueueInfo]:
        """Queues that have settings, sessions or workers."""
        return queueing.queues(self._context)

    def set_queue(
        self, name: str, *, concurrency: int | None = None, rate: str | None = None, retries: int | None = None
    ) -> Queue:
        """Set the limits of a queue, for all workers from their next claim on. None leaves a limit as it is."""
        return queueing.set_queue(self._context, name, concurrency=concurrency, rate=rate, retries=retries)

    def forget_queue(self, name: str) -> None:
        """Remove the limits of a queue; its sessions stay queued."""
        queueing.forget_queue(self._context, name)

    def workers(self) -> list[queueing.WorkerInfo]:
        """Workers that have not deregistered, including silent ones."""
        return queueing.workers(self._context)
