"""The part of a start that happens once, before and with the first claim, and its rollback.

    plan (nothing is written) -> files -> check the program -> claim, with the prompt and the attempt, in one commit

A failure before that commit leaves the session as it was, and no directory. A failure after it, before the program
runs, is rolled back if this start created the session: the session and its directories are deleted. A failed attempt
of a session that existed before stays recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import msgspec

from relight.errors import Corrupt, NotFound, NotResumable, RelightError
from relight.files import restore as restoring
from relight.files import workspace_check
from relight.files.directories import Directories, check_places
from relight.history import fork, repair
from relight.history.loading import Found, resolve
from relight.journal.files.undo_log import next_undo
from relight.operations.send import next_prompt
from relight.ports.runtime import Child
from relight.sessions.context import Context
from relight.sessions.pending_store import with_change, with_pending
from relight.sessions.recorder import Recorder
from relight.supervision import hand_over, launch
from relight.values.call import Call
from relight.values.checkpoint import at
from relight.values.options import AS_IT_IS, ResumeOptions
from relight.values.outcome import StartOutcome, doubts_of
from relight.values.session import Pending
from relight.values.step import Changes


class FirstStart:
    """One start of a session, until its program runs or it is rolled back."""

    def __init__(
        self,
        context: Context,
        session: str,
        options: ResumeOptions = AS_IT_IS,
        *,
        pending: Pending | None = None,
        asked: str | None = None,
        handed: hand_over.Handed | None = None,
    ) -> None:
        self.context = with_pending(context, pending) if pending is not None else context
        if handed is not None:
            self.context = with_change(context, session, handed.over)
        self._handed = handed
        self.session = session
        self.asked = pending.asked if pending is not None else asked
        """the requested checkpoint, `ID@SEQ`"""
        self.put_back: int | None = None
        """the step whose files were restored"""
        self.had_prompt = False
        """whether the commit contains a prompt"""
        self.doubts: list[Call] = []
        """calls in doubt at the time of the claim"""
        self.pending, self._restore = pending, options.restore
        self._prompt = options.prompt
        self._directories = Directories(self.context)
        self._is_prepared = False
        self._is_restored = False
        self._has_begun = False
        self._is_over = False

    # -- before the claim ---------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Restore files and check that the program exists. Idempotent; rolled back if it fails."""
        if self._is_over or self._is_prepared:
            return
        self._is_prepared = True
        try:
            self._restore_files()
        except BaseException:
            self.roll_back(None)
            raise

    def _restore_files(self) -> None:
        context, found = self.context, resolve(self.context.store, self.session)
        pending = self.pending
        if not found.identity.workspace:
            return
        if pending is not None and pending.in_place:
            self._restore_in_place(found)
        elif pending is not None and pending.files:
            self._fill(found, pending.files)
        elif pending is None and (self._restore or workspace_check.is_unstarted_fork(context, found)):
            self._restore_missing(found)

    def _restore_missing(self, found: Found) -> None:
        """Fill missing directories; or, with `restore`, restore missing files as an operation of the undo log."""
        held = restoring.files_at(self.context, found, restoring.rows_of(self.context, found))
        missing = [root for root in workspace_check.lacking_roots(self.context, found) if root in held]
        if missing:
            self._fill(found, {root: held[root] for root in missing})
        elif self._restore:
            report = workspace_check.bring_back(self.context, found)
            is_done = report is not None and report.checkpoint is not None
            self.put_back = self._captured_at(found) if is_done else None

    def _fill(self, found: Found, files: Mapping[str, str]) -> None:
        self._directories.fill(found, files)
        launch.check_there(self.context, found.identity)  # only now: its directory may be one of those just filled
        self.put_back = self._captured_at(found)

    def _restore_in_place(self, found: Found) -> None:
        if not self.pending or not self.pending.files:
            return  # nothing was captured before the checkpoint: the directory stays as it is
        workspace_check.refuse_shared(self.context, found.identity)
        launch.check_there(self.context, found.identity)
        self._is_restored = True
        restoring.restore(self.context, found, choice="ours", adopt=True)
        self.put_back = self._captured_at(found)

    def _captured_at(self, found: Found) -> int | None:
        rows = restoring.rows_of(self.context, found)
        held = set(restoring.snapshots_at(rows, restoring.position_of(found)).items())
        return max((row.seq for row in rows if held & set(row.snapshots.items())), default=None)

    # -- with the claim -----------------------------------------------------------------------------------------

    def changes(self, recorder: Recorder) -> Changes:
        """Changes to commit with the first claim: the prompt. None for later claims."""
        if not self._is_over:
            self.doubts = [call for call in recorder.fold.calls(doubtful=True) if call.in_doubt]
        if self._is_over or self._prompt is None:
            return Changes()
        said = next_prompt(self.context, recorder, self._prompt)
        if not said.answer:
            return said
        return msgspec.structs.replace(said, answer=self.context.redactor().value(list(said.answer)))

    @property
    def has_prompt(self) -> bool:
        """Whether there is a prompt that no step contains yet."""
        return self._prompt is not None

    def begun(self) -> None:
        """The first claim is committed."""
        self._has_begun = True
        self.had_prompt = self._prompt is not None
        self._prompt = None

    def succeeded(
        self,
        child: Child | None,
        orphans: Sequence[int],
        *,
        command: Sequence[str] | None,
        prompt_sent: bool,
        rung: str | None = None,
        lives: bool = False,
    ) -> StartOutcome:
        """The program runs, or the session is queued: nothing is rolled back from here on. The outcome."""
        self._is_over = True
        self._directories.keep()
        found = resolve(self.context.store, self.session)
        identity, head = found.identity, found.whole_head()
        clean = self.context.redactor().value
        return StartOutcome(
            session=identity.id,
            name=identity.name,
            status=head.status,
            reason=head.reason,
            attempt=head.attempt,
            resumed_from=int(self.asked.rpartition("@")[2]) if self.asked is not None else None,
            checkpoint=self.asked,
            rung=rung,
            command=[str(clean(word)) for word in command] if command is not None else None,
            directory=identity.directory,
            workspace=identity.workspace,
            put_back=self.put_back,
            prompt_sent=prompt_sent,
            in_doubt=doubts_of(self.doubts, rung=rung, lives=lives),
            pid=child.pid if child is not None else None,
            handle=child.handle or None if child is not None else None,
            orphans=list(orphans),
            wake_at=at(head.wake_us) if head.wake_us is not None else None,
        )

    # -- rollback -----------------------------------------------------------------------------------------------

    def roll_back(self, recorder: Recorder | None) -> bool:
        """After a failed start: whether everything is as it was before. It is not if an existing session has one more
        attempt. An error of the rollback is only reported, so that the one that failed the start is raised."""
        if self._is_over:
            return False
        self._is_over, is_gone = True, False
        try:
            is_gone = self._rolled_back(recorder)
        except RelightError as error:
            self.context.notify(f"the start could not be rolled back: {error}")
        finally:
            if is_gone:
                self._directories.discard()
            else:
                self._directories.keep()
        return is_gone

    def hand_back(self) -> None:
        """After a failed start: an existing session has the agent again that it had before."""
        if self._handed is not None and self._has_begun:
            self.context.store.update(self.session, self._handed.back)
            self._handed = None

    def _rolled_back(self, recorder: Recorder | None) -> bool:
        if self.pending is None:
            return not self._has_begun
        if recorder is not None and recorder.owns:
            self.context.heartbeat.remove(recorder)
            self.context.store.release(self.session, owner=recorder.owner, epoch=recorder.epoch)
        record = self.context.store.find(self.session)
        if record is None or record.head is None or record.head.seq == self.pending.head.seq:
            return True  # the claim was not committed
        if self._is_restored:
            found = resolve(self.context.store, self.session)
            if next_undo(restoring.operation_log(self.context, found)) is not None:  # none: nothing had to change
                restoring.undo(self.context, found, choice="ours")
            record = self.context.store.find(self.session)
        if record is not None and record.head is not None:
            self.context.store.delete([self.session], epochs={self.session: record.head.epoch})
            self.context.remove_run_directory(self.session)
        return True


def plan(context: Context, ref: str, options: ResumeOptions) -> FirstStart:
    """Plan a start, or refuse it. Changes nothing, except that `from_last_good` repairs a damaged session first."""
    if options.from_last_good:
        _repair(context, ref, options)
    before = resolve(context.store, ref)
    found = hand_over.handed(context, before, options)
    forks = fork.starts_new_session(found)
    if not forks:
        fork.refuse_at_head(found, options)
    launch.check_startable(context, found, options)
    asked = f"{found.identity.id}@{restoring.position_of(found)}"
    if not forks:
        is_same = found.identity == before.identity
        handed = None if is_same else hand_over.Handed(before=before.identity, after=found.identity)
        return FirstStart(context, found.identity.id, options, asked=asked, handed=handed)
    pending = fork.plan_fork(context, found, name=options.name, workspace=options.workspace, in_place=options.in_place)
    check_files(context, pending)
    return FirstStart(context, pending.identity.id, options, pending=pending)


def check_files(context: Context, pending: Pending) -> None:
    """Refuse a fork whose files cannot be restored, before anything is created."""
    if pending.in_place:
        workspace_check.refuse_shared(context, pending.identity)
        return
    try:
        fork.check_captured(pending)
    except NotFound:
        name, roots = pending.identity.name or (pending.asked or "")[:8], pending.identity.workspace
        lacking = next(root for root in roots if root not in pending.files)
        why = f'no files of "{lacking}" were captured up to this checkpoint'
        hints = ["choose a later checkpoint", "or let it work in the directory as it is: in place"]
        raise NotResumable(name, why, hints=hints) from None
    check_places(context, pending)


def _repair(context: Context, ref: str, options: ResumeOptions) -> None:
    """Go back to the last good checkpoint; refused first if the session could not be started even then."""
    found = resolve(context.store, ref)
    # Sessions without a command, which relight did not start, can be repaired too.
    if found.identity.command is not None:
        with contextlib.suppress(Corrupt):  # the damage is what is to be repaired
            launch.check_startable(context, found, options)
    repair.go_back_to_whole(context, found)


def clear_away(context: Context, pending: Pending) -> None:
    """Remove what a supervisor that was killed before its first commit has left: directories and the run directory."""
    if context.store.find(pending.identity.id) is not None:
        return  # the commit happened after all
    for root, path in pending.identity.workspace.items() if not pending.in_place else ():
        directories = Directories(context)
        if context.workspaces().is_unfinished(path, directories.has_begun):
            made = context.workspaces().make(
                path, name=root, session=pending.identity.id, attempt=0, begun=directories.has_begun
            )
            made.discard()
    context.remove_run_directory(pending.identity.id)
