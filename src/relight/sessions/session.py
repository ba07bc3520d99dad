"""`Session`: one open session, as the program that writes it sees it.

`rl.session` opens it (opening.py): it claims the lease and begins an attempt. Each write here is one durable step,
committed before the call returns. Leaving the block without a verdict ends the attempt as `terminated`, leaving it by
an exception as `failed`; the saved steps remain in both cases, and the next opening continues from them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import msgspec

from relight.errors import Finished, LeaseLost, StoreUnavailable, UsageError, Waiting
from relight.files.capture import Files, commit_with_files
from relight.journal.codec import isolated
from relight.journal.conversation.model_replies import refuse_unseen
from relight.journal.effects.ledger import closing_outcome
from relight.journal.fold import as_call
from relight.sessions import effects, limits, questions
from relight.sessions.context import Context
from relight.sessions.coroutines import Program, drive
from relight.sessions.inputs import a_message, reason_of, spent_of
from relight.sessions.opening import begin_attempt
from relight.sessions.recorder import Recorder
from relight.sessions.reset import reset_to
from relight.sessions.running_effects import EffectKey
from relight.sessions.state import StateMap
from relight.sessions.tools import Tools, is_coroutine_function, toolbox
from relight.values.call import Call, Outcome
from relight.values.checkpoint import Checkpoint
from relight.values.ref import check_label
from relight.values.snapshot import Snapshot
from relight.values.status import ENDED, Failure, Status, StatusChange
from relight.values.step import Changes, StepKind, View
from relight.values.usage import Usage

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Batch:
    """Changes collected inside a `step()` block, committed together at its end."""

    def __init__(self, label: str | None) -> None:
        self.label = label
        self.messages: list[dict[str, Any]] = []
        self.usage: Usage | None = None
        self.partial: list[Any] = []
        self.checkpoint: Checkpoint | None = None


class Session:
    """One open session. Thread-safe: appends from several threads each get their own seq."""

    def __init__(
        self,
        context: Context,
        recorder: Recorder,
        *,
        lease_seconds: float,
        files: Files | None = None,
        open_files: Callable[[], Files | None] | None = None,
    ) -> None:
        """`open_files` is for a finished session: called only if it is reopened by a new prompt."""
        self._context = context
        self._recorder = recorder
        self._files = files
        self._open_files = open_files
        self._lease_seconds = lease_seconds
        self._state = StateMap(lambda: self._recorder.fold.state)
        self._batch: ContextVar[Batch | None] = ContextVar("relight_step", default=None)
        self._running: set[EffectKey] = set()
        """effects that run in this attempt, and so are not in doubt"""
        self._used_answers: list[str] = []
        """keys of answers returned to the program; the next step commits them as used"""
        self._misused: UsageError | None = None
        """a `wait` was called inside a tool: raised to the program instead of becoming a result for the model"""
        self._is_async = False
        """driven from an event loop, so tools and models may be coroutine functions"""
        self._uncounted: str | None = None
        """why usage can no longer be counted against a limit of money or tokens"""
        self._closed = False

        self._exit_error: tuple[BaseException | None] | None = None
        """the error the block was left with, while effects that still run keep the lease"""
        self._release_due = False
        """a verdict was committed while effects ran: the last of them to end releases the lease"""

    # -- what it is -------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """32 hexadecimal characters; never changes."""
        return self._recorder.identity.id

    @property
    def name(self) -> str | None:
        """The name it was opened under, if any."""
        return self._recorder.identity.name

    @property
    def head(self) -> str:
        """The checkpoint the next step builds on, `<id>@<seq>`."""
        return f"{self.id}@{self._recorder.head.head}"

    @property
    def status(self) -> Status:
        """The status as stored; `rl.get` derives the one to show."""
        return self._recorder.head.status

    @property
    def attempt(self) -> int:
        """Number of the current attempt, from 1."""
        return self._recorder.head.attempt

    @property
    def resumed_from(self) -> int | None:
        """The seq this attempt started from."""
        return self._recorder.head.resumed_from

    @property
    def usage(self) -> Usage:
        """Usage of all attempts together; each reply is counted once."""
        return self._recorder.head.usage

    @property
    def is_new(self) -> bool:
        """True until a message is committed."""
        return not self.messages

    @property
    def is_finished(self) -> bool:
        """Whether a verdict (`completed`, `failed`, `halted`) is recorded."""
        return self._recorder.head.status in ENDED

    @property
    def result(self) -> Any:
        """The value given to `complete`."""
        return self._recorder.fold.result

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation in the provider's own form. A new list; the messages in it are not copies."""
        batch = self._batch.get()
        with self._recorder.lock:
            return self._recorder.fold.messages + (batch.messages if batch is not None else [])

    @property
    def state(self) -> StateMap:
        """A mapping of JSON values, saved with the next step."""
        return self._state

    @property
    def partial_result(self) -> Any:
        """The newest value given to `partial`, in any attempt."""
        return self._recorder.fold.partial

    @property
    def partials(self) -> list[Any]:
        """The newest 1,000 values given to `partial`, in all attempts, oldest first."""
        return list(self._recorder.fold.partials)

    def calls(self) -> list[Call]:
        """All tool calls of the conversation, with their results."""
        with self._recorder.lock:
            return [self._as_call(slot) for slot in self._recorder.fold.slots()]

    def pending_calls(self) -> list[Call]:
        """Calls without a result, in order; `in_doubt` is set on those that an earlier attempt started.

        InvalidMessage if the newest reply requests calls in a form that relight cannot run.
        """
        with self._recorder.lock:
            fold = self._recorder.fold
            refuse_unseen(fold.messages, fold.format)
            return [self._as_call(slot) for slot in fold.open_slots()]

    def _as_call(self, slot: Any) -> Call:
        return as_call(slot, doubtful=(slot.asked_seq, slot.site.id) not in self._running)

    # -- steps ------------------------------------------------------------------------------------------------

    def append(
        self, message: dict[str, Any] | list[dict[str, Any]], usage: Usage | Mapping[str, Any] | None = None
    ) -> Checkpoint | None:
        """Commit a message, or the items of one reply, as one step. Inside `step()` it is part of that step, and None
        is returned.

        LimitReached if this reply reaches a limit of the session: the reply is stored, and the session is halted.
        """
        given = [message] if type(message) is dict else message if isinstance(message, list | tuple) else [message]
        checkpoint = self._append(given, usage)
        if checkpoint is not None:
            limits.stop_own_loop(self, given)
        return checkpoint

    def _append(
        self,
        given: Sequence[Any],
        usage: Usage | Mapping[str, Any] | None,
        *,
        prompt: str | None = None,
        stop: str | None = None,
    ) -> Checkpoint | None:
        """`prompt` and `stop` are what `loop` knows about the message. `loop` checks the limits itself before its next
        call."""
        messages = [isolated(a_message(one)) for one in given]
        if not messages:
            raise UsageError("append needs at least one message")
        spent = limits.priced(self._context, spent_of(usage), self._recorder.identity.model)
        batch = self._batch.get()
        if batch is not None:
            batch.messages += messages
            batch.usage = batch.usage + spent if batch.usage is not None and spent is not None else spent or batch.usage
            return None
        checkpoint = self._record("message", Changes(messages=messages, usage=spent, prompt=prompt, stop=stop))
        limits.note_reply(self, messages, spent)
        return checkpoint

    def checkpoint(self, label: str | None = None) -> Checkpoint:
        """Commit a checkpoint, optionally with a label to return to."""
        if label is not None:
            check_label(label)
        self._refuse_in_step("checkpoint")
        return self._record("mark", Changes(), label=label, asked=True)

    def snapshot(self) -> Snapshot | dict[str, Snapshot]:
        """Capture the files now. Durable at once, and named by the next step. A mapping by root name if there are
        several roots."""
        with self._recorder.lock:
            self._check_open()
            if self._files is None:
                raise UsageError("the session has no workspace", hints=["open it with rl.session(..., workspace=PATH)"])
            taken = self._files.capture()
        return next(iter(taken.values())) if len(taken) == 1 else taken

    def step(self, label: str | None = None) -> StepBlock:
        """A block whose appends and state changes become one step, or none if it raises."""
        if label is not None:
            check_label(label)
        return StepBlock(self, label)

    def partial(self, value: Any) -> Checkpoint | None:
        """Record a partial result: visible to readers at once, and still there after a crash."""
        value = isolated(value)
        batch = self._batch.get()
        if batch is not None:
            batch.partial.append(value)
            return None
        return self._record("mark", Changes(partial=[value]))

    def replace(self, messages: Iterable[dict[str, Any]]) -> Checkpoint:
        """Replace the conversation by other messages (compaction). The former ones remain in the journal."""
        self._refuse_in_step("replace")
        fresh = [isolated(a_message(one)) for one in messages]
        recorder = self._recorder
        with recorder.lock:
            if recorder.has_unknown_commit:
                recorder.resolve_unknown("reset")
            changes, view = reset_to(recorder, fresh)
            return self._record("reset", changes, view=view)

    # -- effects ----------------------------------------------------------------------------------------------

    def run_tool(self, call: Call, tools: Tools) -> Call:
        """Commit the intent, run the tool, commit its result. A call in doubt is handled as its effect allows."""
        return drive(effects.run_tool(self, call, toolbox(tools)), self._context.clock)

    def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Run a side effect at most once in the life of this session; later calls return the recorded result."""
        return drive(effects.once(self, key, function), self._context.clock)

    def settle(self, key: str, result: Any = None, *, retry: bool = False) -> Checkpoint:
        """Record the outcome of an effect in doubt: its result, or that it may run again (under the key `KEY/2`)."""
        self._refuse_in_step("settle")
        return effects.settle(self, key, result, retry=retry)

    def wait(
        self,
        question: str,
        *,
        key: str | None = None,
        choices: Sequence[str] | None = None,
        timeout: float | None = None,
        default: Any = ...,
    ) -> Any:
        """Return a person's answer; if there is none yet, commit `waiting` and leave the block (the next opening asks
        again).

        An answer belongs to one asking: the same text asked again later is a new question. `key` makes all askings
        under it one. `choices` restricts the answers. `default` is the answer once `timeout` seconds have passed since
        the first asking.
        """
        return questions.wait(self, question, key, choices, timeout, default)

    # -- verdicts ---------------------------------------------------------------------------------------------

    def complete(self, result: Any = None) -> Checkpoint:
        """End the session as completed and store its result."""
        return self._end(StatusChange(status="completed", result=isolated(result)))

    def fail(self, reason: str, *, failure: Failure | None = None) -> Checkpoint:
        """End the attempt as failed. All steps remain, and a new attempt may continue from them."""
        failure = failure or Failure(kind="agent", text=reason_of(reason))
        return self._end(StatusChange(status="failed", reason=reason_of(reason), failure=failure))

    def halt(self, reason: str) -> Checkpoint:
        """Stop on purpose before the task is done, for example on a loop or a budget."""
        return self._end(StatusChange(status="halted", reason=reason_of(reason)))

    def _end(self, change: StatusChange) -> Checkpoint:
        self._refuse_in_step(change.status)
        return self._record("status", Changes(status=change), release=True)

    # -- the block --------------------------------------------------------------------------------------------

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False] | bool:
        if self._recorder.is_inherited:  # a forked child: session and files belong to the parent
            return False
        waits = isinstance(error, Waiting) and error.session in (self.name, self.id)
        with self._recorder.lock:
            # A tool in a thread cannot be stopped. Releasing the lease while it runs would let the next attempt find a
            # call in doubt that has not even ended, so the block ends later, with the last effect.
            if self._running and not self._closed:
                self._closed, self._exit_error = True, (error,)
                return waits
        self._end_block(error)
        return waits

    def _end_block(self, error: BaseException | None) -> None:
        """Record how the block ended, release the lease, and stop the heartbeat and the file tracking."""
        was_closed, self._closed = self._closed and self._exit_error is None, True
        self._exit_error = None
        try:
            if not was_closed:
                self._leave(error)
        finally:
            self._context.heartbeat.remove(self._recorder)
            if self._files is not None and not was_closed:
                self._files.close()

    def close(self) -> None:
        """Leave the block without a verdict: `terminated`, reason "left"; the next opening continues."""
        self.__exit__(None, None, None)

    def _leave(self, error: BaseException | None) -> None:
        recorder = self._recorder
        if not recorder.owns or isinstance(error, LeaseLost):
            return
        if self._release_due:
            self._release_lease()
            return
        if error is None:
            change = StatusChange(status="terminated", reason="left")
        # A store outage says nothing about the task. A queued session is requeued for another worker instead of failed.
        elif isinstance(error, StoreUnavailable) and recorder.head.queue_position is not None:
            change = StatusChange(status="queued", reason=reason_of(f"store unavailable: {error}"))
        elif isinstance(error, Exception):
            text = reason_of(f"{type(error).__name__}: {error}")
            failure = Failure(kind="exception", text=text, fields={"type": type(error).__name__})
            change = StatusChange(status="failed", reason=text, failure=failure)
        else:
            change = StatusChange(status="terminated", reason=f"interrupted ({type(error).__name__})")
        self._batch.set(None)
        try:
            self._record("status", Changes(status=change), release=True, finishing=True)
        except Exception:
            # The caller's own exception must not be replaced by ours. Nothing is lost: the lease expires, and the
            # session is found as it was left.
            if error is None:
                raise

    # -- committing -------------------------------------------------------------------------------------------

    def _reopen(self, handed_over_by: str | None = None, note: dict[str, Any] | None = None) -> None:
        """Begin an attempt: at opening, and when a finished session continues with a new prompt."""
        if self._files is None and self._open_files is not None:
            self._files = self._open_files()
        limits.check_priced(self._context, self._recorder.identity, self._recorder.head)
        begin_attempt(
            self._context, self._recorder, seconds=self._lease_seconds, handed_over_by=handed_over_by, note=note
        )
        self._context.heartbeat.add(self._recorder)

    # -- effects under way ------------------------------------------------------------------------------------

    def _begin_execution(self, effect: EffectKey) -> None:
        """From here until `_end_execution` the session keeps its lease and the store stays open."""
        with self._recorder.lock:
            self._check_open()
            self._refuse_running(effect)
            self._running.add(effect)
            self._context.running_effects.begin(self.id, effect[1])

    def _end_execution(self, effect: EffectKey) -> None:
        """The last running effect to end does what was deferred: it releases the lease or ends the block."""
        try:
            with self._recorder.lock:
                self._running.discard(effect)
                left = self._exit_error if not self._running else None
                if left is None and self._release_due and not self._running:
                    self._release_lease()
            if left is not None:
                self._end_block(left[0])
        finally:
            self._context.running_effects.end(self.id, effect[1])

    def _release_lease(self) -> None:
        """Release without writing a step: the verdict is committed already."""
        recorder = self._recorder
        self._release_due = False
        if recorder.owns:
            recorder.store.release(self.id, owner=recorder.owner, epoch=recorder.epoch)
            recorder.head = msgspec.structs.replace(recorder.head, lease=None)

    def _refuse_coroutine(self, function: Any, what: str) -> None:
        if not self._is_async and is_coroutine_function(function):
            raise UsageError(f"{what} is a coroutine function", hints=["await it: relight.aio has the same verbs"])

    def _refuse_running(self, effect: EffectKey) -> None:
        if effect in self._running:
            hints = ["its outcome is recorded when it has ended; wait for it"]
            raise UsageError(f"{effect[1]!a} is still running in this process", hints=hints)

    def _record(
        self,
        kind: StepKind,
        changes: Changes,
        *,
        label: str | None = None,
        release: bool = False,
        view: View | None = None,
        asked: bool = False,
        finishing: bool = False,
    ) -> Checkpoint:
        """Commit one step with everything due with it: unsaved state, used answers, closed calls, snapshots.

        `finishing`: a write that is still allowed after the block was left (the outcome of an effect, the end of the
        block).
        """
        recorder = self._recorder
        with recorder.lock:
            self._check_open(finishing=finishing)
            if release and self._running:
                release, self._release_due = False, True
            if recorder.has_unknown_commit:
                # The fold may lack the commit of unknown outcome. Everything below is computed from the fold, so that
                # commit is resolved first; if it was this very change, it is not written again.
                earlier = recorder.resolve_unknown(kind, changes)
                if earlier is not None:
                    return earlier
                self._check_open(finishing=finishing)
            pending = self._state.pending()
            used = list(self._used_answers)
            whole = self._with_pending(changes, pending) if pending is not None or recorder.fold.has_open else changes
            if used:
                whole = msgspec.structs.replace(whole, used=[*used, *changes.used])
            how: dict[str, Any] = {"label": label, "release": release, "view": view, "given": changes, "asked": asked}
            is_reply = self._files is not None and any(map(recorder.fold.format.is_assistant, whole.messages))
            checkpoint = commit_with_files(self._files, recorder, kind, whole, is_reply=is_reply, **how)
            if pending is not None:
                self._state.taken(pending)
            # Another thread may have been given an answer during the commit; only what this step recorded as used is
            # dropped.
            self._used_answers = [key for key in self._used_answers if key not in used]
            return checkpoint

    def _with_pending(self, changes: Changes, pending: Changes | None) -> Changes:
        """Add unsaved state, and outcomes for calls that a new reply leaves unanswered."""
        if pending is not None and (pending.state or pending.unset):
            changes = msgspec.structs.replace(changes, state=pending.state, unset=pending.unset)
        closing = self._closing_outcomes(changes)
        return msgspec.structs.replace(changes, outcomes=[*closing, *changes.outcomes]) if closing else changes

    def _closing_outcomes(self, changes: Changes) -> list[Outcome]:
        """A reply that arrives while calls are open closes them in the same commit: providers refuse it otherwise."""
        fold = self._recorder.fold
        is_assistant = fold.format.is_assistant
        if changes.carried is not None or not any(map(is_assistant, changes.messages)):
            return []
        slots = fold.open_slots()
        if not slots or self._continues_reply(slots):
            return []
        return [closing_outcome(slot) for slot in slots]

    def _continues_reply(self, slots: list[Any]) -> bool:
        """In formats where a reply spans several items, an item right behind calls that were not started belongs to
        that reply."""
        fold = self._recorder.fold
        return (
            fold.format.spans
            and fold.format.is_assistant(fold.messages[-1])
            and all(slot.intent is None for slot in slots)
        )

    def _check_open(self, *, finishing: bool = False) -> None:
        recorder = self._recorder
        if recorder.lost is not None:
            raise recorder.lost
        if self._closed and not finishing:
            raise UsageError("the session's block has been left", hints=["open it again: rl.session(...)"])
        if recorder.head.epoch != recorder.epoch and recorder.epoch:
            raise LeaseLost(self.name or self.id, mine=recorder.epoch, current=recorder.head.epoch)
        if not recorder.owns or (self._release_due and not finishing):
            raise Finished(self.name or self.id, recorder.head.status)

    def _refuse_in_step(self, verb: str) -> None:
        if self._batch.get() is not None:
            raise UsageError(f"{verb} cannot be part of a step() block: it commits on its own")


def driven(
    program: Callable[Concatenate[Session, _P], Program[_T]], *, name: str
) -> Callable[Concatenate[Session, _P], _T]:
    """A program as a blocking function of this name."""

    def run(s: Session, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return drive(program(s, *args, **kwargs), s._context.clock)

    run.__name__ = run.__qualname__ = name
    run.__doc__, run.__module__ = program.__doc__, program.__module__
    run.__signature__ = inspect.signature(program).replace(return_annotation="Any")  # type: ignore[attr-defined]
    return run


class StepBlock:
    """`with s.step("label"):` commits everything inside as one step."""

    def __init__(self, session: Session, label: str | None) -> None:
        self._session = session
        self._batch = Batch(label)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The committed step; None until the block has ended."""
        return self._batch.checkpoint

    def __enter__(self) -> StepBlock:
        self._session._refuse_in_step("step")
        self._session._check_open()
        self._mark = self._session._state.mark()
        self._session._batch.set(self._batch)
        return self

    def leave(self) -> None:
        """Stop collecting: what follows is committed on its own."""
        self._session._batch.set(None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, batch = self._session, self._batch
        self.leave()
        if error is not None:
            session._state.roll_back(self._mark)
            return
        changes = Changes(messages=batch.messages, usage=batch.usage, partial=batch.partial)
        try:
            pending = session._state.pending()
            is_state = pending is not None and pending.state
            step_kind: StepKind = "message" if batch.messages else ("state" if is_state else "mark")
            batch.checkpoint = session._record(step_kind, changes, label=batch.label)
        except BaseException:
            session._state.roll_back(self._mark)  # or the next step would save half of the block
            raise
        if batch.messages:
            limits.note_reply(session, batch.messages, batch.usage)
            limits.stop_own_loop(session, batch.messages)
