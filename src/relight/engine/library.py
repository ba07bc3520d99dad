"""`rl`: everything a program, the command line or the server can do with a store, one method a verb.

Each verb is a few lines over the use cases beside this file; a door adds nothing of its own. A use case is imported
when its verb is called, so that a command that only lists, or completes a name, does not wait for the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from relight.engine import listing, opening
from relight.engine.context import Context
from relight.engine.reading import Found, chain_of, load, resolve
from relight.errors import Corrupt, Finished, NotFound, UsageError
from relight.journal.describe import derived_status
from relight.journal.jsonable import check_text
from relight.journal.lineage import stretches
from relight.journal.resuming import plan_resume, plan_unreadable
from relight.model.call import Call
from relight.model.checkpoint import Checkpoint
from relight.model.info import AttentionKind, FilesState, Reason, ResumePlan, SessionInfo
from relight.model.policy import Retention, RunPolicy
from relight.model.ref import check_label
from relight.model.snapshot import Choice
from relight.model.status import LIVE, Status
from relight.ports.store import Query, Store

if TYPE_CHECKING:
    from relight.engine import (
        adopting,
        approving,
        branching,
        bundling,
        comparing,
        exporting,
        files,
        operating,
        recovering,
        restoring,
        session,
        starting,
        stopping,
        supervise,
        supervise_agent,
        surveying,
        sweeping,
        tailing,
        unbundling,
        verifying,
    )
    from relight.engine.session import Session
    from relight.engine.undoable import FilesReport
    from relight.journal.undoing import Operation
else:

    class _Later:
        """A module of this package, imported when something of it is first used."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(f"relight.engine.{self._name}"), attribute)

    branching, comparing, exporting, files = map(_Later, ("branching", "comparing", "exporting", "files"))
    operating, recovering, restoring, session = map(_Later, ("operating", "recovering", "restoring", "session"))
    stopping, supervise, surveying = map(_Later, ("stopping", "supervise", "surveying"))
    supervise_agent, starting = map(_Later, ("supervise_agent", "starting"))
    approving, adopting = map(_Later, ("approving", "adopting"))
    bundling, unbundling = map(_Later, ("bundling", "unbundling"))
    sweeping, tailing, verifying = map(_Later, ("sweeping", "tailing", "verifying"))


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A session's state at a checkpoint, to read."""

    session: str
    seq: int
    messages: list[dict[str, Any]]
    state: dict[str, Any]
    calls: list[Call]
    partial: Any
    result: Any
    turns: int


class Relight:
    """An open store with the verbs. Use it as a context, or call `close`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    @property
    def store(self) -> Store:
        """The store behind it."""
        return self._context.store

    def close(self) -> None:
        """End the heartbeat and give the store back. Sessions still open are found as if their process had ended."""
        self._context.heartbeat.stop()
        self._context.store.close()

    def __enter__(self) -> Relight:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
        snapshot: str | float = "step",
        lease_seconds: float = 30.0,
        resume: bool = True,
    ) -> Session:
        """Open a session by its name or ref: new, or exactly where it stopped. `resume=False` begins anew."""
        context = self._context
        fields = opening.checked_fields(
            labels=labels, metadata=metadata, agent=agent, provider=provider, model=model, task=task, key=key
        )
        seconds = opening.checked_seconds(lease_seconds)
        handed = context.handed.pop("session", None)
        owner = context.handed.pop("owner", None)
        found = self._existing(handed) if handed else None
        if found is None:
            owner = None
            found = self._existing(check_text(name, "the name"))
        if found is None or (not resume and not handed):
            identity = opening.new_identity(context, name, fields | _here())
            if workspace is not None:
                identity = files.fitted(context, identity, workspace, snapshot)
            if found is not None:
                opening.give_up_name(context, found)
            found = opening.create(context, identity)
        else:
            opening.gate(found)
            if workspace is not None:
                found = files.settle_workspace(context, found, workspace, snapshot)
        recorder = opening.recorder_for(context, found)
        if recorder.head.status == "completed":
            later = partial(self._files, found)
            return session.Session(context, recorder, lease_seconds=seconds, open_files=later)
        opened = self._files(found)
        made = session.Session(context, recorder, lease_seconds=seconds, files=opened)
        self._tell_continuation(made)
        try:
            made._reopen(handed_over_by=owner)
        except BaseException as error:
            if opened is not None:
                opened.close()
            if not isinstance(error, Finished):
                raise
            later = partial(self._files, found)  # its owner woke up and completed it
            return session.Session(context, recorder, lease_seconds=seconds, open_files=later)
        return made

    def _files(self, found: Found) -> files.Files | None:
        """The session's workspaces, opened; an unusable one is refused before anything is touched."""
        if not found.identity.workspace:
            return None
        rows = restoring.rows_of(self._context, found)
        last = restoring.snapshots_at(rows, found.whole_head().head)
        return files.Files(self._context, found.identity, last)

    def _existing(self, name: str) -> Found | None:
        """By exact id or name; `name@seq` below the head is forked, so that the session stays as it was."""
        if "@" not in name:
            return opening.find_existing(self._context, name)
        found = resolve(self._context.store, name)
        if found.seq is None or found.seq == found.whole_head().head:
            return found
        return resolve(self._context.store, branching.fork(self._context, found).id)

    def _tell_continuation(self, session: Session) -> None:
        if not session.is_new:
            head = session._recorder.head
            status, why = derived_status(head, opening.evidence_of(self._context, head))
            if status not in LIVE:
                ended = f"{status}: {why}" if why else status
                self._context.tell(f"{session.name or session.id} continues at @{head.head} ({ended}); is_new is False")

    # -- reading ----------------------------------------------------------------------------------------------

    def get(self, ref: str) -> SessionInfo:
        """The session a reference leads to. NotFound, Ambiguous."""
        return listing.info_of(self._context, resolve(self._context.store, ref), tree=True)

    def find(self, ref: str) -> SessionInfo | None:
        """As `get`, or None where nothing answers to it."""
        try:
            return self.get(ref)
        except NotFound:
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
        """Sessions, newest created first. `status` is the one shown: a dead `working` counts as `terminated`."""
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

    def attention(self, *, newest: int = 200) -> list[SessionInfo]:
        """Those of the newest unfinished or badly ended sessions that need someone, most urgent first."""
        query = Query(statuses=frozenset({"waiting", "failed", "halted", "terminated", "working", "spawning"}))
        records = islice(listing.every_session(self._context.store, query), newest)
        infos = [listing.info_of(self._context, record) for record in records]
        order = get_args(AttentionKind)
        found = [(order.index(info.attention.kind), info) for info in infos if info.attention is not None]
        return [info for _, info in sorted(found, key=lambda pair: pair[0])]

    def counts(self) -> dict[Status, int]:
        """How many sessions there are, by stored status."""
        return self._context.store.count_sessions()

    def export(self, ref: str) -> Iterator[exporting.Document]:
        """The session as (file name, document), one a step."""
        return exporting.export(self._context, resolve(self._context.store, ref))

    def load(self, ref: str) -> Loaded:
        """The state at a session's head or at a checkpoint. Repairs nothing, changes nothing."""
        found = resolve(self._context.store, ref)
        fold = load(self._context.store, found)
        live = found.head is not None and self._is_live(found)
        return Loaded(
            session=found.identity.id,
            seq=found.seq if found.seq is not None else found.whole_head().head,
            messages=fold.messages,
            state=fold.state,
            calls=fold.calls(doubtful=not live or found.seq is not None),
            partial=fold.partial,
            result=fold.result,
            turns=fold.turns,
        )

    def _is_live(self, found: Found) -> bool:
        head = found.whole_head()
        return derived_status(head, opening.evidence_of(self._context, head))[0] in LIVE

    def checkpoints(self, ref: str) -> list[Checkpoint]:
        """All checkpoints of a session, its ancestors' included for a fork, oldest first."""
        found = resolve(self._context.store, ref)
        head = found.whole_head()
        chain = chain_of(self._context.store, found.identity)
        return [
            listing.checkpoint_of_row(stretch.session, row, found.identity.model)
            for stretch in stretches(chain, after=0, upto=head.seq)
            for row in self._context.store.checkpoints(stretch.session, after=stretch.after, upto=stretch.upto)
        ]

    def tail(self, ref: str, *, after: int = 0, follow: bool = False) -> Iterator[tailing.Event]:
        """Steps as events, from `after` on; with `follow` until the session ends."""
        found = resolve(self._context.store, ref)
        events = tailing.follow if follow else tailing.history
        return events(self._context, found, after=after)

    def files_at(self, ref: str, *, disk: bool = False, start: bool = False) -> FilesState | None:
        """What is known of a checkpoint's files; None without a workspace. `disk`: how that differs from it now;
        `start`: what changed since the first capture."""
        return surveying.survey(self._context, resolve(self._context.store, ref), disk=disk, start=start)

    def can_resume(self, ref: str, *, disk: bool = True) -> ResumePlan:
        """What a resume would do, and what stands against it; `disk` compares the files with it, which takes a walk."""
        found = resolve(self._context.store, ref)
        info = listing.info_of(self._context, found)
        damage, calls, count = None, [], 0
        try:
            loaded = self.load(ref)
            calls, count = loaded.calls, len(loaded.messages)
        except Corrupt as error:
            cure = f"relight resume {info.title} --from-last-good" if error.offered else None
            damage = Reason(code="corrupt", text=str(error), cure=cure)
        if found.head is None:
            return msgspec.structs.replace(plan_unreadable(info), reasons=[damage] if damage else [])
        held = surveying.survey(self._context, found, disk=disk) if found.identity.workspace else None
        plan = plan_resume(info, found.head, seq=found.seq, message_count=count, calls=calls, damage=damage, files=held)
        return msgspec.structs.replace(plan, agent=starting.foresee(self._context, found, has_history=count > 0))

    def verify(self, ref: str | None = None) -> verifying.Report:
        """Check the digest chain of one session, or of all of them and the store itself."""
        found = resolve(self._context.store, ref) if ref is not None else None
        return verifying.verify(self._context, found)

    def export_bundle(
        self,
        ref: str,
        path: str | os.PathLike[str],
        *,
        redact: bool = True,
        key: bytes | None = None,
        attachments: Mapping[str, str | os.PathLike[str]] | None = None,
    ) -> bundling.Exported:
        """A session with its ancestors and its captured files as one new file, without secrets, signed with a key.

        The transcript of a coding agent goes along as it stands, as the attachment `native.jsonl`."""
        found = resolve(self._context.store, ref)
        attached = {**starting.native_file(self._context, found), **(attachments or {})}
        return bundling.export_to(self._context, found, os.fspath(path), redact=redact, key=key, attachments=attached)

    def bundle_attachment(self, path: str | os.PathLike[str], name: str) -> bytes:
        """One attachment of a bundle; the store is not touched."""
        return unbundling.attachment(os.fspath(path), name)

    # -- writing ----------------------------------------------------------------------------------------------

    def fork(
        self,
        ref: str,
        *,
        name: str | None = None,
        prompt: str | None = None,
        workspace: str | Mapping[str, str] | None = None,
    ) -> SessionInfo:
        """A new session from a checkpoint; O(1), and the parent stays as it was. `workspace`: its own new directory."""
        found = resolve(self._context.store, ref)
        if workspace is None:
            return self.get(branching.fork(self._context, found, name=name, prompt=prompt).id)
        made = restoring.fork_into(self._context, found, workspace, name=name, prompt=prompt)
        return self.get(made.id)

    def import_bundle(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        workspace: str | Mapping[str, str] | None = None,
        key: bytes | None = None,
    ) -> unbundling.Imported:
        """Take in the session of a bundle, untrusted unless signed with this key. `workspace`: where its files go."""
        return unbundling.import_from(self._context, os.fspath(path), name=name, workspace=workspace, key=key)

    def rewind(
        self, ref: str, *, conversation: bool = True, files: bool = False, choice: Choice = "stop"
    ) -> Checkpoint:
        """Move a session back to a checkpoint: its conversation, its files, or both. Nothing is deleted."""
        found = resolve(self._context.store, ref)
        report = restoring.rewind(self._context, found, conversation=conversation, files=files, choice=choice)
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
        """Put the workspace's files back to a checkpoint, whole or by name; with `dry_run` say what would happen."""
        found = resolve(self._context.store, ref)
        return restoring.restore(self._context, found, paths=paths, choice=choice, exact=exact, dry_run=dry_run)

    def undo(self, ref: str, *, redo: bool = False, choice: Choice = "stop") -> FilesReport:
        """Take back the last rewind or restore; again, the one before. `redo` goes forward."""
        return restoring.undo(self._context, resolve(self._context.store, ref), redo=redo, choice=choice)

    def operations(self, ref: str) -> list[Operation]:
        """The undo log, oldest first."""
        return restoring.operation_log(self._context, resolve(self._context.store, ref))

    def diff(self, a: str, b: str | None = None) -> list[comparing.FileDiff]:
        """How files differ between two checkpoints, or between one and the disk now."""
        store = self._context.store
        return comparing.diff(self._context, resolve(store, a), resolve(store, b) if b is not None else None)

    def prepare_resume(self, ref: str, *, prompt: str | None = None, from_last_good: bool = False) -> SessionInfo:
        """Everything of a resume but the start: the checkpoint chosen (a fork below the head), the prompt added."""
        found = resolve(self._context.store, ref)
        if not from_last_good or found.head is not None:
            opening.gate(found)
        if from_last_good and recovering.go_back_to_whole(self._context, found) is not None:
            found = resolve(self._context.store, found.identity.id)
        if found.seq is not None and found.seq != found.whole_head().head:
            return self.fork(ref, prompt=prompt)
        if prompt is not None:
            branching.add_prompt(self._context, found, prompt)
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
    ) -> SessionInfo:
        """A session that knows how it is started, and where its files are; `supervise` starts it."""
        made = supervise.launch(
            self._context,
            command,
            directory=directory,
            name=name,
            agent=agent,
            runtime=runtime,
            workspace=workspace,
            policy=policy,
        )
        return self.get(made.id)

    def supervise(
        self,
        ref: str,
        *,
        prompt: str | None = None,
        from_last_good: bool = False,
        retries: int | None = None,
        restore: bool = False,
        without_secrets: bool = False,
        now: bool = False,
    ) -> supervise.Supervision:
        """Prepare a resume, or a first start; `run` on what comes back starts the program and keeps it running.

        `restore` makes a missing workspace anew and puts back what it lacks; what is there stays."""
        if from_last_good:  # first, so that it also repairs what relight did not start itself
            recovering.go_back_to_whole(self._context, resolve(self._context.store, ref))
        context, found = self._context, resolve(self._context.store, ref)
        supervise.check_startable(context, found, prompt=prompt, restore=restore, without_secrets=without_secrets)
        adapter = context.agent(found.identity)
        speaks = adapter.capabilities.transcript  # then a prompt is told to the agent, which writes it down itself
        info = self.prepare_resume(ref, prompt=None if speaks else prompt, from_last_good=from_last_good)
        if restore:
            supervise.bring_back(context, resolve(context.store, info.id))
        if speaks:
            return supervise_agent.AgentSupervision(context, info.id, prompt=prompt, retries=retries, now=now)
        return supervise.Supervision(context, info.id, retries=retries)

    def resume(self, ref: str, *, prompt: str | None = None, restore: bool = False) -> SessionInfo:
        """Continue a session that `relight run` began, in front, to its end; the session as it is then."""
        return self.supervise(ref, prompt=prompt, restore=restore).run().session

    def stop(self, ref: str) -> stopping.Stopped:
        """End the process that runs a session on this machine: asked first, killed if it does not listen."""
        return stopping.stop(self._context, resolve(self._context.store, ref))

    def speaks(self, ref: str) -> bool:
        """Is it a coding agent's session, whose own transcript is the conversation?"""
        return operating.speaks(self._context, resolve(self._context.store, ref).identity)

    def run_directory(self, ref: str) -> Path:
        """Where the logs of a supervised session lie."""
        return self._context.run_directory(resolve(self._context.store, ref).identity.id)

    def orphans(self, ref: str) -> list[int]:
        """Processes that a dead attempt left running; the next start ends them."""
        found = resolve(self._context.store, ref)
        return [] if self._is_live(found) else self._context.runtime().orphans(found.identity.id)

    def send(self, ref: str, text: str) -> Checkpoint | None:
        """Answer a waiting session, give a stopped one its next prompt, or type to a live agent (None: in its own
        terminal; its transcript will tell)."""
        found = resolve(self._context.store, ref)
        if operating.deliver(self._context, found, text):
            return None
        return operating.send(self._context, found, text)

    def decide(self, ref: str, *, allow: bool) -> Checkpoint:
        """Allow or deny the tool call that a session waits with; it goes on when it is resumed."""
        return approving.decide(self._context, resolve(self._context.store, ref), allow=allow)

    def attach(self, ref: str) -> list[str]:
        """The command that shows a session's place to a person. Refused where there is none to join."""
        return adopting.attach(self._context, resolve(self._context.store, ref))

    def adopt(
        self,
        native: str | None = None,
        *,
        directory: str,
        command: Sequence[str] = (),
        name: str | None = None,
    ) -> SessionInfo:
        """Take over a session of a coding agent that was begun without relight; the newest of this directory."""
        made = adopting.adopt(self._context, native, directory=directory, command=command, name=name)
        return self.get(made.id)

    def settle(self, ref: str, call: str, *, result: Any = None, retry: bool = False) -> Checkpoint:
        """Decide a call in doubt: its result, or that it may run again."""
        found = resolve(self._context.store, ref)
        return operating.settle(self._context, found, call, result=result, retry=retry)

    def label(self, ref: str, label: str) -> str:
        """Name a checkpoint (the head where the ref names a session); its id. The newest use of a label wins."""
        check_label(label)
        found = resolve(self._context.store, ref)
        seq = found.seq if found.seq is not None else found.whole_head().head
        if seq < 1:
            raise UsageError("the session has no checkpoint to name yet")
        self._context.store.label(found.identity.id, seq, label, self._context.clock.now_us())
        return f"{found.identity.id}@{seq}"

    def archive(self, ref: str) -> Checkpoint:
        """Finished for good: kept to read, never resumed."""
        return operating.archive(self._context, resolve(self._context.store, ref))

    def clear(
        self, ref: str, *, why: str | None = None, who: str | None = None, forget_native: bool = False
    ) -> Checkpoint:
        """Take the lease from whoever holds it; recorded in the journal. `forget_native`: the agent's own session is
        not gone on with."""
        found = resolve(self._context.store, ref)
        return operating.clear(self._context, found, why=why, who=who, forget_native=forget_native)

    def drop(self, ref: str, *, with_forks: bool = False, dry_run: bool = False) -> sweeping.Removed:
        """Remove a session and every byte of it. Counted in what comes back."""
        found = resolve(self._context.store, ref)
        return sweeping.drop(self._context, found, with_forks=with_forks, dry_run=dry_run)

    def file_bytes(self) -> int:
        """What the captured files of all sessions take on disk."""
        return self._context.workspaces().size_bytes() if self._context.store.list_pools() else 0

    def sweep(self, policy: Retention | None = None, *, dry_run: bool = False) -> sweeping.Removed:
        """Remove finished sessions whose retention is over. Counted in what comes back."""
        return sweeping.sweep(self._context, policy or Retention(), dry_run=dry_run)


def _stored_statuses(shown: Status | None) -> frozenset[Status] | None:
    """A status as shown may be stored differently: a dead `working` is shown as `terminated`."""
    if shown is None:
        return None
    return frozenset({shown, "working", "spawning"}) if shown == "terminated" else frozenset({shown})


def _here() -> dict[str, str]:
    """Where the program runs, so that a list can say which sessions belong to this directory."""
    try:
        return {"directory": os.getcwd()}
    except FileNotFoundError:
        return {}
