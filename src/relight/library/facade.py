"""`Relight`: an open store. What can be done with it is under six nouns, each in a module of its own beside this one.

Use cases are imported when first called, so that a command that only lists does not wait for the others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from relight.history.loading import resolve
from relight.library.admin import Admin
from relight.library.files import Files
from relight.library.history import History
from relight.library.lazy_module import LazyModule
from relight.library.queues import Queues
from relight.library.runs import Runs
from relight.library.sessions import Sessions
from relight.ports.store import Store
from relight.sessions.context import Context
from relight.sessions.redacting_store import bare

if TYPE_CHECKING:
    from relight.operations import pinned
    from relight.sessions.entry import open_session as entering
    from relight.sessions.session import Session
else:
    entering, pinned = map(LazyModule, ("relight.sessions.entry.open_session", "relight.operations.pinned"))


class Relight:
    """An open store: `session` opens one, the nouns have all other verbs. A context manager; or call `close`."""

    def __init__(self, context: Context, *, plain: Relight | None = None) -> None:
        self._context = context
        self._plain = plain
        self.sessions = Sessions(context)
        """which sessions there are; archive and remove them"""
        self.history = History(context)
        """what a session did; forks, rewinds, undo, bundles"""
        self.files = Files(context)
        """captured files"""
        self.runs = Runs(context)
        """programs and coding agents under supervision"""
        self.queues = Queues(context)
        """sessions for workers"""
        self.admin = Admin(context)
        """care of the store"""

    def __repr__(self) -> str:
        return f"<relight store {self._context.store.info.location}>"

    @property
    def store(self) -> Store:
        """The underlying store, without the redacting wrapper."""
        return bare(self._context.store)

    def close(self) -> None:
        """Stop the heartbeat and close the store. Sessions still open are then found as if their process had ended.

        If a tool still runs in a thread, its session keeps its lease, and the store is closed when it ends.
        """
        # A tool in a thread cannot be stopped, and its outcome can only be recorded while the store is open.
        self._context.running_effects.when_idle(self._close)

    def _close(self) -> None:
        self._context.heartbeat.stop()
        self._context.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def as_shown(self, ref: str, plan: str) -> Relight:
        """The same verbs on a session as it was shown, by its plan hash: the first one that changes it does so in
        that state, or raises PlanMoved. `plain` returns to the unpinned store."""
        return Relight(pinned.as_shown(self._context, resolve(self._context.store, ref), plan), plain=self)

    @property
    def plain(self) -> Relight:
        """The unpinned store behind `as_shown`."""
        return self._plain or self

    def session(
        self,
        name: str,
        *,
        agent: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        task: str | None = None,
        key: str | None = None,
        labels: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        workspace: str | os.PathLike[str] | Mapping[str, str] | None = None,
        snapshot: str | float | None = None,
        lease_seconds: float | None = None,
        budget: float | None = None,
        budget_tokens: int | None = None,
        time_limit: float | None = None,
        resume: bool = True,
        redact: bool | None = None,
        parent: Session | str | None = None,
    ) -> Session:
        """Open a session by name or ref: new, or exactly where it stopped. `resume=False` begins a new one under the
        name.

        For an existing session the options say how it continues; a different `key` or `agent` is refused. `budget` (US
        dollars), `budget_tokens` and `time_limit` (seconds of work) count over all attempts; when one is reached, the
        session is halted before its next model call. `redact`: its own data is redacted too, for good. `parent`: the
        session whose child it is.
        """
        return entering.open_session(
            self._context,
            name,
            parent=parent,
            resume=resume,
            agent=agent,
            provider=provider,
            model=model,
            task=task,
            key=key,
            labels=labels,
            metadata=metadata,
            workspace=workspace,
            snapshot=snapshot,
            lease_seconds=lease_seconds,
            budget=budget,
            budget_tokens=budget_tokens,
            time_limit=time_limit,
            redact=redact,
        )
