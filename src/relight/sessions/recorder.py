"""The recorder: the single writer of one session. Every change of a session goes through `Recorder.commit`.

A commit redacts and encodes outside the lock; under the lock it counts what the change adds, passes the draft to the
store, and applies it to the live fold only after the store has acknowledged it. So the fold never shows what is not
durable.

If the store fails in the middle, the outcome is unknown. The recorder looks the commit up by its own key, at once or
before the next commit, and writes nothing else until the outcome is known. The same change given again is then not
written twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeAlias, TypedDict, TypeVar, Unpack

from relight.errors import LeaseLost, NotFound, RelightError, StoreUnavailable, UsageError
from relight.journal.codec import VERSION, decode_changes, encode_changes, encoded
from relight.journal.conversation.last_reply import last_reply_line
from relight.journal.fold import Fold
from relight.journal.formats.registry import formats
from relight.ports import faults
from relight.ports.clock import Entropy
from relight.ports.store import Store
from relight.sessions.heartbeat import BEATS_A_LEASE, MAX_PAUSE_SECONDS
from relight.sessions.redacting_store import Recording
from relight.system.fork_handlers import reset_after_fork
from relight.telemetry.logs import INFO, SESSION, STORE, log_commit, warn
from relight.telemetry.spans import NO_SPAN, commit_span
from relight.values.checkpoint import Checkpoint, at, public_snapshot
from relight.values.queues import QueuePosition
from relight.values.session import Head, Identity
from relight.values.snapshot import Snapshot
from relight.values.step import Changes, Claim, Committed, Draft, StepKind, View

_T = TypeVar("_T")
CommitProgram: TypeAlias = Generator[tuple[str, Draft], Committed, _T]
"""yields each step it wants committed, as `Store.commit` takes it; is sent what was committed, or thrown its error"""
_NOTHING: Final = Changes()
_TIMED_PAUSE_SECONDS: Final = 1.0
"""with a time limit: the working time of a killed attempt is known up to its last renewal"""


def driven(program: CommitProgram[_T], store: Store) -> _T:
    """Run a program to its end in this thread."""
    try:
        step = next(program)
        while True:
            try:
                committed = store.commit(*step)
            except BaseException as error:
                step = program.throw(error)
            else:
                step = program.send(committed)
    except StopIteration as end:
        result: _T = end.value
        return result
    finally:
        program.close()  # where a signal handler raised between its steps: suspended, it would keep its session's lock


class CommitOptions(TypedDict, total=False):
    """What a commit may be given besides its changes."""

    label: str | None
    claim: Claim | None
    release: bool
    view: View | None
    given: Changes | None
    snapshots: tuple[Snapshot, ...]
    queue_position: QueuePosition | None
    if_newest: bool


class Recorder:
    """Holds a session's epoch, head and live fold for one owner. Thread-safe."""

    def __init__(
        self,
        store: Store,
        entropy: Entropy,
        identity: Identity,
        head: Head,
        fold: Fold,
        reload: Callable[[], Fold],
        recording: Recording,
    ) -> None:
        self.store = store
        self.recording = recording
        """redacts changes before they are encoded"""
        self.identity = identity
        self.head = head
        self.fold = fold
        self.owner = ""
        self.epoch = 0
        """the epoch this recorder claimed; another one in the head means that another owner has claimed since"""
        self.lost: RelightError | None = None
        self.lock = threading.RLock()
        self.fold_lock = threading.RLock()
        """held only while the fold takes in a step, or is read: never while the store is asked"""
        self._entropy = entropy
        self._reload = reload
        self._unknown_commit: tuple[Draft, Changes, int] | None = None
        """the commit whose outcome is not known, the changes its caller passed, and the seq it was to follow"""
        self._fold_is_stale = False
        """interrupted while the fold was applying a commit: the fold must be loaded again"""
        self.is_inherited = False
        """the lease belongs to the process that this one was forked from"""
        # Loads the agents' formats now: an import inside the first append that a signal handler interrupts would leave
        # the module's import lock taken, and every other session of the process waiting for it.
        formats()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """In a forked child the lease stays with the parent, so this copy refuses every write."""
        self.lock, self.fold_lock = threading.RLock(), threading.RLock()
        if not self.owner:
            return
        owner = self.head.lease.owner.label if self.head.lease is not None else "another process"
        name = self.identity.name or self.identity.id
        self.lost = UsageError(
            f"{name}: this session is held by {owner}, from which this process was forked; nothing was written",
            hints=["open a session of its own in the child, or hand its results back to the parent"],
        )
        self.owner, self.epoch, self._unknown_commit, self.is_inherited = "", 0, None, True

    @property
    def owns(self) -> bool:
        """Whether this recorder holds the lease, as far as it knows."""
        lease = self.head.lease
        return self.lost is None and lease is not None and lease.owner.id == self.owner

    def beat_seconds(self) -> float | None:
        """At most so many seconds between two renewals of the lease; None if it is not ours."""
        lease = self.head.lease
        if lease is None or not self.owns:
            return None
        longest = MAX_PAUSE_SECONDS if self.identity.policy.seconds is None else _TIMED_PAUSE_SECONDS
        return min(longest, lease.seconds / BEATS_A_LEASE)

    def beat(self) -> None:
        """Renew the lease. One that was taken over is remembered, so that the next write is refused."""
        try:
            self.store.renew(self.identity.id, owner=self.owner, epoch=self.epoch)
        except (LeaseLost, NotFound) as error:
            if self.owns:
                self.lost = error
                warn(SESSION, f"the lease is lost: {error}", self.log_fields)
        except RelightError as error:
            # The store does not answer. The next beat tries again: an expired lease that no other process claimed is
            # still valid.
            warn(STORE, f"the lease could not be renewed: {error}", self.log_fields)

    @property
    def log_fields(self) -> dict[str, object]:
        """What every log record about this session says."""
        return {"session": self.identity.id, "seq": self.head.seq, "attempt": self.head.attempt, "epoch": self.epoch}

    def commit(self, kind: StepKind, changes: Changes = _NOTHING, **how: Unpack[CommitOptions]) -> Checkpoint:
        """`commit_program`, in this thread."""
        return driven(self.commit_program(kind, changes, **how), self.store)

    def commit_program(
        self,
        kind: StepKind,
        changes: Changes = _NOTHING,
        *,
        label: str | None = None,
        claim: Claim | None = None,
        release: bool = False,
        view: View | None = None,
        given: Changes | None = None,
        snapshots: tuple[Snapshot, ...] = (),
        queue_position: QueuePosition | None = None,
        if_newest: bool = False,
    ) -> CommitProgram[Checkpoint]:
        """Write one durable step. If it raises, nothing of the step has been acknowledged.

        `given` is what the caller passed, if `changes` holds more than that: a repeated change is recognised by it.
        `if_newest`: Conflict if the session has steps that this recorder does not know; `refresh` loads them.
        """
        if given is None:
            given = changes
        if label is not None:
            self.recording.check_label(label)
        changes = self.recording.changes(changes)
        body = encode_changes(changes)
        with self.lock:
            committed = self._resolve(kind, given) if self._unknown_commit is not None else None
            if committed is not None:
                # The earlier commit got through. Its own body counts, not the one encoded now: it names its own
                # snapshots.
                changes = decode_changes(committed.step.body)
            else:
                expected = self.head.seq if if_newest else None
                draft = self._draft(
                    kind, changes, body, label, claim, release, view, snapshots, queue_position, expected
                )
                before = self.head.seq
                try:
                    committed = yield from self._write(draft, given)
                    self._apply(committed, draft, changes)
                except RelightError:
                    raise
                except BaseException:
                    # KeyboardInterrupt can arrive before, during or after the store's commit, or while the fold is
                    # half changed. All that is certain is that nothing is: resolve it by key, and reload the fold.
                    self._unknown_commit, self._fold_is_stale = (draft, given, before), True
                    raise
        faults.point("commit.told")
        if changes.intents or changes.outcomes or SESSION.reads(INFO):
            log_commit(self.identity, committed, changes)
        return checkpoint_of(committed, self.identity.model, changes.snapshot)

    def refresh(self) -> None:
        """Load what another process has written under the same lease."""
        with self.lock:
            # The head first: if a step is committed between the two, the fold has it and the head does not, so that the
            # next commit with `if_newest` is refused. The other way round it would pass without having seen the step.
            found = self.store.find(self.identity.id)
            if found is not None and found.head is not None:
                self.head = found.head
            self.fold = self._reload()

    @property
    def has_unknown_commit(self) -> bool:
        """Whether a commit is pending whose outcome is not known."""
        return self._unknown_commit is not None

    def resolve_unknown(self, kind: StepKind, given: Changes = _NOTHING) -> Checkpoint | None:
        """Find out how the commit of unknown outcome ended, before a change is computed from a fold that may lack it.

        Returns its checkpoint if it got through and was given the same changes. StoreUnavailable if the store still
        cannot tell; nothing else may be written then.
        """
        with self.lock:
            committed = self._resolve(kind, given)
        if committed is None:
            return None
        return checkpoint_of(committed, self.identity.model, decode_changes(committed.step.body).snapshot)

    def _draft(
        self,
        kind: StepKind,
        changes: Changes,
        body: bytes,
        label: str | None,
        claim: Claim | None,
        release: bool,
        view: View | None,
        snapshots: tuple[Snapshot, ...],
        queue_position: QueuePosition | None,
        expected_seq: int | None,
    ) -> Draft:
        messages, turns = self.fold.growth(changes)
        return Draft(
            kind=kind,
            body=body,
            key=self._entropy.key(),
            epoch=self.epoch,
            owner=self.owner,
            expected_seq=expected_seq,
            claim=claim,
            release=release,
            label=label,
            messages_added=messages,
            turns_added=turns,
            opened=tuple(changes.intents),
            closed=self._closed_by(changes),
            view=view,
            status=changes.status,
            attempt=changes.attempt,
            usage=changes.usage,
            native=changes.native,
            said=last_reply_line(self.fold.format_with(changes.messages), changes.messages),
            snapshots=snapshots,
            queue_position=queue_position,
        )

    def _closed_by(self, changes: Changes) -> tuple[tuple[int, str], ...]:
        """(asked_seq, id) of the effects that these changes close, by a recorded outcome or by a message with the
        result."""
        if not self.head.open:
            return ()
        closed = [(outcome.asked_seq, outcome.id) for outcome in changes.outcomes]
        slots = [slot for key in closed if (slot := self.fold.slot(*key)) is not None]
        if self.fold.hooked and changes.messages:
            # A call that only a hook has reported, and whose line comes together with its result.
            answers = self.fold.format_with(changes.messages).answers
            ids = {name for message in changes.messages for name in answers(message)}
            closed += [(one.intent.asked_seq, key) for key, one in self.fold.hooked.items() if key in ids]
        return tuple(closed + [slot.effect_key for slot in slots + self.fold.answered_by(changes.messages)])

    def _write(self, draft: Draft, given: Changes) -> CommitProgram[Committed]:
        span = commit_span(self.identity.id, draft.kind)
        try:
            if span is NO_SPAN:
                return (yield self.identity.id, draft)
            with span:
                committed = yield self.identity.id, draft
                span.set("relight.seq", committed.step.seq)
            return committed
        # Only StoreUnavailable leaves the outcome open: the connection may have died after the server committed. Every
        # other error of a store means that the transaction was rolled back.
        except StoreUnavailable:
            self._unknown_commit = (draft, given, self.head.seq)
            found = self._try_to_resolve()
            if found is None:
                warn(STORE, "a commit's outcome is unknown, the store does not answer", self.log_fields)
                raise
            return found

    def _try_to_resolve(self) -> Committed | None:
        try:
            found = self._find_unknown_commit()
        except RelightError:
            return None  # still unknown; the next commit looks again
        self._unknown_commit = None
        return found

    def _find_unknown_commit(self) -> Committed | None:
        """The commit of unknown outcome, if it got through."""
        assert self._unknown_commit is not None
        draft, _, after = self._unknown_commit
        return self.store.find_commit(self.identity.id, draft.key, after=after)

    def _resolve(self, kind: StepKind, given: Changes) -> Committed | None:
        if self._unknown_commit is None:
            return None
        draft, before, _ = self._unknown_commit
        found = self._find_unknown_commit()
        if found is not None:
            try:
                self._apply(found, draft, decode_changes(draft.body))
            except BaseException:
                self._fold_is_stale = True
                raise
        self._unknown_commit, self._fold_is_stale = None, False
        if found is None:
            return None
        # Compared by what the caller gave: the body may differ in state or snapshots that were added since.
        return found if draft.kind == kind and encoded(given) == encoded(before) else None

    def _apply(self, committed: Committed, draft: Draft, changes: Changes) -> None:
        follows = committed.step.seq == self.head.seq + 1 and committed.head.seq == committed.step.seq
        self.head = committed.head
        if draft.claim is not None:
            self.owner, self.epoch = draft.claim.owner.id, draft.claim.expected_epoch + 1
        # A rewind changes which steps are visible, and a gap means that another process wrote (an operator, under its
        # own claim). Neither can be applied as an increment.
        if committed.step.kind == "rewind" or not follows or self._fold_is_stale:
            self.fold = self._reload()
            return
        with self.fold_lock:
            self.fold.apply(committed.step, changes)


def checkpoint_of(committed: Committed, model: str | None, snapshots: Mapping[str, str] | None) -> Checkpoint:
    """A committed step as users see it, with the snapshots it names."""
    step = committed.step
    return Checkpoint(
        id=f"{step.session}@{step.seq}",
        session=step.session,
        seq=step.seq,
        kind=step.kind,
        label=step.label,
        created_at=at(step.at_us),
        turns=step.turns,
        message_count=step.message_count,
        model=model,
        snapshot=public_snapshot(snapshots) if snapshots else None,
        size_bytes=len(step.body),
        version=VERSION,
    )
