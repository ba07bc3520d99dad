"""`Session`: one open session, as the program that writes it sees it.

`rl.session` opens it (opening.py): it claims the lease and begins an attempt. Each write here is one durable step,
committed before the call returns. Leaving the block without a verdict ends the attempt as `terminated`, leaving it by
an exception as `failed`; the saved steps remain in both cases, and the next opening continues from them. No exception
is swallowed: `Waiting` leaves the block too, after the wait is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Unpack

from relight.errors import UsageError
from relight.journal.codec import isolated
from relight.sessions.context import Context
from relight.sessions.coroutines import Program, drive
from relight.sessions.entry.options import SessionOptions
from relight.sessions.inputs import SdkObject, a_message, appended, reason_of
from relight.sessions.opening import opened_within
from relight.sessions.recorder import CommitProgram, Recorder, driven
from relight.sessions.session_writer import SessionWriter
from relight.sessions.state import StateMap
from relight.system.lazy_module import LazyModule
from relight.values.call import Call
from relight.values.checkpoint import Checkpoint
from relight.values.policy import MAX_TURNS, PARALLEL, LoopGuard, Retry
from relight.values.ref import check_label
from relight.values.status import Failure, Status
from relight.values.step import Changes, StepKind
from relight.values.usage import Usage

if TYPE_CHECKING:
    from relight.files.capture import Files
    from relight.sessions import reset
    from relight.sessions.calls import effects, questions, timers
    from relight.sessions.calls import tools as toolboxes
    from relight.sessions.calls.tools import Tools
    from relight.sessions.entry import children as family
    from relight.sessions.turns import loop, prompts, rewinding, stream
    from relight.values.info import ChildInfo
    from relight.values.snapshot import Snapshot
else:  # what an append needs is imported above, before the first one: see Recorder
    effects, questions, timers, toolboxes = (
        LazyModule(f"relight.sessions.calls.{name}") for name in ("effects", "questions", "timers", "tools")
    )
    loop, prompts, rewinding, stream = (
        LazyModule(f"relight.sessions.turns.{name}") for name in ("loop", "prompts", "rewinding", "stream")
    )
    family, reset = map(LazyModule, ("relight.sessions.entry.children", "relight.sessions.reset"))

_RETRY: Final = Retry()
_GUARD: Final = LoopGuard()


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
        opens: Callable[..., Session],
    ) -> None:
        """`open_files` is for a finished session: called only if it is reopened by a new prompt. `opens`: what opens
        its children."""
        self._writer = SessionWriter(context, recorder, lease_seconds=lease_seconds, files=files, open_files=open_files)
        self._context, self._recorder, self._opens = context, recorder, opens

    def __repr__(self) -> str:
        return f"<relight session {self.name or self.id} at @{self._recorder.head.head}, {self.status}>"

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
        """The status as stored; `rl.sessions.get` derives the one to show."""
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
    def workspace(self) -> dict[str, str]:
        """The directories whose files it captures, by root name (`main` if there is one); a fork has its own."""
        return dict(self._recorder.identity.workspace)

    @property
    def usage(self) -> Usage:
        """Usage of all attempts together; each reply is counted once."""
        return self._recorder.head.usage

    @property
    def is_new(self) -> bool:
        """True until a message is committed."""
        return not self._recorder.fold.messages

    @property
    def is_finished(self) -> bool:
        """Whether a verdict (`completed`, `failed`, `halted`) is recorded."""
        return self._writer.is_finished

    @property
    def result(self) -> Any:
        """The value given to `complete`."""
        return self._recorder.fold.result

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation in the provider's own form. Copies: what is changed in them changes nothing here."""
        return self._writer.messages()

    @property
    def state(self) -> StateMap:
        """A mapping of JSON values, saved with the next step."""
        return self._writer.state

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
            return [self._writer.as_call(slot) for slot in self._recorder.fold.slots()]

    def pending_calls(self) -> list[Call]:
        """Calls without a result, in order; `in_doubt` is set on those that an earlier attempt started.

        InvalidMessage if the newest reply requests calls in a form that relight cannot run.
        """
        return self._writer.pending_calls()

    # -- turns ------------------------------------------------------------------------------------------------

    def run(
        self,
        model: Callable[..., Any],
        *,
        tools: Tools = (),
        prompt: str | None = None,
        prompt_id: str | None = None,
        max_turns: int = MAX_TURNS,
        parallel: int = PARALLEL,
        in_doubt: loop.InDoubt = "tell",
        retry: Retry = _RETRY,
        guard: LoopGuard = _GUARD,
    ) -> Any:
        """Ask the model and run its calls until it requests no more; returns the session's result. Calls that a crash
        left open come first. Tool calls of one reply run side by side, up to `parallel` at a time: plain functions in
        threads, coroutines as tasks. A finished session returns at once.

        `prompt` is a user's turn, as in `prompt`. `in_doubt="wait"` asks a person about a call that may have happened,
        instead of telling the model.
        """
        turns = loop.Turns(
            self._writer,
            tools,
            prompt=prompt,
            prompt_id=prompt_id,
            max_turns=max_turns,
            parallel=parallel,
            in_doubt=in_doubt,
            guard=guard,
        )
        return drive(loop.run_program(turns, model, retry), self._context.clock)

    def turns(
        self,
        tools: Tools | None = None,
        *,
        prompt: str | None = None,
        prompt_id: str | None = None,
        max_turns: int = MAX_TURNS,
        parallel: int = PARALLEL,
        in_doubt: loop.InDoubt = "tell",
        guard: LoopGuard = _GUARD,
    ) -> loop.Turns:
        """The loop of `run` by hand: `for turn in s.turns(tools): turn.reply(ask(s.messages))`.

        Before each turn the calls that are open are run with `tools`, whether a crash or the program left them; a
        program may run them itself: `for call in turn.reply(...).calls: call.run()`. Ends with a verdict, as `run`.
        """
        return loop.Turns(
            self._writer,
            tools,
            prompt=prompt,
            prompt_id=prompt_id,
            max_turns=max_turns,
            parallel=parallel,
            in_doubt=in_doubt,
            guard=guard,
        )

    def prompt(self, text: str, id: str | None = None) -> Checkpoint | None:
        """A user's turn. With an id: once an id, whatever the text. Without: the text of the newest prompt is that
        prompt (a restarted program), and any other text is a new turn. None if the session has had it.

        Calls that are open are answered in the same step, as not run or of unknown outcome. A finished session is
        resumed. LimitReached if a limit that covers the session is used up: the prompt is stored, and the session is
        halted.
        """
        return drive(prompts.prompt_once(self._writer, text, id), self._writer.context.clock)

    # -- steps ------------------------------------------------------------------------------------------------

    def append(
        self,
        message: Mapping[str, Any] | Sequence[Any] | SdkObject,
        usage: Usage | Mapping[str, Any] | SdkObject | None = None,
    ) -> Checkpoint:
        """Commit a message, the items of one reply, or what a provider's SDK returned (with its usage) as one step.
        Inside `batch()` it is part of that step; the checkpoint is the one that the block is committed as, exact once
        the block has ended.

        LimitReached if a limit that covers the session is used up, by this reply or by others of its tree: the message
        is stored, and the session is halted.
        """
        return driven(self._appending(message, usage), self._recorder.store)

    def _appending(self, message: Any, usage: Any) -> CommitProgram[Checkpoint]:
        given, usage, stop, model = appended(message, usage, self._recorder.fold)
        return (yield from self._writer.append_program(given, usage, stop=stop, model=model, own_loop=True))

    def checkpoint(self, label: str | None = None) -> Checkpoint:
        """Commit a checkpoint, optionally with a label to return to."""
        if label is not None:
            label = check_label(label)
        self._writer.refuse_in_batch("checkpoint")
        return self._writer.record("mark", Changes(), label=label, asked=True)

    def snapshot(self) -> Snapshot | dict[str, Snapshot]:
        """Capture the files now. Durable at once, and named by the next step. A mapping by root name if there are
        several roots."""
        with self._recorder.lock:
            self._writer.check_open()
            if self._writer.files is None:
                raise UsageError("the session has no workspace", hints=["open it with rl.session(..., workspace=PATH)"])
            taken = self._writer.files.capture()
        return next(iter(taken.values())) if len(taken) == 1 else taken

    def batch(self, label: str | None = None) -> BatchBlock:
        """A block whose appends and state changes become one step, or none if it raises."""
        if label is not None:
            label = check_label(label)
        return BatchBlock(self._writer, label)

    def partial(self, value: Any) -> Checkpoint:
        """Record a partial result: visible to readers at once, and still there after a crash."""
        value = isolated(value, "the partial result")
        with self._recorder.lock:
            if (batch := self._writer.open_batch) is not None:
                batch.partial.append(value)
                return batch.checkpoint
        return self._writer.record("mark", Changes(partial=[value]))

    def replace(self, messages: Iterable[dict[str, Any]]) -> Checkpoint:
        """Replace the conversation by other messages (compaction). The former ones remain in the journal."""
        self._writer.refuse_in_batch("replace")
        if not isinstance(messages, Iterable):
            raise UsageError(f"replace takes a list of messages, not {type(messages).__name__}")
        fresh = [a_message(one) for one in messages]
        recorder = self._recorder
        with recorder.lock:
            if recorder.has_unknown_commit:
                recorder.resolve_unknown("reset")
            changes, view = reset.reset_to(recorder, fresh)
            return self._writer.record("reset", changes, view=view)

    def stream(self) -> stream.Stream:
        """A block for the text of a reply in progress: `with s.stream() as out: out.write(text)`. Readers see it as the
        partial result, a step for each second or 4 kB, until the reply is appended."""
        return stream.Stream(self._writer)

    def rewind(self, checkpoint: Checkpoint | str | int) -> Checkpoint:
        """Go back to a checkpoint of this session (itself, its label, its seq): conversation and state are as they were
        then, and files stay. Nothing is deleted, and an effect that ran since is not run again: it keeps its outcome.
        State that no step has saved is dropped."""
        return rewinding.rewind(self._writer, checkpoint)

    # -- effects ----------------------------------------------------------------------------------------------

    def run_tool(self, call: Call, tools: Tools) -> Call:
        """Commit the intent, run the tool, commit its result. A call in doubt is handled as its effect allows."""
        return drive(effects.run_tool(self._writer, call, toolboxes.toolbox(tools)), self._writer.context.clock)

    def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Run a side effect at most once in the life of this session; later calls return the recorded result."""
        return drive(effects.once(self._writer, key, function), self._writer.context.clock)

    def settle(self, key: str, result: Any = None, *, retry: bool = False) -> Checkpoint:
        """Record the outcome of an effect in doubt: its result, or that it may run again (under the key `KEY/2`)."""
        self._writer.refuse_in_batch("settle")
        return effects.settle(self._writer, key, result, retry=retry)

    def ask(
        self,
        question: str,
        *,
        key: str | None = None,
        choices: Sequence[str] | None = None,
        timeout: float | None = None,
        default: Any = ...,
    ) -> str | Any:
        """Return a person's answer, a text, or the default; if there is none yet, commit `waiting` and leave the block
        by `Waiting` (the next opening asks again).

        An answer belongs to one asking: the same text asked again later is a new question. `key` makes all askings
        under it one. `choices` restricts the answers. `default` is the answer once `timeout` seconds have passed since
        the first asking.
        """
        return questions.ask(self._writer, question, key, choices, timeout, default)

    def sleep(
        self, seconds: float | None = None, *, until: datetime | float | None = None, key: str | None = None
    ) -> None:
        """A durable pause: the wake-up time is committed first, and after a death only the rest of it is slept.

        A long one gives the process back by `Waiting` where a supervisor or worker started the program, and starts it
        again then. `until` is a datetime or a timestamp. `key` makes all pauses under it one, for good.
        """
        drive(timers.sleep(self._writer, seconds, until, key), self._context.clock)

    # -- children ---------------------------------------------------------------------------------------------

    def spawn(self, name: str, *, wait: float | None = None, **options: Unpack[SessionOptions]) -> Session:
        """Open a child of this session: new, or exactly where it stopped; a completed one to read its result.

        It is a session of its own, named `PARENT.NAME`, with the options of `rl.session`. There is one of a name in the
        life of this session: a restarted parent finds it, and it is never begun twice. `wait`: up to so many seconds
        for a child that a process of an earlier start still holds.
        """
        return drive(self._spawning(name, wait, options), self._context.clock)

    def _spawning(self, name: str, wait: float | None, options: SessionOptions) -> Program[Session]:
        """The program of `spawn`, for both forms."""
        child = family.of_open(self._writer, name)

        def make(left: float) -> Session:
            made = self._opens(self._context, child.full_name, child=child, **options)
            made._writer.wait_seconds = left
            return made

        return opened_within(self._context, wait, make)

    def children(self) -> list[ChildInfo]:
        """Its children, in the order they were spawned: their status, results, usage, and where they run."""
        return family.children(self._writer)

    def join(self, *named: family.Named, timeout: float | None = None) -> list[Any]:
        """Wait until these children have ended (without names: all), wherever they run, and return their results in
        this order.

        ChildFailed if one has no result: it failed, was halted, or its process died and none continues it; `spawn`
        continues it. TimeoutError after `timeout` seconds; nothing is stopped.
        """
        return drive(family.join(self._writer, named, timeout), self._writer.context.clock)

    # -- verdicts ---------------------------------------------------------------------------------------------

    def complete(self, result: Any = None) -> Checkpoint:
        """End the session as completed and store its result."""
        return self._writer.end("completed", result=result)

    def fail(self, reason: str, *, failure: Failure | None = None) -> Checkpoint:
        """End the attempt as failed. All steps remain, and a new attempt may continue from them."""
        reason = reason_of(reason)
        return self._writer.end("failed", reason, failure=failure or Failure(kind="agent", text=reason))

    def halt(self, reason: str) -> Checkpoint:
        """Stop on purpose before the task is done, for example on a loop or a budget."""
        return self._writer.end("halted", reason_of(reason))

    # -- the block --------------------------------------------------------------------------------------------

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._recorder.is_inherited:  # else a forked child: session and files belong to the parent
            self._writer.left(error)

    def close(self) -> None:
        """Leave the block without a verdict: `terminated`, reason "left"; the next opening continues."""
        self.__exit__(None, None, None)


def writer_of(session: Session) -> SessionWriter:
    """The writer behind a session, for the parts of the library that work with it."""
    return session._writer


class BatchBlock:
    """`with s.batch("label"):` commits everything inside as one step."""

    def __init__(self, writer: SessionWriter, label: str | None) -> None:
        self._writer, self._label = writer, label

    def __repr__(self) -> str:
        return f"<relight batch {self._label or 'without a label'} of {self._writer.name}>"

    @property
    def checkpoint(self) -> Checkpoint:
        """The step that the block is committed as, exact once it has ended; none was written if the block raised."""
        return self._batch.checkpoint

    def __enter__(self) -> BatchBlock:
        self._writer.refuse_in_batch("batch")
        self._writer.check_open()
        self._batch = self._writer.new_batch(self._label)
        self._mark = self._writer.state.mark(self._batch)
        self._writer.batch.set(self._batch)
        return self

    def leave(self) -> None:
        """Stop collecting: what follows is committed on its own."""
        self._writer.batch.set(None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        writer, batch = self._writer, self._batch
        self.leave()
        with writer.recorder.lock:
            batch.is_over = True
        if error is not None:
            writer.state.roll_back(self._mark)
            return
        changes = Changes(messages=batch.messages, usage=batch.usage, partial=batch.partial)
        try:
            pending = writer.state.pending()
            is_state = pending is not None and pending.state
            step_kind: StepKind = "message" if batch.messages else ("state" if is_state else "mark")
            batch.committed(writer.record(step_kind, changes, label=batch.label))
        except BaseException:
            writer.state.roll_back(self._mark)  # or the next step would save half of the block
            raise
        writer.state.forget(self._mark)
        if batch.messages:
            writer.note_reply(batch.messages, batch.usage, writer.recorder.identity.model)
            writer.stop_own_loop()
