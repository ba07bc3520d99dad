"""`Relight`: an open store. What can be done with it is under six nouns, each in a module of its own beside this one.

Nouns and use cases are imported when first used, so that a command that only lists does not wait for the others.
"""

from __future__ import annotations

from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from relight.history.loading import resolve
from relight.ports.store import Store
from relight.sessions import opening
from relight.sessions.context import Context
from relight.sessions.entry.options import SessionOptions
from relight.sessions.redacting_store import bare
from relight.system.lazy_module import LazyModule

if TYPE_CHECKING:
    from relight.library.admin import Admin
    from relight.library.files import Files
    from relight.library.history import History
    from relight.library.queues import Queues
    from relight.library.runs import Runs
    from relight.library.sessions import Sessions
    from relight.operations import pinned
    from relight.sessions import coroutines
    from relight.sessions.entry import open_session as entering
    from relight.sessions.session import Session
else:
    entering, pinned = map(LazyModule, ("relight.sessions.entry.open_session", "relight.operations.pinned"))
    coroutines = LazyModule("relight.sessions.coroutines")


class Relight:
    """An open store: `session` opens one, the nouns have all other verbs. A context manager; or call `close`."""

    def __init__(self, context: Context, *, unpinned: Relight | None = None) -> None:
        self._context = context
        self._unpinned = unpinned

    @cached_property
    def sessions(self) -> Sessions:
        """Which sessions there are; archive and remove them."""
        from relight.library.sessions import Sessions

        return Sessions(self._context)

    @cached_property
    def history(self) -> History:
        """What a session did; forks, rewinds, undo, bundles."""
        from relight.library.history import History

        return History(self._context)

    @cached_property
    def files(self) -> Files:
        """The files that sessions captured."""
        from relight.library.files import Files

        return Files(self._context)

    @cached_property
    def runs(self) -> Runs:
        """Programs and coding agents under supervision."""
        from relight.library.runs import Runs

        return Runs(self._context)

    @cached_property
    def queues(self) -> Queues:
        """Sessions that workers take."""
        from relight.library.queues import Queues

        return Queues(self._context)

    @cached_property
    def admin(self) -> Admin:
        """Care of the store: sweeps, backups, health."""
        from relight.library.admin import Admin

        return Admin(self._context)

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

    def pinned(self, ref: str, plan: str) -> Relight:
        """The same verbs on a session pinned to a plan hash: the first one that changes the session does so in the
        state of that plan, or raises PlanMoved. `unpinned` returns to the store."""
        return Relight(pinned.pin(self._context, resolve(self._context.store, ref), plan), unpinned=self)

    @property
    def unpinned(self) -> Relight:
        """The unpinned store behind `pinned`."""
        return self._unpinned or self

    def session(
        self,
        name: str,
        *,
        wait: float | None = None,
        resume: bool = True,
        parent: Session | str | None = None,
        **options: Unpack[SessionOptions],
    ) -> Session:
        """Open a session by name or ref: new, or exactly where it stopped. While another process holds it, it is tried
        again for up to `wait` seconds; then, or without `wait`, LeaseHeld. `resume=False` begins a new one under the
        name. `parent`: the session whose child it is.

        For an existing session the options say how it continues; a different `key` or `agent` is refused. When a limit
        (`budget`, `budget_tokens`, `time_limit`) is reached, the session is halted before its next model call.
        """
        return coroutines.drive(self._opening(name, wait, resume, parent, options), self._context.clock)

    def _opening(
        self, name: str, wait: float | None, resume: bool, parent: Session | str | None, options: SessionOptions
    ) -> coroutines.Program[Session]:
        """The program of `session`, for both forms."""

        def make(left: float) -> Session:
            from relight.sessions.session import writer_of

            made = entering.open_session(self._context, name, resume=resume, parent=parent, **options)
            writer_of(made).wait_seconds = left
            return made

        return opening.opened_within(self._context, wait, make)


def context_of(rl: Relight) -> Context:
    """The ports of an open store, for the adapters of this package that record in formats of their own."""
    return rl._context
