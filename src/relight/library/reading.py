"""The verbs that read: lists, states, plans, reports. They write nothing and start nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from relight.errors import Corrupt, NotFound, Unresolved
from relight.history import listing
from relight.history.loading import Found, chain_of, load, load_forked, load_returned, resolve
from relight.journal.lineage import stretches
from relight.journal.resume_plan import (
    as_it_lives,
    codes_waived,
    damage_reason,
    plan_hash,
    plan_resume,
    plan_unreadable,
    waived,
)
from relight.journal.status import derived_status
from relight.library.lazy_module import LazyModule
from relight.ports.store import Query, Store
from relight.sessions import limits as limiting
from relight.sessions import opening
from relight.sessions.context import Context
from relight.sessions.redacting_store import bare
from relight.values.call import Call, PlannedCall
from relight.values.checkpoint import Checkpoint, at
from relight.values.info import FilesPlan, FilesState, Reason, ResumePlan, SessionInfo
from relight.values.options import AS_IT_IS, ResumeOptions
from relight.values.policy import Policy
from relight.values.status import LIVE, Status
from relight.values.tombstone import Tombstone

if TYPE_CHECKING:
    from relight.bundles import export as bundling
    from relight.bundles import import_, readable
    from relight.files import diff as comparing
    from relight.files import drill as drilling
    from relight.files import repositories, workspace_check
    from relight.files import restore as restoring
    from relight.files import status as files_statuses
    from relight.history import abandoned_effects, queries
    from relight.history import attention as needing
    from relight.history import effects_since as effects
    from relight.history import events as tailing
    from relight.history import verify as verifying
    from relight.journal.files.undo_log import Operation
    from relight.journal.fold import Fold
    from relight.operations import operator
    from relight.operations import retention as retaining
    from relight.supervision import launch, start_plan, waiting
    from relight.supervision import start as starting
else:
    bundling, comparing, readable, restoring = map(
        LazyModule,
        ("relight.bundles.export", "relight.files.diff", "relight.bundles.readable", "relight.files.restore"),
    )
    operator, starting, files_statuses, tailing = map(
        LazyModule,
        ("relight.operations.operator", "relight.supervision.start", "relight.files.status", "relight.history.events"),
    )
    repositories, start_plan = map(LazyModule, ("relight.files.repositories", "relight.supervision.start_plan"))
    import_, verifying, queries, launch = map(
        LazyModule,
        ("relight.bundles.import_", "relight.history.verify", "relight.history.queries", "relight.supervision.launch"),
    )
    drilling, abandoned_effects, effects, needing, retaining = map(
        LazyModule,
        (
            "relight.files.drill",
            "relight.history.abandoned_effects",
            "relight.history.effects_since",
            "relight.history.attention",
            "relight.operations.retention",
        ),
    )
    workspace_check, waiting = map(LazyModule, ("relight.files.workspace_check", "relight.supervision.waiting"))


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A session's state at a checkpoint, read-only."""

    session: str
    seq: int
    messages: list[dict[str, Any]]
    state: dict[str, Any]
    calls: list[Call]
    partial: Any
    """the newest partial result"""
    partials: list[Any]
    """all partial results, oldest first"""
    result: Any
    turns: int


class Reading:
    """An open store with the verbs that read; base of `Relight`. Use it as a context manager, or call `close`."""

    def __init__(self, context: Context) -> None:
        self._context = context

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

    def get(self, ref: str) -> SessionInfo:
        """The session of a reference. NotFound, Ambiguous."""
        return listing.info_of(self._context, resolve(self._context.store, ref), tree=True)

    def find(self, ref: str) -> SessionInfo | None:
        """Like `get`, but None if no session, or more than one, matches."""
        try:
            return self.get(ref)
        except Unresolved:
            return None

    def sessions(
        self,
        *,
        agent: str | None = None,
        provider: str | None = None,
        status: Status | None = None,
        key: str | None = None,
        labels: Mapping[str, str] | None = None,
        search: str | None = None,
        since_us: int | None = None,
        before: tuple[int, str] | None = None,
        limit: int | None = None,
    ) -> Iterator[SessionInfo]:
        """Sessions, newest first. `status` is the one shown: `working` with a dead owner counts as `terminated`."""
        query = Query(
            agent=agent,
            provider=provider,
            key=key,
            labels=dict(labels or {}),
            text=search,
            created_since_us=since_us,
            before=before,
            statuses=_stored_statuses(status),
        )
        shown = 0
        for record in listing.every_session(self._context.store, query):
            info = listing.info_of(self._context, record)
            if status is not None and info.status != status:
                continue
            if limit is not None and shown >= limit:
                return
            shown += 1
            yield info

    def attention(self, *, most: int = 200) -> list[SessionInfo]:
        """Sessions that need attention, most urgent first: all that wait, or run and are quiet or lost, and the newest
        `most` each of those that are halted, failed or were terminated."""
        return self.needing(most=most).sessions

    def needing(self, *, most: int = 200, every_halted: bool = False) -> needing.Needing:
        """How many sessions need attention, exactly and by kind, with the most urgent of them."""
        return needing.needing(self._context, most=most, every_halted=every_halted)

    def counts(self) -> dict[Status, int]:
        """Number of sessions by stored status."""
        return self._context.store.count_sessions()

    @property
    def retention(self) -> Policy:
        """The retention policy; without one nothing is removed."""
        return retaining.policy_of(self._context)

    def kept_longer_than(self, days: float) -> retaining.Kept:
        """How many finished sessions ended more than so many days ago, and the size of their journals."""
        return retaining.kept_longer_than(self._context, days)

    def last_sweep_us(self) -> int | None:
        """When the last sweep under the policy began, in microseconds since 1970."""
        return retaining.last_sweep_us(self._context)

    def removed(self, session: str) -> Tombstone | None:
        """How a session was removed, by its full id; None if unknown."""
        return retaining.tombstone_of(self._context, session)

    def removals(self, *, after: str = "") -> dict[str, Tombstone]:
        """Remembered removals, oldest first, by increasing name; those after `after`."""
        return retaining.tombstones(self._context, after=after)

    def export(self, ref: str, *, redact: bool = True) -> Iterator[readable.Document]:
        """The session as (file name, document), one per step, without secrets."""
        return readable.export(self._context, resolve(self._context.store, ref), redact=redact)

    def load(self, ref: str) -> Loaded:
        """The state at a session's head or at a checkpoint. Changes nothing."""
        found = resolve(self._context.store, ref)
        loaded = self._loaded(found)[0]
        if loaded.messages:
            return loaded
        return msgspec.structs.replace(loaded, messages=tailing.thread(self._context, found, loaded.seq))

    def _loaded(self, found: Found) -> tuple[Loaded, Fold]:
        fold = load(self._context.store, found)
        live = found.head is not None and self._is_live(found)
        loaded = Loaded(
            session=found.identity.id,
            seq=found.seq if found.seq is not None else found.whole_head().head,
            messages=fold.messages,
            state=fold.state,
            calls=fold.calls(doubtful=not live or found.seq is not None),
            partial=fold.partial,
            partials=list(fold.partials),
            result=fold.result,
            turns=fold.turns,
        )
        return loaded, fold

    def _is_live(self, found: Found) -> bool:
        head = found.whole_head()
        return derived_status(head, opening.evidence_of(self._context, head))[0] in LIVE

    def checkpoints(self, ref: str) -> list[Checkpoint]:
        """All checkpoints of a session, oldest first; a fork includes its ancestors'."""
        found = resolve(self._context.store, ref)
        head = found.whole_head()
        chain = chain_of(self._context.store, found.identity)
        return [
            listing.checkpoint_of_row(stretch.session, row, found.identity.model_at(row.seq))
            for stretch in stretches(chain, after=0, upto=head.seq)
            for row in self._context.store.checkpoints(stretch.session, after=stretch.after, upto=stretch.upto)
        ]

    def tail(self, ref: str, *, after: int = 0, follow: bool = False) -> Iterator[tailing.Event]:
        """Steps as events, from `after` on; with `follow` until the session ends."""
        found = resolve(self._context.store, ref)
        events = tailing.follow if follow else tailing.history
        return events(self._context, found, after=after)

    def files_at(self, ref: str, *, disk: bool = False, start: bool = False) -> FilesState | None:
        """Status of a checkpoint's files; None without a workspace. `disk`: compare with the disk; `start`: changes
        since the first capture."""
        return files_statuses.files_status(self._context, resolve(self._context.store, ref), disk=disk, start=start)

    def can_resume(self, ref: str, *, disk: bool = True, options: ResumeOptions = AS_IT_IS) -> ResumePlan:
        """What a resume would do, and what prevents it; `disk` compares the files with the disk, which walks the
        directory. `options`: the options it would be given."""
        found = resolve(self._context.store, ref)
        info = listing.info_of(self._context, found)
        damage, calls, count, fold, good = self._read_to_plan(found, info, options)
        if found.head is None:
            return plan_unreadable(info, damage, message_count=count)
        held = files_statuses.files_status(self._context, found, disk=disk) if found.identity.workspace else None
        if held is not None and held.missing and workspace_check.is_unstarted_fork(self._context, found):
            held = msgspec.structs.replace(held, missing=[])  # its start makes them
        has_transcript = operator.has_transcript(self._context, found.identity)
        planned, told = abandoned_effects.planned(fold, agent=has_transcript) if fold is not None else ([], None)
        plan = plan_resume(
            info,
            found.head,
            seq=found.seq,
            message_count=count,
            calls=calls,
            planned=planned,
            told=told,
            damage=damage,
            files=held,
        )
        files_plan, directory, refused = None, found.identity.directory, list[Reason]()
        if good is not None:
            plan = msgspec.structs.replace(plan, checkpoint=f"{info.id}@{good}")
        if damage is None:
            files_plan, directory, refused = start_plan.files_plan(self._context, found, options, held)
            plan = msgspec.structs.replace(plan, reasons=plan.reasons + refused)
        agent = starting.foresee(self._context, found, has_history=count > 0)
        reads = fold is not None and (agent is None or (agent.rung == "native" and agent.living is None))
        reply = starting.first_reply(self._context, found.identity, fold) if reads and fold is not None else None
        limit = waiting.limit_of(self._context, found) if agent is not None else None
        wake_us = waiting.foresee_wait(self._context, found)
        plan = msgspec.structs.replace(
            plan,
            agent=agent,
            first_reply=reply,
            directory=directory,
            files_plan=files_plan,
            orphans=self._orphans(found) if disk and not plan.forks else [],
            wait_until=at(wake_us) if wake_us is not None else None,
            reasons=[*plan.reasons, limit] if limit is not None else plan.reasons,
        )
        # Waived twice: once here, so that the checks below are skipped only if something else blocks, and again for
        # what those checks add.
        codes = codes_waived(options)
        plan = as_it_lives(plan)
        if plan.agent is None or plan.agent.living is None:
            held_back = limiting.against(self._context, found, options.limits) if info.status not in LIVE else []
            plan = msgspec.structs.replace(plan, reasons=plan.reasons + held_back)
        plan = waived(plan, codes)
        # The rest depends on this machine: programs, variables, repositories. A queued session is started by a worker,
        # perhaps elsewhere, which checks them itself.
        if not plan.ok or info.queue is not None:
            return plan
        variables, against = launch.foresee_start(self._context, found)
        against += repositories.against(self._context, found)
        return waived(msgspec.structs.replace(plan, environment=variables, reasons=plan.reasons + against), codes)

    def _read_to_plan(
        self, found: Found, info: SessionInfo, options: ResumeOptions
    ) -> tuple[Reason | None, list[Call], int, Fold | None, int | None]:
        """What a plan needs of a journal: its damage, calls, number of messages and fold; and, if the start would
        first rewind to it, the last good checkpoint: these are then of there."""
        try:
            loaded, fold = self._loaded(found)
            if found.seq is None or found.seq == found.whole_head().head:
                return None, loaded.calls, len(loaded.messages), fold, None
            fold = load_forked(self._context.store, found, found.seq)
            return None, fold.calls(doubtful=True), len(loaded.messages), fold, None
        except Corrupt as error:
            damage = damage_reason(info, str(error), error.offered, options)
            if damage.blocks or error.offered is None:
                return damage, [], 0, None, None
            good, fold = self._loaded(resolve(self._context.store, error.offered))
            return damage, fold.calls(doubtful=True), len(good.messages), fold, good.seq

    def planned_calls(self, ref: str, *, after: Literal["rewind", "fork"]) -> list[PlannedCall]:
        """What would be done about the calls that are open at a checkpoint after a rewind to it, or in a fork of it.
        For a resume, use `can_resume`."""
        found = resolve(self._context.store, ref)
        seq = found.seq if found.seq is not None else found.whole_head().head
        load_it = load_returned if after == "rewind" else load_forked
        fold = load_it(self._context.store, found, seq)
        return abandoned_effects.planned(fold, agent=operator.has_transcript(self._context, found.identity))[0]

    def plan_fork_files(
        self, ref: str, *, name: str | None = None, workspace: str | Mapping[str, str] | None = None
    ) -> FilesPlan | None:
        """The directories a fork would use; None if the session has no workspace. Refused like the fork."""
        found = resolve(self._context.store, ref)
        return start_plan.fork_files(self._context, found, name=name, workspace=workspace)

    def effects_since(self, session: str, seq: int) -> list[Call] | None:
        """Effects declared `once` that began after a checkpoint, on any branch: a rewind does not undo them. None if
        the journal is damaged, so that it is unknown."""
        try:
            return effects.effects_since(self._context.store, resolve(self._context.store, session), seq)
        except Corrupt:
            return None

    def verify(self, ref: str | None = None, *, files: bool = True) -> verifying.Report:
        """Check the digest chain of one session, or of all of them and the store itself; captured files too."""
        found = resolve(self._context.store, ref) if ref is not None else None
        return verifying.verify(self._context, found, files=files)

    def drill(self, ref: str, directory: str | os.PathLike[str], *, most_bytes: int) -> drilling.Drilled | None:
        """Restore a checkpoint below an empty directory and compare it; None if it is larger than the bound."""
        found = resolve(self._context.store, ref)
        return drilling.drill(self._context, found, Path(directory), most_bytes=most_bytes)

    def export_bundle(
        self,
        ref: str,
        path: str | os.PathLike[str],
        *,
        redact: bool = True,
        key: bytes | None = None,
        attachments: Mapping[str, str | os.PathLike[str]] | None = None,
    ) -> bundling.Exported:
        """Write a session with its ancestors and captured files to one new file, without secrets, signed with a key if
        given.

        The transcript of a coding agent is included as the attachment `native.jsonl`.
        """
        found = resolve(self._context.store, ref)
        attached = {**starting.native_file(self._context, found), **(attachments or {})}
        return bundling.export_to(self._context, found, os.fspath(path), redact=redact, key=key, attachments=attached)

    def bundle_attachment(self, path: str | os.PathLike[str], name: str) -> bytes:
        """One attachment of a bundle; the store is not used."""
        return import_.attachment(os.fspath(path), name)

    def operations(self, ref: str) -> list[Operation]:
        """The undo log, oldest first."""
        return restoring.operation_log(self._context, resolve(self._context.store, ref))

    def diff(self, a: str, b: str | None = None) -> list[comparing.FileDiff]:
        """How files differ between two checkpoints, or between one and the disk now."""
        store = self._context.store
        return comparing.diff(self._context, resolve(store, a), resolve(store, b) if b is not None else None)

    def file(self, ref: str, root: str, path: str) -> bytes:
        """One captured file as it was at a checkpoint."""
        return comparing.file_at(self._context, resolve(self._context.store, ref), root, path)

    def file_bytes(self) -> int:
        """Disk usage of the captured files of all sessions."""
        return self._context.workspaces().size_bytes() if self._context.store.list_pools() else 0

    def file_place(self) -> tuple[str, bool]:
        """The location of captured files, and whether it is remote."""
        workspaces = self._context.workspaces()
        return workspaces.location, workspaces.is_remote

    def probe_files(self) -> None:
        """Write, read and delete a test object at a remote location of captured files; an error says what to do."""
        self._context.workspaces().probe()

    def has_transcript(self, ref: str) -> bool:
        """Whether it is a coding agent's session, whose own transcript is the conversation."""
        return operator.has_transcript(self._context, resolve(self._context.store, ref).identity)

    def joining(self, ref: str) -> list[str] | None:
        """The command that attaches to a session's terminal while it runs; None if its runtime has none."""
        found = resolve(self._context.store, ref)
        handle = found.whole_head().handle or found.identity.id[:8]
        return self._context.runtime(found.identity).attach_command(handle)

    def orphans(self, ref: str) -> list[int]:
        """Processes that a dead attempt left running; the next start ends them."""
        return self._orphans(resolve(self._context.store, ref))

    def _orphans(self, found: Found) -> list[int]:
        return [] if self._is_live(found) else self._context.runtime().orphans(found.identity.id)

    # -- for who oversees many -----------------------------------------------------------------------------------

    def steps(self, ref: str, *, after: int = 0, upto: int | None = None) -> Iterator[tailing.Event]:
        """Steps as events: after < seq <= upto."""
        return queries.steps(self._context, resolve(self._context.store, ref), after=after, upto=upto)

    def checkpoint(self, ref: str) -> Checkpoint:
        """One checkpoint; a session's ref means its head. NotFound if it has none yet."""
        found = resolve(self._context.store, ref)
        seq = found.seq if found.seq is not None else found.whole_head().head
        rows = queries.checkpoint_rows(self._context, found, after=seq - 1, upto=seq) if seq else []
        if not rows:
            raise NotFound(f"{ref.partition('@')[0]}@{seq}", what="checkpoint")
        return rows[0]

    def checkpoints_between(self, ref: str, *, after: int, upto: int | None = None) -> list[Checkpoint]:
        """The checkpoints with after < seq <= upto."""
        return queries.checkpoint_rows(self._context, resolve(self._context.store, ref), after=after, upto=upto)

    def unfinished(self, *, most: int = 1000) -> list[SessionInfo]:
        """Sessions that are queued, running or waiting, newest first."""
        query = Query(statuses=frozenset({"queued", "spawning", "working", "waiting"}))
        records = islice(listing.every_session(self._context.store, query), most)
        return [listing.info_of(self._context, record) for record in records]

    def leases(self, *, most: int = 1000) -> list[queries.LeaseInfo]:
        """Current leases and their owners."""
        return queries.leases(self._context, most=most)

    def tree(self, ref: str) -> list[queries.Branch]:
        """The fork tree of a session: ancestors and forks."""
        return queries.tree(self._context, resolve(self._context.store, ref))

    def search(self, ref: str, text: str, *, after: int = 0, most: int = 100) -> queries.Hits:
        """Steps of a session that contain a text; all are counted, the first `most` after a seq are returned."""
        return queries.search(self._context, resolve(self._context.store, ref), text, after=after, most=most)

    def plan_hash(self, ref: str) -> str:
        """The plan hash of `can_resume`, without computing the plan; empty for a damaged session."""
        found = resolve(self._context.store, ref)
        return plan_hash(found.head, found.seq) if found.head is not None else ""

    def check_start(self, ref: str, options: ResumeOptions = AS_IT_IS) -> None:
        """Refuse what could not be started, and what is owned; nothing is changed."""
        found = resolve(self._context.store, ref)
        head = found.whole_head()
        launch.check_startable(self._context, found, options)
        if found.seq is None or found.seq == head.head:
            opening.refuse_if_held(self._context, found.identity, head, opening.evidence_of(self._context, head))


def _stored_statuses(shown: Status | None) -> frozenset[Status] | None:
    """The stored statuses that may be shown as this one: `working` with a dead owner is shown as `terminated`."""
    if shown is None:
        return None
    return frozenset({shown, "working", "spawning"}) if shown == "terminated" else frozenset({shown})
