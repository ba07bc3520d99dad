"""The writer behind an open session: what its public verbs, its tool calls, its questions and its turns share.

It decides whether a write is allowed now, commits it with everything due with it (unsaved state, used answers, closed
calls, snapshots), and keeps the lease while effects run. `Session` is what a program sees of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import msgspec

from relight.errors import (
    ChildFailed,
    Finished,
    LeaseLost,
    LimitReached,
    RelightError,
    StoreUnavailable,
    UsageError,
    Waiting,
)
from relight.journal.codec import isolated
from relight.journal.conversation.model_replies import refuse_unseen
from relight.journal.conversation.provider_responses import ended_turn
from relight.journal.effects.approvals import as_asked, cure_of
from relight.journal.effects.ledger import closing_outcome
from relight.journal.fold import as_call
from relight.journal.jsonable import unshared
from relight.journal.limits import Reached, overtime, uncounted
from relight.sessions import limits, tree_budgets
from relight.sessions.calls.running_effects import EffectKey
from relight.sessions.context import Context
from relight.sessions.inputs import SdkObject, a_message, reason_of, spent_of
from relight.sessions.opening import CLAIM_TRIES, begin_attempt
from relight.sessions.recorder import CommitProgram, Recorder, driven
from relight.sessions.state import StateMap
from relight.system.uncaught import report_uncaught_waits, waits_of
from relight.values.call import Call, Outcome
from relight.values.checkpoint import Checkpoint, at
from relight.values.policy import RunPolicy
from relight.values.status import ENDED, Failure, Status, StatusChange
from relight.values.step import Changes, StepKind, View
from relight.values.usage import Usage, kept_long

if TYPE_CHECKING:
    from relight.files.capture import Files

_NO_LIMITS: Final = RunPolicy()


class Batch:
    """Changes collected inside a `batch()` block, committed together at its end."""

    def __init__(self, label: str | None, checkpoint: Checkpoint) -> None:
        self.label = label
        self.messages: list[dict[str, Any]] = []
        self.usage: Usage | None = None
        self.partial: list[Any] = []
        self.checkpoint = checkpoint
        """as the block will be committed; filled in by `committed`"""
        self.is_over = False
        """the block was left: what a task or thread that began inside still adds is committed on its own"""

    def add(self, messages: list[dict[str, Any]], spent: Usage | None) -> Checkpoint:
        """Add messages, and their usage."""
        self.messages += messages
        self.usage = self.usage + spent if self.usage is not None and spent is not None else spent or self.usage
        return self.checkpoint

    def committed(self, checkpoint: Checkpoint) -> None:
        """Make the checkpoint that the block's appends have returned the one that it was committed as."""
        # One object for everything inside: a caller keeps it from inside the block and uses it behind it.
        for field in checkpoint.__struct_fields__:
            msgspec.structs.force_setattr(self.checkpoint, field, getattr(checkpoint, field))


class RecordOptions(TypedDict, total=False):
    """What a step may be given besides its changes."""

    label: str | None
    release: bool
    view: View | None
    asked: bool
    finishing: bool
    uses_answers: bool


class SessionWriter:
    """The state and the guarded writes of one open session. Thread-safe."""

    def __init__(
        self,
        context: Context,
        recorder: Recorder,
        *,
        lease_seconds: float,
        files: Files | None = None,
        open_files: Callable[[], Files | None] | None = None,
    ) -> None:
        self.context = context
        self.recorder = recorder
        self.files = files
        self._open_files = open_files
        self._lease_seconds = lease_seconds
        self.batch: ContextVar[Batch | None] = ContextVar("relight_step", default=None)
        # No reference to self: a dropped session is gone at once.
        self.state = StateMap(lambda: recorder.fold.state, self.batch.get)
        self.running: set[EffectKey] = set()
        """effects that run in this attempt, and so are not in doubt"""
        self.used_answers: list[str] = []
        """keys of answers returned to the program; the next step commits them as used"""
        self.sleeping: set[str] = set()
        """slots of the pauses under way in this process"""
        self.misused: UsageError | None = None
        """an `ask` was called inside a tool: raised to the program instead of becoming a result for the model"""
        self.is_async = False
        """driven from an event loop, so tools and models may be coroutine functions"""
        self.is_supervised = False
        """a supervisor or worker started this program for the session, and starts it again when its wait is over"""
        self.is_replayed = False
        """the program was started again after its session had ended, and got the recorded result"""
        self.wait_seconds = 0.0
        """how long to wait for a session that another process owns, as given when it was opened"""
        self._budgets = limits.budgets_of(context, recorder.identity)
        self._uncounted: str | None = None
        """why usage can no longer be counted against a limit of money or tokens"""
        self._closed = False
        self._exit_error: tuple[BaseException | None] | None = None
        """the error the block was left with, while effects that still run keep the lease"""
        self._release_due = False
        """a verdict was committed while effects ran: the last of them to end releases the lease"""
        if self._is_limited:
            tree_budgets.prepare()
        with suppress(UsageError):  # an invalid file of prices is reported where a price is needed
            context.price(recorder.identity.model)  # imports the prices, for the same reason

    @property
    def name(self) -> str:
        """Its name, or its id if it has none."""
        return self.recorder.identity.name or self.recorder.identity.id

    def as_call(self, slot: Any) -> Call:
        return as_call(slot, doubtful=(slot.asked_seq, slot.site.id) not in self.running)

    @property
    def is_finished(self) -> bool:
        """Whether a verdict is recorded."""
        return self.recorder.head.status in ENDED

    @property
    def open_batch(self) -> Batch | None:
        """The batch of this context. Under the recorder's lock it is not left meanwhile."""
        batch = self.batch.get()
        return None if batch is None or batch.is_over else batch

    def messages(self) -> list[dict[str, Any]]:
        """Copies of the conversation, with what an open batch of this context adds. Never waits for a store: an event
        loop reads them in its own thread."""
        batch = self.open_batch
        with self.recorder.fold_lock:
            whole = self.recorder.fold.messages + (batch.messages if batch is not None else [])
        return unshared(whole)  # outside the lock: stored messages never change

    def pending_calls(self) -> list[Call]:
        """Calls without a result. InvalidMessage if the newest reply requests calls that relight cannot run."""
        with self.recorder.lock:
            fold = self.recorder.fold
            refuse_unseen(fold.messages, fold.format)
            return [self.as_call(slot) for slot in fold.open_slots()]

    def call_of(self, call: Call) -> Call:
        """The same call as it is recorded now."""
        with self.recorder.lock:
            slot = self.recorder.fold.slot(call.asked_seq, call.id)
            return self.as_call(slot) if slot is not None else call

    # -- writing ----------------------------------------------------------------------------------------------

    def append(
        self,
        given: Sequence[Any],
        usage: Usage | None,
        *,
        prompt: str | None = None,
        stop: str | None = None,
        model: str | None = None,
    ) -> Checkpoint:
        """`append_program`, in this thread."""
        program = self.append_program(given, usage, prompt=prompt, stop=stop, model=model)
        return driven(program, self.recorder.store)

    def append_program(
        self,
        given: Sequence[Any],
        usage: Usage | Mapping[str, Any] | SdkObject | None,
        *,
        prompt: str | None = None,
        stop: str | None = None,
        model: str | None = None,
        own_loop: bool = False,
    ) -> CommitProgram[Checkpoint]:
        """`prompt`, `stop` and `model` are what `run` knows about the message; the session's own model counts before
        the one that a reply names. `own_loop`: by a program that calls the model itself; `run` checks the limits before
        its next call."""
        messages = [a_message(one) for one in given]
        if not messages:
            raise UsageError("append needs at least one message")
        spent, model = None, self.recorder.identity.model or model
        if usage is not None:
            spent = limits.priced(self.context, spent_of(usage), model, kept_long(usage))
        fold = self.recorder.fold
        if self.batch.get() is not None:
            with self.recorder.lock:
                if (batch := self.open_batch) is not None:
                    more = messages if batch.messages else ended_turn(fold.format, fold.messages, messages)
                    return batch.add(more, spent)
        messages = ended_turn(fold.format, fold.messages, messages)
        changes = Changes(messages=messages, usage=spent, prompt=prompt, stop=stop)
        checkpoint = yield from self.record_program("message", changes)
        if self._is_limited:
            self.note_reply(messages, spent, model)
            if own_loop:
                self.stop_own_loop()
        return checkpoint

    def record(self, kind: StepKind, changes: Changes, **how: Unpack[RecordOptions]) -> Checkpoint:
        """`record_program`, in this thread."""
        return driven(self.record_program(kind, changes, **how), self.recorder.store)

    def record_program(
        self,
        kind: StepKind,
        changes: Changes,
        *,
        label: str | None = None,
        release: bool = False,
        view: View | None = None,
        asked: bool = False,
        finishing: bool = False,
        uses_answers: bool = True,
    ) -> CommitProgram[Checkpoint]:
        """Commit one step with everything due with it: unsaved state, used answers, closed calls, snapshots.

        `uses_answers=False`: a wait. The program that is started again asks everything before it again, and gets the
        answers that it was given here. `finishing`: a write that is still allowed after the block was left (the outcome
        of an effect, the end of the block).
        """
        recorder = self.recorder
        with recorder.lock:
            self.check_open(finishing=finishing)
            if release and self.running:
                release, self._release_due = False, True
            if recorder.has_unknown_commit:
                # The fold may lack the commit of unknown outcome. Everything below is computed from the fold, so that
                # commit is resolved first; if it was this very change, it is not written again.
                earlier = recorder.resolve_unknown(kind, changes)
                if earlier is not None:
                    return earlier
                self.check_open(finishing=finishing)
            pending = self.state.pending()
            used = list(self.used_answers) if uses_answers and self.used_answers else []
            whole = self._with_pending(changes, pending) if pending is not None or recorder.fold.has_open else changes
            if used:
                whole = msgspec.structs.replace(whole, used=[*used, *changes.used])
            if self.files is None:
                checkpoint = yield from recorder.commit_program(
                    kind, whole, label=label, release=release, view=view, given=changes
                )
            else:
                is_reply = any(map(recorder.fold.format.is_assistant, whole.messages))
                how: dict[str, Any] = {"label": label, "release": release, "view": view, "given": changes}
                checkpoint = self.files.commit(recorder, kind, whole, is_reply=is_reply, asked=asked, **how)
            if pending is not None:
                self.state.taken(pending)
            # Another thread may have been given an answer during the commit; only what this step recorded as used is
            # dropped.
            if used:
                self.used_answers = [key for key in self.used_answers if key not in used]
            return checkpoint

    def _with_pending(self, changes: Changes, pending: Changes | None) -> Changes:
        """Add unsaved state, and outcomes for calls that a new reply leaves unanswered."""
        if pending is not None and (pending.state or pending.unset):
            changes = msgspec.structs.replace(changes, state=pending.state, unset=pending.unset)
        closing = self._closing_outcomes(changes)
        return msgspec.structs.replace(changes, outcomes=[*closing, *changes.outcomes]) if closing else changes

    def _closing_outcomes(self, changes: Changes) -> list[Outcome]:
        """A reply or a prompt that arrives while calls are open closes them in the same commit: providers refuse it
        otherwise."""
        fold, is_prompt = self.recorder.fold, changes.prompt is not None
        if changes.carried is not None or not (is_prompt or any(map(fold.format.is_assistant, changes.messages))):
            return []
        slots = fold.open_slots()
        if not slots or (not is_prompt and self._continues_reply(slots)):
            return []
        return [closing_outcome(slot) for slot in slots]

    def _continues_reply(self, slots: list[Any]) -> bool:
        """In formats where a reply spans several items, an item right behind calls that were not started belongs to
        that reply."""
        fold = self.recorder.fold
        return (
            fold.format.spans
            and fold.format.is_assistant(fold.messages[-1])
            and all(slot.intent is None for slot in slots)
        )

    def end(self, status: Status, reason: str | None = None, *, result: Any = None, failure: Any = None) -> Checkpoint:
        """Record a verdict and release the lease."""
        self.refuse_in_batch(status)
        change = StatusChange(status=status, reason=reason, result=isolated(result, "the result"), failure=failure)
        return self.record("status", Changes(status=change), release=True)

    def check_open(self, *, finishing: bool = False) -> None:
        recorder = self.recorder
        if recorder.lost is not None:
            raise recorder.lost
        if self._closed and not finishing:
            raise UsageError("the session's block has been left", hints=["open it again: rl.session(...)"])
        if recorder.head.epoch != recorder.epoch and recorder.epoch:
            raise LeaseLost(self.name, mine=recorder.epoch, current=recorder.head.epoch)
        if not recorder.owns or (self._release_due and not finishing):
            raise Finished(self.name, recorder.head.status)

    def refuse_in_batch(self, verb: str) -> None:
        if self.open_batch is not None:
            raise UsageError(f"{verb} cannot be part of a batch() block: it commits on its own")

    def new_batch(self, label: str | None) -> Batch:
        """An empty batch, with the checkpoint it would be committed as now. A step of another thread in between moves
        it; `Batch.committed` has the last word."""
        recorder, head = self.recorder, self.recorder.head
        checkpoint = Checkpoint(
            id=f"{recorder.identity.id}@{head.seq + 1}",
            session=recorder.identity.id,
            seq=head.seq + 1,
            kind="message",
            label=label,
            created_at=at(self.context.clock.now_us()),
            model=recorder.identity.model,
        )
        return Batch(label, checkpoint)

    def reopen(
        self, handed_over_by: str | None = None, note: dict[str, Any] | None = None, tries: int = CLAIM_TRIES
    ) -> None:
        """Begin an attempt: at opening, and when a finished session continues with a new prompt."""
        if self.files is not None and (self.recorder.epoch or self._open_files is not None):
            self.files.forget_committed()  # others may have written to it since it ended, or have rewound it
        elif self.files is None and self._open_files is not None:
            self.files = self._open_files()
        limits.check_priced(self.context, self.recorder.identity, self.recorder.head)
        begin_attempt(
            self.context,
            self.recorder,
            seconds=self._lease_seconds,
            handed_over_by=handed_over_by,
            note=note,
            tries=tries,
            holder=self,
        )
        self.is_supervised |= handed_over_by is not None
        self.context.heartbeat.add(self.recorder)

    # -- effects under way ------------------------------------------------------------------------------------

    def begin_execution(self, effect: EffectKey) -> None:
        """From here until `end_execution` the session keeps its lease and the store stays open."""
        with self.recorder.lock:
            self.check_open()
            self.refuse_running(effect)
            self.running.add(effect)
            self.context.running_effects.begin(self.recorder.identity.id, effect[1])

    def end_execution(self, effect: EffectKey) -> None:
        """The last running effect to end does what was deferred: it releases the lease or ends the block."""
        try:
            with self.recorder.lock:
                self.running.discard(effect)
                left = self._exit_error if not self.running else None
                if left is None and self._release_due and not self.running:
                    self._release_lease()
            if left is not None:
                self._end_block(left[0])
        finally:
            self.context.running_effects.end(self.recorder.identity.id, effect[1])

    def _release_lease(self) -> None:
        """Release without writing a step: the verdict is committed already."""
        recorder = self.recorder
        self._release_due = False
        if recorder.owns:
            recorder.store.release(self.recorder.identity.id, owner=recorder.owner, epoch=recorder.epoch)
            recorder.head = msgspec.structs.replace(recorder.head, lease=None)

    def refuse_coroutine(self, function: Any, what: str) -> None:
        from relight.sessions.calls.tools import is_coroutine_function

        if not self.is_async and is_coroutine_function(function):
            raise UsageError(f"{what} is a coroutine function", hints=["await it: relight.aio has the same verbs"])

    def refuse_running(self, effect: EffectKey) -> None:
        if effect in self.running:
            hints = ["its outcome is recorded when it has ended; wait for it"]
            raise UsageError(f"{effect[1]!r} is still running in this process", hints=hints)

    # -- waiting ----------------------------------------------------------------------------------------------

    def wait(
        self,
        change: StatusChange,
        *,
        question: str | None = None,
        cure: str | None = None,
        until: datetime | None = None,
        answer: Sequence[Any] = (),
    ) -> Waiting:
        """Commit a wait and release the lease; the exception that leaves the block."""
        self.record("status", Changes(status=change, answer=list(answer)), release=True, uses_answers=False)
        report_uncaught_waits()
        recorded = self.recorder.head.question  # as it was redacted
        cure = cure or cure_of(recorded, change.asking, self.name)
        error = Waiting(self.name, question or as_asked(recorded), cure=cure, until=until)
        error.is_supervised = self.is_supervised
        return error

    # -- the end of the block ---------------------------------------------------------------------------------

    def left(self, error: BaseException | None) -> None:
        """The block was left: end it, or defer that to the last effect that still runs."""
        with self.recorder.lock:
            # A tool in a thread cannot be stopped. Releasing the lease while it runs would let the next attempt find a
            # call in doubt that has not even ended, so the block ends later, with the last effect.
            if self.running:
                if not self._closed:  # once: a block may be left after `close()` in it
                    self._closed, self._exit_error = True, (error,)
                return
        self._end_block(error)

    def _end_block(self, error: BaseException | None) -> None:
        """Record how the block ended, release the lease, and stop the heartbeat and the file tracking."""
        was_closed, self._closed = self._closed and self._exit_error is None, True
        self._exit_error = None
        try:
            if not was_closed:
                self._leave(error)
        finally:
            self.context.heartbeat.remove(self.recorder)
            self.context.heartbeat.claims.abandon(self.recorder.owner)
            if self.files is not None and not was_closed:
                self.files.close()

    def _leave(self, error: BaseException | None) -> None:
        recorder = self.recorder
        if recorder.has_unknown_commit:  # an interrupted claim: whether it was committed decides whether we own it
            with suppress(RelightError):
                recorder.resolve_unknown("status")
        if not recorder.owns or isinstance(error, LeaseLost):
            if error is None and recorder.lost is None and recorder.epoch in (0, recorder.head.epoch):
                self._refuse_late_state()
            return
        if self._release_due:
            self._release_lease()
            return
        self.batch.set(None)
        try:
            change = self._verdict_on_leaving(error)
            self.record("status", Changes(status=change), release=True, finishing=True)
        except Exception:  # the caller's own exception must not be replaced by any of ours
            # Nothing is lost: the lease expires, and the session is found as it was left.
            if error is None:
                raise

    def _refuse_late_state(self) -> None:
        """State that was set in a finished session would be lost without a word. A program that is started again sets
        what it set at its first start: that is no loss, and neither is what is saved already."""
        pending = self.state.pending() if self.recorder.epoch or not self.is_replayed else None
        if pending is None:
            return
        saved = self.recorder.fold.state
        late = [key for key, value in (pending.state or {}).items() if key not in saved or saved[key] != value]
        if late := sorted([*late, *pending.unset]):
            evidence = [f"not saved, because it was set after the end: s.state[{late[0]!r}]"]
            error = Finished(self.name, self.recorder.head.status, evidence=evidence)
            error.hints = ("set it before the end: in a tool, or in the loop of s.turns", *error.hints)
            raise error

    def _verdict_on_leaving(self, error: BaseException | None) -> StatusChange:
        """The status that a block is left with."""
        head = self.recorder.head
        if error is None:
            return StatusChange(status="terminated", reason="left")
        if waits := waits_of(error):  # of another session, or this one would not own its lease any more
            reason = f"left: {waits[0].session} is {waits[0].message}"
            return StatusChange(status="terminated", reason=reason_of(reason))
        # A store outage says nothing about the task. A queued session is requeued for another worker instead of failed.
        if isinstance(error, StoreUnavailable) and head.queue_position is not None:
            return StatusChange(status="queued", reason=reason_of(f"store unavailable: {error}"))
        if isinstance(error, ChildFailed | LimitReached):  # of a child that reached the budget of this session?
            limit = self._budgets.spent(self.recorder.identity.policy, head)
            if limit is not None:
                return limit.change
        if isinstance(error, Exception):
            text = reason_of(f"{type(error).__name__}: {error}")
            failure = Failure(kind="exception", text=text, fields={"type": type(error).__name__})
            return StatusChange(status="failed", reason=text, failure=failure)
        return StatusChange(status="terminated", reason=f"interrupted ({type(error).__name__})")

    # -- limits -----------------------------------------------------------------------------------------------

    @property
    def _is_limited(self) -> bool:
        """Whether a limit may cover it: one of its own, or of a session above it."""
        identity = self.recorder.identity
        return identity.policy != _NO_LIMITS or identity.spawned_by is not None

    def note_reply(self, messages: Sequence[Any], usage: Usage | None, model: str | None) -> None:
        """Remember that a reply came without usage: a limit of money or tokens can then not be enforced."""
        policy = self._budgets.covering(self.recorder.identity.policy)
        if not policy.counts_usage or not any(map(self.recorder.fold.format.is_assistant, messages)):
            return
        if usage is None or not (usage.tokens or usage.cost):
            self._uncounted = "a reply came without its usage"
        elif policy.budget is not None and usage.cost is None:
            self._uncounted = limits.no_price(model)

    def halt_at_limit(self) -> Reached | None:
        """Halt the session before a model call if a limit is reached; the limit, if one is."""
        policy, head = self.recorder.identity.policy, self.recorder.head
        limit = self._budgets.spent(policy, head) or overtime(policy, head, now_us=self.context.clock.now_us())
        if limit is None and self._uncounted is not None:
            limit = uncounted(self._budgets.covering(policy), self._uncounted)
        if limit is not None:
            self.record("status", Changes(status=limit.change), release=True)
        return limit

    def stop_own_loop(self) -> None:
        """After a program with its own loop recorded a message: LimitReached if it must not call the model again.

        Not only after a reply: between that and its tool's result, other sessions of the tree may spend the budget."""
        limit = self.halt_at_limit() if self._is_limited and self.recorder.owns else None
        if limit is not None:
            raise LimitReached(self.name, limit.why, cure=limit.cure)
