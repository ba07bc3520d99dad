"""`Relight`: everything a program, the command line or the server can do with a store, one method per verb.

Methods that only read are in reading.py, those for queues in queues.py. Use cases are imported when first called, so
that a command that only lists does not wait for the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relight.errors import Finished, UsageError, WorkspaceUnusable
from relight.history.loading import Found, readable_head, resolve
from relight.journal.jsonable import check_text
from relight.journal.status import derived_status
from relight.library.lazy_module import LazyModule
from relight.library.queues import Queueing
from relight.library.reading import Loaded
from relight.sessions import limits as limiting
from relight.sessions import opening
from relight.values.checkpoint import Checkpoint
from relight.values.info import SessionInfo
from relight.values.options import AS_IT_IS, ResumeOptions, RunOptions
from relight.values.outcome import Resumed, resumed
from relight.values.policy import Policy, Retention, RunPolicy
from relight.values.ref import check_label
from relight.values.session import Head, Pending
from relight.values.snapshot import Choice
from relight.values.status import LIVE, headline

if TYPE_CHECKING:
    from relight.bundles import export, import_
    from relight.files import capture as files
    from relight.files import repositories, workspace_check
    from relight.files import restore as restoring
    from relight.files.operation import FilesReport
    from relight.history import fork as forking
    from relight.history import repair
    from relight.operations import operator, pinned, remove, retention
    from relight.sessions import pending_store as pending
    from relight.sessions import reopening, session, shared
    from relight.sessions.context import Context
    from relight.sessions.recorder import Recorder
    from relight.sessions.session import Session
    from relight.supervision import adopt as adopting
    from relight.supervision import agent as supervise_agent
    from relight.supervision import approvals, first_start, start
    from relight.supervision import launch as launching
    from relight.supervision import program as supervise
    from relight.supervision import stop as stopping
else:
    adopting, approvals, first_start, export = map(
        LazyModule,
        (
            "relight.supervision.adopt",
            "relight.supervision.approvals",
            "relight.supervision.first_start",
            "relight.bundles.export",
        ),
    )
    files, operator, repair, restoring = map(
        LazyModule,
        ("relight.files.capture", "relight.operations.operator", "relight.history.repair", "relight.files.restore"),
    )
    pending, workspace_check = map(LazyModule, ("relight.sessions.pending_store", "relight.files.workspace_check"))
    session, start, stopping, supervise = map(
        LazyModule,
        (
            "relight.sessions.session",
            "relight.supervision.start",
            "relight.supervision.stop",
            "relight.supervision.program",
        ),
    )
    supervise_agent, remove, import_ = map(
        LazyModule, ("relight.supervision.agent", "relight.operations.remove", "relight.bundles.import_")
    )
    forking, shared, launching = map(
        LazyModule, ("relight.history.fork", "relight.sessions.shared", "relight.supervision.launch")
    )
    retention, pinned = map(LazyModule, ("relight.operations.retention", "relight.operations.pinned"))
    reopening = LazyModule("relight.sessions.reopening")
    repositories = LazyModule("relight.files.repositories")


__all__ = ["Loaded", "Relight"]


class Relight(Queueing):
    """An open store with all verbs. Use it as a context manager, or call `close`."""

    _plain: Relight | None = None

    # -- opening ----------------------------------------------------------------------------------------------

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
            fields |= {"policy": limits.on(RunPolicy()), "redact": bool(redact), **_here()}
            identity = opening.new_identity(context, name, fields)
            limiting.check_priced(context, identity, None)
            identity = files.fitted(context, identity, workspace, snapshot)
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
        open_files: Callable[[], files.Files | None],
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

    def join(
        self,
        name: str,
        *,
        agent: str | None = None,
        provider: str | None = None,
        task: str | None = None,
        key: str | None = None,
        labels: Mapping[str, str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        workspace: str | os.PathLike[str] | Mapping[str, str] | None = None,
        snapshot: str | float = "step",
        lease_seconds: float | None = None,
        begins: bool = True,
    ) -> shared.SharedSession:
        """A session that several programs write to at once, for frameworks that allow it; writes are queued."""
        fields = opening.checked_fields(
            labels=labels, metadata=metadata, agent=agent, provider=provider, task=task, key=key
        )
        given = opening.lease_seconds_of(self._context.environment) if lease_seconds is None else lease_seconds
        seconds = opening.checked_seconds(given)
        return shared.SharedSession(
            self._context,
            name,
            fields | _here(),
            workspace=workspace,
            snapshot=snapshot,
            lease_seconds=seconds,
            begins=begins,
        )

    def _files(self, found: Found, taken: reopening.Taken | None) -> files.Files | None:
        """The session's open workspaces; unusable ones and moved repositories are refused before any change."""
        if not found.identity.workspace:
            return None
        rows = restoring.rows_of(self._context, found)
        last = restoring.snapshots_at(rows, found.whole_head().head)
        if taken is not None and taken.before is not None and last:
            repositories.check_opening(self._context, found, before=taken.before, rows=rows)
        try:
            return files.Files(self._context, found.identity, last)
        except WorkspaceUnusable as error:
            raise error if last else files.never_captured(self._context, found.identity, error) from None

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

    # -- writing ----------------------------------------------------------------------------------------------

    def as_shown(self, ref: str, plan: str) -> Relight:
        """The same verbs on a session as it was shown, by its plan hash: the first one that changes it does so in
        that state, or raises PlanMoved. `plain` returns to the unpinned store."""
        made = Relight(pinned.as_shown(self._context, resolve(self._context.store, ref), plan))
        made._plain = self
        return made

    @property
    def plain(self) -> Relight:
        """The unpinned store behind `as_shown`."""
        return self._plain or self

    def fork(
        self,
        ref: str,
        *,
        name: str | None = None,
        prompt: str | None = None,
        workspace: str | Mapping[str, str] | None = None,
    ) -> SessionInfo:
        """A new session from a checkpoint, in O(1); the parent is not changed. Its files are copies of the
        checkpoint's: in `workspace`, filled now, or in a directory that its first start creates."""
        found = resolve(self._context.store, ref)
        return self.get(forking.fork(self._context, found, name=name, prompt=prompt, workspace=workspace).id)

    def import_bundle(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        workspace: str | Mapping[str, str] | None = None,
        key: bytes | None = None,
    ) -> import_.Imported:
        """Import the session of a bundle, untrusted unless signed with this key. `workspace`: where its files go."""
        return import_.import_from(self._context, os.fspath(path), name=name, workspace=workspace, key=key)

    def rewind(
        self,
        ref: str,
        *,
        conversation: bool = True,
        files: bool = False,
        choice: Choice = "stop",
        again: str | Sequence[str] = (),
    ) -> Checkpoint:
        """Move a session back to a checkpoint: its conversation, its files, or both. Nothing is deleted. `again`:
        open calls, by id or key, that ran since and may run again."""
        found = resolve(self._context.store, ref)
        report = restoring.rewind(
            self._context, found, conversation=conversation, files=files, choice=choice, again=_names(again)
        )
        assert report.checkpoint is not None
        return report.checkpoint

    def restore(
        self,
        ref: str,
        *,
        paths: Sequence[str] = (),
        choice: Choice = "stop",
        exact: bool = False,
        dry_run: bool = False,
    ) -> FilesReport:
        """Restore the workspace's files to a checkpoint, all or some paths; `dry_run` only reports."""
        found = resolve(self._context.store, ref)
        return restoring.restore(self._context, found, paths=paths, choice=choice, exact=exact, dry_run=dry_run)

    def undo(self, ref: str, *, redo: bool = False, choice: Choice = "stop") -> FilesReport:
        """Undo the last rewind or restore; repeated, the one before it. `redo` reverts the undo."""
        return restoring.undo(self._context, resolve(self._context.store, ref), redo=redo, choice=choice)

    def prepare_resume(self, ref: str, *, prompt: str | None = None, from_last_good: bool = False) -> SessionInfo:
        """Everything of a resume but the start: the checkpoint chosen (a fork before the head), the prompt added."""
        found = resolve(self._context.store, ref)
        if not from_last_good or found.head is not None:
            opening.refuse_archived(found)
        if from_last_good and repair.go_back_to_whole(self._context, found) is not None:
            found = resolve(self._context.store, found.identity.id)
        if found.seq is not None and found.seq != found.whole_head().head:
            return self.fork(ref, prompt=prompt)
        if prompt is not None:
            operator.add_prompt(self._context, opening.recorder_for(self._context, found), prompt)
        return self.get(found.identity.id)

    def launch(
        self,
        command: Sequence[str],
        *,
        directory: str,
        agent: str,
        name: str | None = None,
        runtime: str = "process",
        workspace: Mapping[str, str] | None = None,
        policy: RunPolicy | None = None,
        labels: Mapping[str, str] | None = None,
        env: Mapping[str, str | None] | None = None,
        secrets: Sequence[str] | None = None,
    ) -> SessionInfo:
        """Create a session that knows its command and its workspace; `supervise` starts it. `env`: variables that
        every start sets (None: with their value here). `secrets`: names of variables that every start needs; values
        are never stored."""
        options = RunOptions(
            directory=directory,
            agent=agent,
            name=name,
            runtime=runtime,
            workspace=workspace,
            policy=policy or RunPolicy(),
            labels=labels,
            env=env,
            secrets=secrets,
        )
        made = launching.launch(self._context, command, options)
        return self.get(made.id)

    def plan_launch(self, command: Sequence[str], options: RunOptions) -> Pending:
        """Like `launch`, without creating a session: `supervise` on the result creates it with its first attempt."""
        identity = launching.planned(self._context, command, options)
        return Pending(identity=identity, head=Head(session=identity.id))

    def plan_fork(
        self,
        ref: str,
        *,
        name: str | None = None,
        workspace: str | Mapping[str, str] | None = None,
        in_place: bool = False,
    ) -> Pending:
        """Like `fork`, without creating a session: `supervise` on the result creates it with its first attempt."""
        found = resolve(self._context.store, ref)
        return forking.plan_fork(self._context, found, name=name, workspace=workspace, in_place=in_place)

    def plan_start(self, ref: str, options: ResumeOptions) -> Pending | None:
        """The session that a start would create, or None if it continues the existing one. Refuses what could not be
        started, and what is owned. Nothing is changed."""
        planned = first_start.plan(self._context, ref, options)
        if planned.pending is None:
            found = resolve(self._context.store, planned.session)
            evidence = opening.evidence_of(self._context, found.whole_head())
            opening.refuse_if_held(self._context, found.identity, found.whole_head(), evidence)
        return planned.pending

    def clear_away(self, pending: Pending) -> None:
        """Remove what a killed start left of a session that was never created."""
        first_start.clear_away(self._context, pending)

    def supervise(self, ref: str | Pending, options: ResumeOptions = AS_IT_IS) -> supervise.Supervision:
        """Plan a resume, or a first start; `run` on the result starts the program. Nothing is changed before `run`,
        and a start that fails leaves everything as it was. Before the head a fork is created, with the checkpoint's
        files in its own directory (`options.workspace`), or `in_place`."""
        context = self._context
        if isinstance(ref, Pending):
            made = first_start.FirstStart(context, ref.identity.id, options, pending=ref)
        else:
            made = first_start.plan(context, ref, options)
        identity = resolve(made.context.store, made.session).identity
        if context.agent(identity).capabilities.transcript:  # the agent gets the prompt and records it itself
            return supervise_agent.AgentSupervision(context, made.session, options, first_start=made)
        return supervise.Supervision(context, made.session, options, first_start=made)

    def resume(
        self,
        ref: str,
        *,
        prompt: str | None = None,
        restore: bool = False,
        from_last_good: bool = False,
        without_secrets: bool = False,
        workspace: str | dict[str, str] | None = None,
        in_place: bool = False,
        name: str | None = None,
    ) -> Resumed:
        """Continue a session that `relight run` began, in the foreground, to its end; `ended` is the session then."""
        found = resolve(self._context.store, ref)
        if not restore and found.head is not None:
            opening.refuse_archived(found)
            repositories.check_opening(self._context, found, before=found.identity)
        options = ResumeOptions(
            prompt=prompt,
            restore=restore,
            from_last_good=from_last_good,
            without_secrets=without_secrets,
            workspace=workspace,
            in_place=in_place,
            name=name,
        )
        supervision = self.supervise(ref, options)
        ended = supervision.run()
        assert supervision.outcome is not None, "set once its program runs"
        return resumed(supervision.outcome, ended.session, ended.exit.shell_code)

    def stop(self, ref: str) -> stopping.Stopped:
        """End the process that runs a session on this machine: by a signal first, by SIGKILL if it does not react."""
        return stopping.stop(self._context, resolve(self._context.store, ref))

    def run_directory_of(self, session: str) -> Path:
        """The run directory for a session id, which need not exist yet."""
        return self._context.run_directory(session)

    def take_command(self, session: str) -> tuple[str, ...] | None:
        """The command line given to `launch`, if the stored one is redacted; for one start in another process."""
        return self._context.commands.pop(session, None)

    def run_directory(self, ref: str) -> Path:
        """The directory with the logs of a supervised session."""
        return self._context.run_directory(resolve(self._context.store, ref).identity.id)

    def send(self, ref: str, text: str) -> Checkpoint | None:
        """Answer a waiting session, give a stopped one its next prompt, or type to a live agent (None: see its
        transcript)."""
        found = resolve(self._context.store, ref)
        if operator.deliver(self._context, found, text):
            return None
        return operator.send(self._context, found, text)

    def decide(self, ref: str, *, allow: bool, reason: str | None = None) -> Checkpoint:
        """Allow or deny the tool call that a session waits for. The model gets the `reason` of a denial."""
        return approvals.decide(self._context, resolve(self._context.store, ref), allow=allow, reason=reason)

    def attach(self, ref: str) -> list[str]:
        """The command that attaches to a session's terminal. Refused if it has none."""
        return adopting.attach(self._context, resolve(self._context.store, ref))

    def adopt(
        self,
        native: str | None = None,
        *,
        directory: str,
        command: Sequence[str] = (),
        name: str | None = None,
    ) -> SessionInfo:
        """Take over a native session that a coding agent began without relight; by default this directory's newest."""
        made = adopting.adopt(self._context, native, directory=directory, command=command, name=name)
        return self.get(made.id)

    def adoptable(self, *, most: int = 50) -> list[adopting.Adoptable]:
        """Native sessions on this machine that `adopt` could take over, newest first."""
        return adopting.found_here(self._context, limit=most)

    def settle(self, ref: str, call: str, *, result: Any = None, retry: bool = False) -> Checkpoint:
        """Record the outcome of a call in doubt: its result, or that it may run again."""
        found = resolve(self._context.store, ref)
        return operator.settle(self._context, found, call, result=result, retry=retry)

    def label(self, ref: str, label: str) -> str:
        """Label a checkpoint (the head if the ref names a session); returns its id. The newest use of a label wins."""
        label = check_label(label)
        found = resolve(self._context.store, ref)
        seq = found.seq if found.seq is not None else found.whole_head().head
        if seq < 1:
            raise UsageError("the session has no checkpoint to name yet")
        self._context.store.label(found.identity.id, seq, label, self._context.clock.now_us())
        return f"{found.identity.id}@{seq}"

    def accept_repository(self, ref: str) -> Checkpoint:
        """Accept that the Git repositories of its workspace are on another branch than the session left them; a
        start is refused until then. Recorded as a step."""
        return repositories.accept(self._context, resolve(self._context.store, ref))

    def archive(self, ref: str) -> Checkpoint:
        """Archive for good: readable, never resumed."""
        return operator.archive(self._context, resolve(self._context.store, ref))

    def clear(
        self, ref: str, *, why: str | None = None, who: str | None = None, forget_native: bool = False
    ) -> Checkpoint:
        """Revoke the lease; recorded in the journal. `forget_native`: the native session is not continued."""
        found = resolve(self._context.store, ref)
        return operator.clear(self._context, found, why=why, who=who, forget_native=forget_native)

    def drop(self, ref: str, *, with_forks: bool = False, dry_run: bool = False) -> remove.Removed:
        """Remove a session with all its bytes. Returns what was removed."""
        found = resolve(self._context.store, ref)
        return remove.drop(self._context, found, with_forks=with_forks, dry_run=dry_run)

    def drop_checkpoint(self, ref: str) -> remove.Forgotten:
        """Remove a checkpoint's labels, and those of its files that no other checkpoint continues from. The step
        remains."""
        return remove.drop_checkpoint(self._context, resolve(self._context.store, ref))

    def sweep(self, policy: Retention | None = None, *, dry_run: bool = False, by: str = "a program") -> remove.Removed:
        """Remove finished sessions whose retention is over: by `policy`, else the store's, else 7 days. Only when
        called; see `set_retention` for a daily sweep."""
        days = self.retention.finished_days
        chosen = policy or (Retention(finished_days=days) if days is not None else Retention())
        return remove.sweep(self._context, chosen, dry_run=dry_run, by=by)

    def set_retention(self, days: float | None, *, by: str = "a program") -> Policy:
        """Set the store's policy: finished sessions are removed so many days after their end, once a day, by
        `serve`, workers and supervisors. None, or no policy: nothing is removed."""
        return retention.set_policy(self._context, days, by=by)

    def sweep_if_due(self, *, by: str) -> remove.Removed | None:
        """The daily sweep under the store's policy; None if there is no policy, or if it was done already."""
        return remove.sweep_if_due(self._context, by=by)


def _here() -> dict[str, str]:
    """The directory of the program, so that a list can show the sessions of this directory."""
    try:
        return {"directory": os.getcwd()}
    except FileNotFoundError:
        return {}


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
