"""`Relight`: an open store. What can be done with it is under six nouns, each in a module of its own beside this one.

Use cases are imported when first called, so that a command that only lists does not wait for the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from relight.errors import Finished, WorkspaceUnusable
from relight.history.loading import Found, readable_head, resolve
from relight.journal.jsonable import check_text
from relight.journal.status import derived_status
from relight.library.admin import Admin
from relight.library.files import Files
from relight.library.history import History
from relight.library.lazy_module import LazyModule
from relight.library.queues import Queues
from relight.library.runs import Runs
from relight.library.sessions import Sessions
from relight.ports.store import Store
from relight.sessions import limits as limiting
from relight.sessions import opening
from relight.sessions.context import Context
from relight.sessions.redacting_store import bare
from relight.values.policy import RunPolicy
from relight.values.status import LIVE, headline

if TYPE_CHECKING:
    from relight.files import capture, repositories, workspace_check
    from relight.files import restore as restoring
    from relight.history import fork as forking
    from relight.operations import pinned
    from relight.sessions import pending_store as pending
    from relight.sessions import reopening, session
    from relight.sessions.recorder import Recorder
    from relight.sessions.session import Session
else:
    capture, repositories, workspace_check, restoring = map(
        LazyModule,
        (
            "relight.files.capture",
            "relight.files.repositories",
            "relight.files.workspace_check",
            "relight.files.restore",
        ),
    )
    forking, pinned, pending, reopening, session = map(
        LazyModule,
        (
            "relight.history.fork",
            "relight.operations.pinned",
            "relight.sessions.pending_store",
            "relight.sessions.reopening",
            "relight.sessions.session",
        ),
    )


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
    ) -> Session:
        """Open a session by name or ref: new, or exactly where it stopped. `resume=False` begins a new one under the
        name.

        For an existing session the options say how it continues; a different `key` or `agent` is refused. `budget` (US
        dollars), `budget_tokens` and `time_limit` (seconds of work) count over all attempts; when one is reached, the
        session is halted before its next model call. `redact`: its own data is redacted too, for good.
        """
        context = self._context
        fields = opening.checked_fields(
            labels=labels, metadata=metadata, agent=agent, provider=provider, model=model, task=task, key=key
        )
        given = opening.lease_seconds_of(context.environment) if lease_seconds is None else lease_seconds
        seconds = opening.checked_seconds(given)
        limits = limiting.allowance(budget=budget, budget_tokens=budget_tokens, time_limit=time_limit)
        check_text(name, "the name")
        found, owner = opening.take_inherited(context, name)
        handed = found is not None
        if found is None:
            found, context = self._existing(name)
        if found is None or (not resume and not handed):
            fields |= {"policy": limits.on(RunPolicy()), "redact": bool(redact), **opening.here()}
            identity = opening.new_identity(context, name, fields)
            limiting.check_priced(context, identity, None)
            identity = capture.fitted(context, identity, workspace, snapshot)
            if found is not None and found.identity.name == name:
                opening.release_name(context, found)
            found = opening.create(context, identity)
            taken = None
        else:
            opening.refuse_archived(found)
            opening.refuse_untrusted(found)
            fields |= opening.redaction_option(found, redact)
            asked = fields | {"policy": limiting.policy_with(context, found.identity, limits, model=model)}
            taken = reopening.take(context, found, asked, workspace, snapshot, handed=bool(handed))
            if found.head is not None and found.head.status != "completed":  # that one is opened to read
                limiting.check_priced(context, taken.found.identity, found.head, before=found.identity)
            found = taken.found
        return self._begun(context, found, seconds=seconds, owner=owner, taken=taken)

    def _begun(
        self, context: Context, found: Found, *, seconds: float, owner: str | None, taken: reopening.Taken | None
    ) -> Session:
        """Claim a session and begin an attempt; a completed one is opened for reading only."""
        recorder = opening.recorder_for(context, found)
        later = partial(self._files, found, taken)
        if recorder.head.status == "completed":
            reopening.record(context, taken)
            return session.Session(context, recorder, lease_seconds=seconds, open_files=later)
        try:
            with workspace_check.first_directories(context, found):
                note = taken.note if taken is not None else None
                made = self._opened(context, later, recorder, seconds, owner, note)
        except Finished:
            reopening.record(context, taken)  # its owner woke up and completed it
            return session.Session(context, recorder, lease_seconds=seconds, open_files=later)
        try:
            reopening.record(context, taken)
        except BaseException as error:
            made.__exit__(type(error), error, None)  # it is ours by now: the lease is given back with the reason
            raise
        return made

    def _opened(
        self,
        context: Context,
        open_files: Callable[[], capture.Files | None],
        recorder: Recorder,
        seconds: float,
        owner: str | None,
        note: dict[str, Any] | None,
    ) -> Session:
        """Open it with its attempt begun and its files watched."""
        # Before the claim: an unusable workspace must not cost an attempt.
        opened = open_files()
        try:
            made = session.Session(context, recorder, lease_seconds=seconds, files=opened)
            self._tell_continuation(made)
            session.writer_of(made).reopen(handed_over_by=owner, note=note)
        except BaseException:
            if opened is not None:
                opened.close()
            raise
        return made

    def _files(self, found: Found, taken: reopening.Taken | None) -> capture.Files | None:
        """The session's open workspaces; unusable ones and moved repositories are refused before any change."""
        if not found.identity.workspace:
            return None
        rows = restoring.rows_of(self._context, found)
        last = restoring.snapshots_at(rows, found.whole_head().head)
        if taken is not None and taken.before is not None and last:
            repositories.check_opening(self._context, found, before=taken.before, rows=rows)
        try:
            return capture.Files(self._context, found.identity, last)
        except WorkspaceUnusable as error:
            raise error if last else capture.never_captured(self._context, found.identity, error) from None

    def _existing(self, name: str) -> tuple[Found | None, Context]:
        """By id or name; `name@seq` before the head is a fork, which is created with its first attempt."""
        context = self._context
        if "@" not in name:
            return opening.find_existing(context, name), context
        found = resolve(context.store, name)
        if found.seq is None or found.seq == readable_head(context.store, found).head:
            return found, context
        opening.refuse_untrusted(found)
        fork = forking.plan_fork(context, found)
        return Found(identity=fork.identity, head=fork.head, seq=None), pending.with_pending(context, fork)

    def _tell_continuation(self, opened: Session) -> None:
        if not opened.is_new:
            head = session.writer_of(opened).recorder.head
            status, why = derived_status(head, opening.evidence_of(self._context, head))
            if status not in LIVE:
                ended = f"{status}: {headline(why)}" if why else status
                self._context.notify(f"{opened.name or opened.id} continues at @{head.head} ({ended}); is_new is False")
