"""`s`: one open session, as a program sees it.

A session is opened by `rl.session` (opening.py), which claims the lease and begins an attempt. Everything written
here is one durable step, committed before the call returns. Leaving the block without a verdict ends the attempt as
`terminated`, an exception as `failed`; in both cases everything saved is kept and the next opening goes on from it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import msgspec

from relight.errors import Finished, LeaseLost, StoreUnavailable, UsageError, Waiting
from relight.files.capture import Files, with_snapshots
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
from relight.values.policy import Retry
from relight.values.ref import check_label
from relight.values.snapshot import Snapshot
from relight.values.status import ENDED, Failure, Status, StatusChange
from relight.values.step import Changes, StepKind, View
from relight.values.usage import Usage

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Batch:
    """The changes of a `step()` block, until its end."""

    def __init__(self, label: str | None) -> None:
        self.label = label
        self.messages: list[dict[str, Any]] = []
        self.usage: Usage | None = None
        self.partial: list[Any] = []
        self.checkpoint: Checkpoint | None = None


class Session:
    """An open session. Thread-safe; each append gets its own seq."""

    def __init__(
        self,
        context: Context,
        recorder: Recorder,
        *,
        lease_seconds: float,
        files: Files | None = None,
        open_files: Callable[[], Files | None] | None = None,
    ) -> None:
        """`open_files` is for a finished session: asked where it goes on with a new prompt."""
        self._context = context
        self._recorder = recorder
        self._files = files
        self._open_files = open_files
        self._lease_seconds = lease_seconds
        self._state = StateMap(lambda: self._recorder.fold.state)
        self._batch: ContextVar[Batch | None] = ContextVar("relight_step", default=None)
        self._running: set[EffectKey] = set()
        """effects under way in this very attempt: not in doubt"""
        self._used_answers: list[str] = []
        """keys of answers that the program was given; committed as used with the next step"""
        self._misused: UsageError | None = None
        """the error of a `wait` inside a tool: for the tool's author, not for the model"""
        self._is_async = False
        """driven from an event loop: its functions may be coroutine functions"""
        self._uncounted: str | None = None
        """why a limit of money or tokens cannot be counted any more"""
        self._closed = False
        """the block was left"""
        self._exit_error: tuple[BaseException | None] | None = None
        """with which error it was left, where effects under way keep the lease until they have ended"""
        self._release_due = False
        """a verdict was given while effects were under way: the lease goes with the last of them"""

    # -- what it is -------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """32 hexadecimal characters, for ever the same."""
        return self._recorder.identity.id

    @property
    def name(self) -> str | None:
        """The name it was opened under."""
        return self._recorder.identity.name

    @property
    def head(self) -> str:
        """The checkpoint it stands on, `<id>@<seq>`."""
        return f"{self.id}@{self._recorder.head.head}"

    @property
    def status(self) -> Status:
        """As stored."""
        return self._recorder.head.status

    @property
    def attempt(self) -> int:
        """Which life of this session this is, from 1."""
        return self._recorder.head.attempt

    @property
    def resumed_from(self) -> int | None:
        """The seq this attempt started from."""
        return self._recorder.head.resumed_from

    @property
    def usage(self) -> Usage:
        """Of the whole session, over all attempts, each reply counted once."""
        return self._recorder.head.usage

    @property
    def is_new(self) -> bool:
        """True until a message is committed."""
        return not self.messages

    @property
    def is_finished(self) -> bool:
        """Has it a verdict?"""
        return self._recorder.head.status in ENDED

    @property
    def result(self) -> Any:
        """What `complete` was given."""
        return self._recorder.fold.result

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation as the provider takes it. A fresh list; the messages in it are not copies."""
        batch = self._batch.get()
        with self._recorder.lock:
            return self._recorder.fold.messages + (batch.messages if batch is not None else [])

    @property
    def state(self) -> StateMap:
        """A mapping of JSON values, saved with the next step."""
        return self._state

    @property
    def partial_result(self) -> Any:
        """The newest value given to `partial`, over all attempts."""
        return self._recorder.fold.partial

    @property
    def partials(self) -> list[Any]:
        """All values given to `partial`, oldest first, over all attempts; the newest 1,000 of them."""
        return list(self._recorder.fold.partials)

    def calls(self) -> list[Call]:
        """All tool calls in the conversation, with their results."""
        with self._recorder.lock:
            return [self._as_call(slot) for slot in self._recorder.fold.slots()]

    def pending_calls(self) -> list[Call]:
        """Calls without a result, in order; `in_doubt` on those that an earlier attempt had started.

        InvalidMessage where the newest reply asks for something in a form that nobody here would run.
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
        """Commit a message, or the items of one reply, as one step. Inside `step()`: with the block, and None now.

        LimitReached where this reply reaches a limit of the session: it is kept, and the session is halted.
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
        """`prompt`, `stop`: what `loop` knows of the message; it looks at the limits itself, before it asks again."""
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
        """Commit a mark, with a label by which one can return to it."""
        if label is not None:
            check_label(label)
        self._refuse_in_step("checkpoint")
        return self._record("mark", Changes(), label=label, asked=True)

    def snapshot(self) -> Snapshot | dict[str, Snapshot]:
        """Capture the files now; durable, and part of the next step. By root name where there are several."""
        with self._recorder.lock:
            self._check_open()
            if self._files is None:
                raise UsageError("the session has no workspace", hints=["open it with rl.session(..., workspace=PATH)"])
            taken = self._files.capture()
        return next(iter(taken.values())) if len(taken) == 1 else taken

    def step(self, label: str | None = None) -> StepBlock:
        """A block whose appends and state changes become one step, or none where it raises."""
        if label is not None:
            check_label(label)
        return StepBlock(self, label)

    def partial(self, value: Any) -> Checkpoint | None:
        """Record a partial result: shown, and there again after a crash."""
        value = isolated(value)
        batch = self._batch.get()
        if batch is not None:
            batch.partial.append(value)
            return None
        return self._record("mark", Changes(partial=[value]))

    def replace(self, messages: Iterable[dict[str, Any]]) -> Checkpoint:
        """Put other messages in place of the conversation (compaction). What was there stays in the journal."""
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
        """Commit the intent, run the tool, commit its result; for a call in doubt, what its effect allows."""
        return drive(effects.run_tool(self, call, toolbox(tools)), self._context.clock)

    def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Run any side effect at most once in this session's life; later calls return the recorded result."""
        return drive(effects.once(self, key, function), self._context.clock)

    def settle(self, key: str, result: Any = None, *, retry: bool = False) -> Checkpoint:
        """Decide what to believe about an effect in doubt: its result, or that it may run again (`KEY/2`)."""
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
        """A person's answer, over restarts; where there is none, commit `waiting` and leave the block.

        An answer is for one asking: the same text asked again later is a new question. `key`: all askings under it are
        one. `choices`: no other answer is taken. `timeout` seconds after it was first asked, `default` is the answer.
        """
        return questions.wait(self, question, key, choices, timeout, default)

    # -- verdicts ---------------------------------------------------------------------------------------------

    def complete(self, result: Any = None) -> Checkpoint:
        """The task is done. Its result is kept with it."""
        return self._end(StatusChange(status="completed", result=isolated(result)))

    def fail(self, reason: str, *, failure: Failure | None = None) -> Checkpoint:
        """The task failed; everything is kept, and a new attempt may go on."""
        failure = failure or Failure(kind="agent", text=reason_of(reason))
        return self._end(StatusChange(status="failed", reason=reason_of(reason), failure=failure))

    def halt(self, reason: str) -> Checkpoint:
        """Stopped on purpose before the end: a loop, a budget."""
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
        if self._recorder.is_inherited:  # a forked child: the session, and the files it looks at, are its parent's
            return False
        waits = isinstance(error, Waiting) and error.session in (self.name, self.id)
        with self._recorder.lock:
            if self._running and not self._closed:
                self._closed, self._exit_error = True, (error,)
                return waits
        self._end_block(error)
        return waits

    def _end_block(self, error: BaseException | None) -> None:
        """Give the lease back with what the block was left with, and let go of everything."""
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
        """Leave without a verdict: `terminated`, reason "left"; the next opening goes on."""
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
        elif isinstance(error, StoreUnavailable) and recorder.head.place is not None:
            change = StatusChange(
                status="queued", reason=reason_of(f"its store was away: {error}")
            )  # that is no verdict
        elif isinstance(error, Exception):
            text = reason_of(f"{type(error).__name__}: {error}")
            failure = Failure(kind="exception", text=text, fields={"type": type(error).__name__})
            change = StatusChange(status="failed", reason=text, failure=failure)
        else:
            change = StatusChange(status="terminated", reason=f"interrupted ({type(error).__name__})")
        self._batch.set(None)
        try:
            self._record("status", Changes(status=change), release=True, finishing=True)
        except Exception:  # the error that ends the block matters more than the verdict that could not be written
            if error is None:
                raise  # else the lease runs out, and the session is found as it was left

    # -- committing -------------------------------------------------------------------------------------------

    def _reopen(self, handed_over_by: str | None = None, note: dict[str, Any] | None = None) -> None:
        """Begin an attempt: at opening, and where a finished session goes on with a new prompt."""
        if self._files is None and self._open_files is not None:
            self._files = self._open_files()
        limits.check_priced(self._context, self._recorder.identity, self._recorder.head)
        begin_attempt(
            self._context, self._recorder, seconds=self._lease_seconds, handed_over_by=handed_over_by, note=note
        )
        self._context.heartbeat.add(self._recorder)

    def _backoff_seconds(self, retry: Retry, failures: int) -> float:
        return retry.delay_seconds(failures, self._context.entropy.jitter())

    # -- effects under way ------------------------------------------------------------------------------------

    def _begin_execution(self, place: EffectKey) -> None:
        """From here on the session keeps its lease, and the store stays open, until `_end_execution`."""
        with self._recorder.lock:
            self._check_open()
            self._refuse_running(place)
            self._running.add(place)
            self._context.running_effects.begin(self.id, place[1])

    def _end_execution(self, place: EffectKey) -> None:
        """The last effect under way gives back what waited for it."""
        try:
            with self._recorder.lock:
                self._running.discard(place)
                left = self._exit_error if not self._running else None
                if left is None and self._release_due and not self._running:
                    self._release_lease()
            if left is not None:
                self._end_block(left[0])
        finally:
            self._context.running_effects.end(self.id, place[1])

    def _release_lease(self) -> None:
        """The lease, without a step: the verdict is committed."""
        recorder = self._recorder
        self._release_due = False
        if recorder.owns:
            recorder.store.release(self.id, owner=recorder.owner, epoch=recorder.epoch)
            recorder.head = msgspec.structs.replace(recorder.head, lease=None)

    def _refuse_coroutine(self, function: Any, what: str) -> None:
        if not self._is_async and is_coroutine_function(function):
            raise UsageError(f"{what} is a coroutine function", hints=["await it: relight.aio has the same verbs"])

    def _refuse_running(self, place: EffectKey) -> None:
        if place in self._running:
            hints = ["its outcome is recorded when it has ended; wait for it"]
            raise UsageError(f"{place[1]!a} is being run by this process at the moment", hints=hints)

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
        """`finishing`: what an effect that was begun here, or the end of the block, has to say after it was left."""
        recorder = self._recorder
        with recorder.lock:
            self._check_open(finishing=finishing)
            if release and self._running:
                release, self._release_due = False, True
            if recorder.has_unknown_commit:
                earlier = recorder.resolve_unknown(kind, changes)
                if earlier is not None:
                    return earlier
                self._check_open(finishing=finishing)
            pending = self._state.pending()
            used = list(self._used_answers)
            whole = self._with_pending(changes, pending) if pending is not None or recorder.fold.has_open else changes
            if used:
                whole = msgspec.structs.replace(whole, used=[*used, *changes.used])
            if self._files is None:
                checkpoint = recorder.commit(kind, whole, label=label, release=release, view=view, given=changes)
            else:
                commit = functools.partial(
                    recorder.commit, kind, label=label, release=release, view=view, given=changes
                )
                checkpoint = self._with_files(kind, whole, asked, commit)
            if pending is not None:
                self._state.taken(pending)
            self._used_answers = [key for key in self._used_answers if key not in used]
            return checkpoint

    def _with_files(
        self,
        kind: StepKind,
        changes: Changes,
        asked: bool,
        commit: Callable[..., Checkpoint],
    ) -> Checkpoint:
        """Commit with the snapshots that are due, or with a note why there are none."""
        assert self._files is not None
        is_reply = any(self._recorder.fold.format.is_assistant(one) for one in changes.messages)

        def write(snapshots: tuple[Snapshot, ...], failure: str | None) -> Checkpoint:
            return commit(with_snapshots(changes, snapshots, failure), snapshots=snapshots)

        return self._files.commit(kind, is_reply=is_reply, asked=asked, write=write)

    def _with_pending(self, changes: Changes, pending: Changes | None) -> Changes:
        """With what every step takes along: state not saved yet, and results for calls that a reply leaves behind."""
        if pending is not None and (pending.state or pending.unset):
            changes = msgspec.structs.replace(changes, state=pending.state, unset=pending.unset)
        closing = self._closing_outcomes(changes)
        return msgspec.structs.replace(changes, outcomes=[*closing, *changes.outcomes]) if closing else changes

    def _closing_outcomes(self, changes: Changes) -> list[Outcome]:
        """A reply that comes while calls are open closes them in the same commit."""
        fold = self._recorder.fold
        is_assistant = fold.format.is_assistant
        if changes.carried is not None or not any(map(is_assistant, changes.messages)):
            return []
        slots = fold.open_slots()
        if not slots or self._continues_reply(slots):
            return []
        return [closing_outcome(slot) for slot in slots]

    def _continues_reply(self, slots: list[Any]) -> bool:
        """Where replies span items, an item right behind calls that nobody started belongs to the same reply."""
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
    """A program as a function of this name: run to its end in the calling thread."""

    def run(s: Session, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return drive(program(s, *args, **kwargs), s._context.clock)

    run.__name__ = run.__qualname__ = name
    run.__doc__, run.__module__ = program.__doc__, program.__module__
    run.__signature__ = inspect.signature(program).replace(return_annotation="Any")  # type: ignore[attr-defined]
    return run


class StepBlock:
    """`with s.step("label"):` one commit for everything inside."""

    def __init__(self, session: Session, label: str | None) -> None:
        self._session = session
        self._batch = Batch(label)

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The committed step, after the block."""
        return self._batch.checkpoint

    def __enter__(self) -> StepBlock:
        self._session._refuse_in_step("step")
        self._session._check_open()
        self._mark = self._session._state.mark()
        self._session._batch.set(self._batch)
        return self

    def leave(self) -> None:
        """What follows is no part of the block any more."""
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
            session._state.roll_back(self._mark)  # else the next step would take half of the block along
            raise
        if batch.messages:
            limits.note_reply(session, batch.messages, batch.usage)
            limits.stop_own_loop(session, batch.messages)
