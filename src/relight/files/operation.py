"""One operation of the undo log that changes files: a restore, rewind, undo or redo.

    plan each root (takes safety snapshots)  ->  commit the beginning, which names them and takes the lease
        ->  change the files  ->  commit the end, which releases the lease

The lease is held in between, so that no agent starts on half-restored files. A kill before the beginning has changed
nothing; after it the log shows an operation without an end, which running it again completes and undo reverts. If a
sweep removes a safety snapshot before the commit, the roots are planned again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from relight.errors import NotFound, RelightError, RestoreConflict, SnapshotSwept, UsageError
from relight.files.capture import close_all, complete_hints, open_roots, refuse_unfinished
from relight.history.branching import head_at
from relight.history.loading import Found, chain_of, step_at
from relight.history.rewind import head_state, rewind_view, status_after_rewind
from relight.journal.codec import decode_changes
from relight.journal.files.undo_log import HeadState, Move, Operation, Verb, begin_note, end_note, is_operation
from relight.operations.write_once import with_derived_status
from relight.ports.store import CheckpointRow
from relight.ports.workspace import Workspace
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of, own_claim, recorder_for, refuse_if_held
from relight.sessions.recorder import Recorder
from relight.values.checkpoint import Checkpoint
from relight.values.queues import QueuePosition
from relight.values.snapshot import Choice, RestoreOutcome, RestorePlan, RestoreRecord, Snapshot
from relight.values.step import Changes, Claim, StepKind

LEASE_SECONDS: Final = 30.0
_SWEPT_TRIES: Final = 3


class FilesReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a restore did, or in a dry run would do; root name to plan."""

    plans: dict[str, RestorePlan]
    outcomes: dict[str, RestoreOutcome] = {}
    checkpoint: Checkpoint | None = None
    """the step that ended it; None in a dry run"""


class FileOperation:
    """The plans for all roots of one operation; a context manager that holds the workspaces open."""

    def __init__(
        self,
        context: Context,
        found: Found,
        rows: Sequence[CheckpointRow],
        *,
        choice: Choice,
        exact: bool = False,
        paths: Sequence[str] = (),
        take: Sequence[str] = (),
        adopt: bool = False,
        read_only: bool = False,
    ) -> None:
        self._context, self._found, self._rows = context, found, rows
        self._choice, self._exact = choice, exact
        self._paths = _inside(paths, found.identity.workspace)
        self._take = _inside(take, found.identity.workspace)
        self._adopt, self._read_only = adopt, read_only
        self._roots: Mapping[str, Workspace] = {}
        self._names: Collection[str] = ()
        """the roots that are restored"""
        self._plan: Callable[[], dict[str, RestorePlan]] = dict
        self.plans: dict[str, RestorePlan] = {}
        head = found.whole_head()
        if not read_only:
            # Only an early refusal, before anything is captured. What excludes a concurrent owner is the claim in
            # `_begin`.
            refuse_if_held(context, found.identity, head, evidence_of(context, head))

    def __enter__(self) -> None:
        if self._rows:
            self._roots = open_roots(
                self._context.workspaces(),
                self._found.identity,
                watch=False,
                adopt=self._adopt,
                read_only=self._read_only,
            )

    def __exit__(self, *exc: object) -> None:
        close_all(self._roots)

    # -- planning ---------------------------------------------------------------------------------------------

    def make(self, targets: Mapping[str, str]) -> None:
        """Plan each root that the checkpoint holds. Refused if another restore of it was interrupted."""
        last, ours = newest_of(self._rows), self._own_snapshots()

        def plan(name: str, target: str) -> RestorePlan:
            root = self._root(name)
            with complete_hints(self._found.identity):
                refuse_unfinished(name, self._found.identity.workspace[name], root, target=target)
            return root.plan_restore(
                target,
                last=last.get(name),
                history=ours.get(name, []),
                choice=self._choice,
                exact=self._exact,
                paths=self._paths,
                take=self._take,
            )

        self._names = targets.keys()
        self._plan = lambda: {name: plan(name, target) for name, target in targets.items()}
        self.plans = self._plan()
        for path in self._paths:
            self._check_known(path)

    def _check_known(self, path: bytes) -> None:
        """A requested path must be in the checkpoint or on disk. NotFound says why it is in neither."""
        roots = self._found.identity.workspace.values()
        why = [one.reason for plan in self.plans.values() for one in plan.left_out if one.path == path]
        if why:
            raise NotFound(
                os.fsdecode(path), what="captured file", evidence=[f"it was left out of the snapshot: {why[0]}"]
            )
        touched = {
            one.path
            for plan in self.plans.values()
            for part in (plan.decision.writes, plan.decision.deletes, plan.decision.kept, plan.decision.conflicts)
            for one in part
        }
        known = path in touched or any(one.startswith(path + b"/") for one in touched)
        if not known and not any(os.path.lexists(os.path.join(os.fsencode(root), path)) for root in roots):
            raise NotFound(os.fsdecode(path), what="captured file")

    def make_undo(self, operation: Operation) -> None:
        """Plan to revert each root's restore, also an interrupted one.

        If the session has worked since, that work is its own and no conflict: the files are restored to the state
        before the operation, as for any checkpoint.
        """
        last, ours = newest_of(self._rows), self._own_snapshots()
        worked = self._own_snapshots(after=operation.latest or operation.id).keys()
        records = {name: self._record(name, operation) for name in operation.files if name not in worked}

        def plan() -> dict[str, RestorePlan]:
            plans = {
                name: self._root(name).plan_undo(record.id, choice=self._choice)
                for name, record in records.items()
                if record is not None
            }
            for name in operation.files.keys() & worked:
                plans[name] = self._root(name).plan_restore(
                    operation.files[name][0], last=last.get(name), history=ours.get(name, []), choice=self._choice
                )
            return plans

        self._names, self._plan = operation.files.keys(), plan
        self.plans = self._plan()

    def _own_snapshots(self, *, after: int = 0) -> dict[str, list[str]]:
        """Snapshots of the session's own work, by root. Those of restores hold whatever was on disk, and do not
        count."""
        chain = chain_of(self._context.store, self._found.identity)
        own: dict[str, list[str]] = {}
        for row in self._rows:
            if row.seq <= after:
                continue
            if row.snapshots and row.kind in ("mark", "rewind"):
                step = step_at(self._context.store, chain, row.seq)
                if is_operation(decode_changes(step.body).note):
                    continue
            for name, snapshot in row.snapshots.items():
                own.setdefault(name, []).append(snapshot)
        return own

    def _record(self, name: str, operation: Operation) -> RestoreRecord | None:
        """The workspace's own record of the restore; None if it never touched a file, or is undone already."""
        before, aimed = operation.files[name]
        known = operation.restores.get(name)
        for one in self._root(name).restores():
            fits = one.id == known if known else (one.safety, one.target) == (before, aimed) and not one.undoes
            if fits:
                return one if one.state != "undone" or self._is_being_undone(name, one.id) else None
        return None

    def _is_being_undone(self, name: str, restore: str) -> bool:
        return any(one.state == "begun" and one.undoes == restore for one in self._root(name).restores())

    def _root(self, name: str) -> Workspace:
        if name not in self._roots:
            raise NotFound(name, what="workspace root")
        return self._roots[name]

    # -- doing ------------------------------------------------------------------------------------------------

    def carry_out(
        self, verb: Verb, *, moves: bool, of: Operation | None = None, again: Sequence[str] = ()
    ) -> FilesReport:
        """Commit the beginning, change the files, commit the end. Nothing is changed if a conflict is undecided;
        without files only the end is committed.

        `moves`: the head moves to the checkpoint; for undo and redo their operation decides. `again` names effects that
        may run again there.
        """
        self._refuse_conflicts()
        recorder = self._recorder()
        move, back_to = self._move(recorder, verb, moves, of)
        if again and move.heads is not None:
            rewind_view(self._context, self._at(move.heads[1]), again)  # to refuse before anything is changed
        if not self.plans:
            return FilesReport(plans={}, checkpoint=self._end(recorder, move, back_to, again))
        with self._leased(recorder), complete_hints(self._found.identity):
            begun = self._begin(recorder, move)
            self._context.heartbeat.add(recorder)
            outcomes = {name: self._root(name).restore(plan) for name, plan in self.plans.items()}
            restores = {name: outcome.id for name, outcome in outcomes.items()}
            checkpoint = self._end(recorder, move, back_to, again, begun=begun.seq, restores=restores)
        return FilesReport(plans=self.plans, outcomes=outcomes, checkpoint=checkpoint)

    def _refuse_conflicts(self) -> None:
        conflicts = [(name, one) for name, plan in self.plans.items() for one in plan.decision.conflicts]
        if conflicts and self._choice == "stop":
            several = len(self._found.identity.workspace) > 1
            named = [
                (os.fsencode(f"{name}:") + one.path if several else one.path, one.reason) for name, one in conflicts
            ]
            raise RestoreConflict(self._found.identity.name or self._found.identity.id, named)

    def _begin(self, recorder: Recorder, move: Move) -> Checkpoint:
        """Name the safety snapshots and take the lease, in one commit."""
        for _ in range(_SWEPT_TRIES):
            files = {name: (plan.safety.id, plan.target) for name, plan in self.plans.items()}
            taken = tuple(plan.safety for plan in self.plans.values())
            changes = _with_note(begin_note(move, files=files), taken)
            try:
                claim, changes = self._claim(recorder, changes)
                # This is the point of no return: once a step names the safety snapshots no sweep removes them, and the
                # files may be changed.
                return recorder.commit("mark", changes, claim=claim, snapshots=taken)
            except SnapshotSwept as error:
                swept = error
                self._recover_roots()
                self.plans = self._plan()
                self._refuse_conflicts()
        raise swept

    def _claim(self, recorder: Recorder, changes: Changes) -> tuple[Claim | None, Changes]:
        """The claim for a commit, and its changes with the status of a dead owner; no claim if we own the session."""
        if recorder.owns:
            return None, changes
        context, head = self._context, recorder.head
        claim = own_claim(context, recorder.identity, head, seconds=LEASE_SECONDS)
        return claim, with_derived_status(context, head, changes)

    @contextlib.contextmanager
    def _leased(self, recorder: Recorder) -> Iterator[None]:
        """Release the lease that the block claims, however it is left; an operation can be repeated at once."""
        try:
            yield
        finally:
            self._context.heartbeat.remove(recorder)
            with contextlib.suppress(RelightError):  # the error that ended the operation matters more
                # An interrupt can arrive when the store has committed the claim and the recorder does not know it yet.
                if recorder.has_unknown_commit:
                    recorder.resolve_unknown("mark")
                if recorder.owns:
                    self._context.store.release(recorder.identity.id, owner=recorder.owner, epoch=recorder.epoch)

    def _end(
        self,
        recorder: Recorder,
        move: Move,
        back_to: HeadState | None,
        again: Sequence[str],
        *,
        begun: int | None = None,
        restores: Mapping[str, str] | None = None,
    ) -> Checkpoint:
        """Name the new state of the files, move the head if that is part of it, release the lease: one commit."""
        moved, view = Changes(), None
        kind: StepKind = "mark"
        if move.heads is not None:
            kind = "rewind"
            view, allowed = rewind_view(self._context, self._at(move.heads[1]), again)
            if back_to is not None and view.said is None:  # a compaction took it out of the messages
                view = msgspec.structs.replace(view, said=back_to.said)
            status = back_to.told if back_to is not None else status_after_rewind(recorder.head, view)
            moved = Changes(outcomes=allowed, status=status, native=back_to.native if back_to is not None else None)
        queue_position = _restored_position(recorder.head.queue_position, back_to)
        for _ in range(_SWEPT_TRIES):
            # Captured again after the change: conflicts are found by comparing with the newest snapshot, which must
            # therefore hold what the restore has written.
            taken = tuple(self._root(name).snapshot() for name in self._names)
            unchanged = {one.root: one.id for one in taken if one.root not in self.plans}
            note = end_note(move, begun=begun, restores=restores or {}, unchanged=unchanged)
            changes = _with_note(note, taken, moved)
            try:
                claim, changes = self._claim(recorder, changes)
                return recorder.commit(
                    kind, changes, claim=claim, release=True, view=view, snapshots=taken, queue_position=queue_position
                )
            except SnapshotSwept as error:
                swept = error
                self._recover_roots()
        raise swept

    def _recover_roots(self) -> None:
        for root in self._roots.values():
            root.recover()

    def _at(self, seq: int) -> Found:
        return msgspec.structs.replace(self._found, seq=seq)

    def _move(self, recorder: Recorder, verb: Verb, moves: bool, of: Operation | None) -> tuple[Move, HeadState | None]:
        """The move of the head, if the conversation is part of it, and for undo and redo the state to return to."""
        head = recorder.head
        before = head_state(self._context, head)
        if of is not None:
            heads = (head.head, of.heads[0]) if of.heads is not None else None
            return Move(verb=verb, heads=heads, of=of.id, before=before), of.before if heads is not None else None
        if not moves or self._found.seq is None:
            return Move(verb=verb, before=before), None
        target = head_at(self._context, self._found, self._found.seq).head  # for a rewind step: its base
        return Move(verb=verb, heads=(head.head, target), before=before), None

    def _recorder(self) -> Recorder:
        record = self._context.store.find(self._found.identity.id)
        if record is None:
            raise NotFound(self._found.identity.id)
        return recorder_for(self._context, Found(identity=record.identity, head=record.head, seq=None))


def _inside(paths: Sequence[str], roots: Mapping[str, str]) -> list[bytes]:
    """Paths relative to the roots, from relative ones or absolute ones inside a root."""
    found: list[bytes] = []
    for path in paths:
        at = os.path.normpath(path)
        root = next((one for one in roots.values() if at == one or at.startswith(one + "/")), None)
        at = os.path.relpath(at, root) if root is not None else at
        if os.path.isabs(at) or at.split("/", maxsplit=1)[0] == ".." or "\0" in at:
            hints = [f"paths are below {one}" for one in roots.values()]
            raise UsageError(f"{path[:200]!r} is outside the workspace", hints=hints)
        if at == ".":
            return []
        found.append(os.fsencode(at))
    return found


def newest_of(rows: Sequence[CheckpointRow]) -> dict[str, str]:
    """Root name to the newest snapshot that any step took, including hidden steps."""
    return {name: snapshot for row in rows for name, snapshot in row.snapshots.items()}


def _with_note(note: dict[str, object], taken: Sequence[Snapshot], moved: Changes | None = None) -> Changes:
    snapshot = {one.root: one.id for one in taken} or None
    return msgspec.structs.replace(moved or Changes(), note=note, snapshot=snapshot)


def _restored_position(present: QueuePosition | None, back_to: HeadState | None) -> QueuePosition | None:
    """The queue position to return to, if it differs from the present one; None changes nothing."""
    if back_to is None or back_to.queue_position == present:
        return None
    return back_to.queue_position or QueuePosition(queue="")
