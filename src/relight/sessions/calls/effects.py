"""Tool calls and `once`: intent, run, outcome; and what happens to a call that began and is not known to have ended.

    commit intent   ->  run the tool  ->  commit outcome

A crash between these lines leaves an intent without an outcome: in doubt. The declared effect decides then: `pure` and
`idempotent` run again under the same key, `probe` asks the tool, `once` never runs again on its own. Before anything
runs, the effect ledger (journal/effects/ledger.py) adds what is known from abandoned branches: an outcome is carried
over, a doubt remains a doubt.

`run_tool` and `once` are programs (coroutines.py): the middle line is run by their driver, blocking or on an event
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never

import msgspec

from relight.errors import InDoubt, InvalidMessage, LeaseLost, ToolsChanged, UsageError, Waiting
from relight.journal.effects.ledger import action_for, carried_outcome, closing_outcome
from relight.journal.fold import Slot
from relight.journal.jsonable import check_text
from relight.ports import faults
from relight.sessions.calls.approving import approved, denial_of
from relight.sessions.calls.results import Kept, NotAwaited, all_awaited, all_of, is_unread, kept, refuse_unawaited
from relight.sessions.calls.running_effects import EffectKey
from relight.sessions.calls.settling import settling_outcome
from relight.sessions.calls.signatures import WrongArguments
from relight.sessions.calls.tools import Tool, changed_tools, fingerprint_of
from relight.sessions.coroutines import Execute, Outcomes, Pause, Program, TimedOut
from relight.telemetry.logs import ERROR, TOOL, warn
from relight.telemetry.spans import tool_span
from relight.values.call import OUTCOME_UNKNOWN, Call, Intent, Outcome, OutcomeStatus
from relight.values.checkpoint import Checkpoint
from relight.values.policy import Retry
from relight.values.status import StatusChange
from relight.values.step import Changes

if TYPE_CHECKING:
    from relight.sessions.session_writer import SessionWriter


class Execution:
    """One effect of a writer, from before its intent until after its outcome."""

    def __init__(self, writer: SessionWriter, effect: EffectKey) -> None:
        self._writer = writer
        self._effect = effect
        self.request: Execute | None = None
        """the function being run; if it outlives the program, its `late` callback calls `end`"""

    def __enter__(self) -> Execution:
        self._writer.begin_execution(self._effect)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_running:
            self.request = None  # whose `late` references this object: a cycle would keep a dropped session alive
            self.end()

    @property
    def is_running(self) -> bool:
        """Whether the function runs on, though its caller waits no more."""
        return self.request is not None and self.request.is_running

    def end(self) -> None:
        """The effect has ended, and its outcome, if any, is recorded."""
        self._writer.end_execution(self._effect)


def run_tool(writer: SessionWriter, call: Call, box: Mapping[str, Tool[Any, Any]]) -> Program[Call]:
    """Run one call to its end; Waiting if a person has to approve it first. An error of the tool becomes a result for
    the model, not an exception for the caller."""
    question = yield from try_tool(writer, call, box)
    if question is not None:
        raise writer.wait(question)
    slot = writer.recorder.fold.slot(call.asked_seq, call.id)
    assert slot is not None
    return writer.as_call(slot)


def try_tool(writer: SessionWriter, call: Call, box: Mapping[str, Tool[Any, Any]]) -> Program[StatusChange | None]:
    """Run one call to its end, or return the question that a person has to decide before it begins."""
    writer.refuse_in_batch("run_tool")
    note_tools(writer, box)
    slot = writer.recorder.fold.slot(call.asked_seq, call.id)
    if slot is None:
        raise UsageError(f"no call {call.id!r} was requested in this conversation")
    if not slot.is_open:
        return None
    tool = box.get(slot.site.name)
    arguments = slot.site.parsed()
    if tool is None:
        _finish(writer, slot, "error", f"unknown tool {slot.site.name!r}; there are: {', '.join(box) or 'none'}")
    elif not isinstance(arguments, dict):
        _finish(writer, slot, "error", f"the arguments of {tool.name} are not a JSON object: {arguments[:200]}")
    else:
        return (yield from _call(writer, slot, tool, arguments))
    return None


def _call(
    writer: SessionWriter, slot: Slot, tool: Tool[Any, Any], given: dict[str, Any]
) -> Program[StatusChange | None]:
    writer.refuse_coroutine(tool.run, f"the tool {tool.name!r}")
    writer.refuse_coroutine(tool.probe, f"the probe of {tool.name!r}")
    writer.refuse_coroutine(tool.approve, f"approve of {tool.name!r}")
    action = action_for(slot, tool.effect)
    arguments, decision = given, list[str]()
    if action in ("run", "run_again", "probe"):
        try:
            arguments = tool.signature.checked(given)
        except WrongArguments as error:
            _warn(writer, slot, str(error))
            # Nothing began, unless it did so as another version of the tool, which took these arguments.
            began = action != "run"
            why = f"{OUTCOME_UNKNOWN} ({error})" if began else str(error)
            _finish(writer, slot, "unknown" if began else "error", why)
            return None
    # Approval is asked only before the first run. A call that has begun was approved by the commit of its intent.
    if action == "run":
        decided = yield from approved(writer, slot, tool, given, arguments)
        if isinstance(decided, StatusChange):
            return decided
        may_begin, decision = decided
        if not may_begin:
            _finish(writer, slot, "error", denial_of(writer, decision), used=decision)
            return None
    yield from _execute(writer, slot, tool, arguments, decision)
    return None


def _execute(
    writer: SessionWriter, slot: Slot, tool: Tool[Any, Any], arguments: dict[str, Any], decision: list[str]
) -> Program[None]:
    with Execution(writer, (slot.asked_seq, slot.site.id)) as execution:
        fold = writer.recorder.fold
        if fold.slot(slot.asked_seq, slot.site.id) not in fold.open_slots():
            return  # another thread was faster
        if (yield from _may_run(writer, slot, tool, arguments)):
            if slot.intent is None:
                _intend(writer, slot, tool, decision)
            yield from _run(execution, writer, slot, tool, arguments)


def refuse_call(writer: SessionWriter, call: Call, why: str) -> None:
    """Close a call that has not begun, without running it."""
    slot = writer.recorder.fold.slot(call.asked_seq, call.id)
    if slot is not None and slot.is_open and slot.intent is None:
        _finish(writer, slot, "error", why)


def _intend(writer: SessionWriter, slot: Slot, tool: Tool[Any, Any], decision: list[str]) -> None:
    """Commit the intent: from here on the tool may have begun. The approval that allowed it is used up by the same
    commit."""
    faults.point("tool.asked")
    intent = Intent(
        id=slot.site.id,
        name=slot.site.name,
        effect=tool.effect,
        asked_seq=slot.asked_seq,
        generation=slot.generation,
    )
    writer.record("intent", Changes(intents=[intent], used=decision))
    faults.point("tool.intended")


def _run(
    execution: Execution, writer: SessionWriter, slot: Slot, tool: Tool[Any, Any], arguments: dict[str, Any]
) -> Program[None]:
    """Run it and commit its outcome. It is tried again only where that cannot repeat an effect."""
    late, run = partial(_finish_late, execution, writer, slot), partial(tool.call, arguments, slot.key)
    for failures in range(1, tool.retries + 2):
        try:
            with tool_span(writer.recorder.identity, writer.recorder.head, tool.name, slot.site.id) as span:
                call = span.around(run, awaits=writer.is_async)
                returned = yield from _whole(execution, Execute(tool.run, call, late=late, timeout=tool.timeout))
            refuse_unawaited(returned, f"the tool {tool.name!r}")
        except Waiting as wait:
            # Of another session, a child for example, that needs its answer first. The call stays begun, and runs again
            # when the program is started after the answer.
            if tool.effect == "once":
                _raise_to_author(writer, slot, _cannot_wait(tool, wait))
            raise
        except Exception as error:
            if error is writer.misused or isinstance(error, NotAwaited):
                _raise_to_author(writer, slot, error)
            failed = error
        else:
            result = kept(returned, f"the tool {tool.name!r}")
            faults.point("tool.done")
            _finish(writer, slot, "ok", result.content)
            faults.point("tool.recorded")
            _tell_developer(writer, result)
            return
        # A function that runs on in its thread, because its time is over, is not begun a second time beside itself.
        if failures > tool.retries or execution.is_running:
            break
        seconds = Retry().delay_seconds(failures, writer.context.entropy.jitter())
        why = f"{type(failed).__name__}: {failed}"
        _warn(writer, slot, f"{tool.name} is tried again in {seconds:.1f} s: {why}")
        yield Pause(seconds)
        if tool.effect == "probe" and not (yield from _did_not_happen(writer, slot, tool, arguments)):
            return
    has_ended = isinstance(failed, TimedOut) and not execution.is_running
    if has_ended and tool.effect == "probe" and not (yield from _did_not_happen(writer, slot, tool, arguments)):
        return
    _fail(writer, slot, tool, failed, is_running=execution.is_running)


def _whole(execution: Execution, request: Execute) -> Program[Any]:
    """What a function returned, read to its end: that of a coroutine function is known only when it was awaited."""
    execution.request = request
    returned = yield request
    if is_unread(returned):
        read = partial(all_awaited, returned)
        execution.request = Execute(all_awaited, read, late=request.late, timeout=request.timeout)
        returned = yield execution.request
    return returned


def _raise_to_author(writer: SessionWriter, slot: Slot, error: Exception) -> Never:
    """A bug of the program, which the model cannot fix: close the call and raise."""
    _finish(writer, slot, "error", str(error))
    raise error


def _cannot_wait(tool: Tool[Any, Any], wait: Waiting) -> UsageError:
    says = f"{wait.session} is {wait.message}"
    hints = ['declare effect="idempotent" if it may run again after the answer: s.spawn finds the child as it is']
    return UsageError(f"the tool {tool.name!r} may run once only, and cannot go on: {says}", hints=hints)


def _fail(writer: SessionWriter, slot: Slot, tool: Tool[Any, Any], error: Exception, *, is_running: bool) -> None:
    """Commit the failure of the last try. Out of time, the effect of a `once` tool may have happened or may yet."""
    in_doubt = isinstance(error, TimedOut) and (tool.effect == "once" or (tool.effect == "probe" and is_running))
    text = f"TimeoutError: {error}" if isinstance(error, TimedOut) else f"{type(error).__name__}: {error}"
    faults.point("tool.done")
    with writer.recorder.lock:
        now = writer.recorder.fold.slot(slot.asked_seq, slot.site.id)
        if now is None or not now.is_open:
            return  # it has ended in its thread meanwhile, and its outcome is recorded
        _finish(writer, slot, "unknown" if in_doubt else "error", f"{OUTCOME_UNKNOWN} ({error})" if in_doubt else text)
    faults.point("tool.recorded")


def _finish_late(execution: Execution, writer: SessionWriter, slot: Slot, outcome: Outcomes) -> None:
    """Record the outcome of a tool whose caller gave up, if the call is still open and the session still ours."""
    status: OutcomeStatus = "ok"
    try:
        try:
            result = kept(outcome(), f"the tool {slot.site.name!r}")
        except Exception as error:
            result, status = Kept(content=f"{type(error).__name__}: {error}"), "error"
        with writer.recorder.lock:
            now = writer.recorder.fold.slot(slot.asked_seq, slot.site.id)
            if now is not None and now.is_open and now.intent is not None:
                _finish(writer, now, status, result.content)
                _tell_developer(writer, result)
            else:
                _warn(writer, slot, f"the tool {slot.site.name!r} ended ({status}) after its call was closed")
    finally:
        execution.end()


def _warn(writer: SessionWriter, slot: Slot, text: str) -> None:
    fields = writer.recorder.log_fields | {"call": slot.site.id, "tool": slot.site.name}
    warn(TOOL, f"{writer.name}: {text}", fields)


def _tell_developer(writer: SessionWriter, result: Kept) -> None:
    if result.problem:
        TOOL.log(ERROR, "%s", writer.recorder.recording.about(result.problem), extra=writer.recorder.log_fields)


def _may_run(writer: SessionWriter, slot: Slot, tool: Tool[Any, Any], arguments: dict[str, Any]) -> Program[bool]:
    """Whether the call may run, or run again, given what is known about it. If not, its outcome is committed."""
    action = action_for(slot, tool.effect)
    if action in ("run", "run_again"):
        return True
    if action != "probe" or tool.probe is None:
        _record_outcome(writer, carried_outcome(slot) if action == "carry" else closing_outcome(slot))
        return False
    return (yield from _did_not_happen(writer, slot, tool, arguments))


def _did_not_happen(
    writer: SessionWriter, slot: Slot, tool: Tool[Any, Any], arguments: dict[str, Any]
) -> Program[bool]:
    """Ask the probe of a tool; if it does not say that there was no effect, its outcome is committed."""
    assert tool.probe is not None
    try:
        seen = yield Execute(tool.probe, partial(tool.ask_probe, arguments, slot.key))
        refuse_unawaited(seen, f"the probe of {tool.name!r}")
        if is_unread(seen):
            raise UsageError(f"it returned a {type(seen).__name__}, which says neither that it happened nor that not")
    except Exception as error:
        # A failing probe proves nothing. Running the tool now could repeat the effect, so the model is told that the
        # outcome is unknown.
        _finish(writer, slot, "unknown", f"{OUTCOME_UNKNOWN} (its probe failed: {error})")
        return False
    if seen is not None:
        result = kept(seen, f"the probe of {tool.name!r}")
        _finish(writer, slot, "ok", result.content)
        _tell_developer(writer, result)
    return seen is None


def _finish(
    writer: SessionWriter, slot: Slot, status: OutcomeStatus, content: Any, *, used: list[str] | None = None
) -> None:
    outcome = Outcome(
        id=slot.site.id,
        asked_seq=slot.asked_seq,
        status=status,
        content=content,
        synthetic=status == "unknown",
        generation=slot.generation,
    )
    _record_outcome(writer, outcome, slot.site.name, used=used or ())


def note_tools(writer: SessionWriter, box: Mapping[str, Tool[Any, Any]]) -> None:
    """Record tools that changed since the last attempt; ToolsChanged if a pending call depends on the change."""
    recorder = writer.recorder
    with recorder.lock:
        before, after = recorder.fold.tools, fingerprint_of(box)
        if before == after:
            return
        lines = changed_tools(before, after)
        refused = [line for slot in recorder.fold.open_slots() if (line := _forbids(slot, before, box)) is not None]
        if refused:
            raise ToolsChanged(writer.name, refused)
        note = {"tools_changed": lines} if before else None
        writer.record("mark", Changes(tools=after, note=note))


def _forbids(slot: Slot, before: Mapping[str, str], box: Mapping[str, Tool[Any, Any]]) -> str | None:
    name = slot.site.name
    tool = box.get(name)
    if tool is None:
        return f"- {name} {before[name]}  (pending call {slot.site.id})" if name in before else None
    began_as = slot.intent.effect if slot.intent is not None else slot.prior.effect if slot.prior is not None else None
    if slot.in_doubt and began_as not in (None, tool.effect):
        return f"~ {name} effect {began_as} -> {tool.effect}  (pending call {slot.site.id})"
    return None


def _check_function(given: Any) -> None:
    if not callable(given):
        hints = ["s.once(key, lambda: charge(card)): it is called only if it has not run yet"]
        raise UsageError(f"once takes a function, not {type(given).__name__}", hints=hints)


def once(writer: SessionWriter, key: str, function: Callable[[], Any]) -> Program[Any]:
    """A journalled side effect outside any tool call."""
    writer.refuse_in_batch("once")
    check_text(key, "the key of once")
    _check_function(function)
    writer.refuse_coroutine(function, "the function of once")
    recorder = writer.recorder
    known = _known_once(writer, key, running=(0, key) in writer.running)
    if known is not None:
        return known.content
    recorder.recording.check_key(key, "the key of once")
    with Execution(writer, (0, key)) as execution:
        with recorder.lock:
            known = _known_once(writer, key, running=False)  # another thread may have been faster
            if known is not None:
                return known.content
            faults.point("tool.asked")
            generation = recorder.fold.generations.get(key, 1)
            writer.record("intent", Changes(intents=[Intent(id=key, name=key, effect="once", generation=generation)]))
        faults.point("tool.intended")
        late = partial(_once_late, execution, writer, key, generation)
        try:
            returned = yield from _whole(execution, Execute(function, lambda: all_of(function()), late=late))
            refuse_unawaited(returned, f"once({key!r})")
        except Exception:  # the user's function reported its failure: no doubt, and the next call may run it again
            _record_outcome(writer, Outcome(id=key, status="void", synthetic=True, generation=generation))
            raise
        result = kept(returned, f"once({key!r})")
        faults.point("tool.done")
        _record_outcome(writer, Outcome(id=key, content=result.content, generation=generation), key)
        faults.point("tool.recorded")
        if result.problem:  # it is recorded as done all the same
            hints = ["return JSON, a dataclass, a pydantic model, a date, or nothing"]
            raise InvalidMessage(result.problem, says=result.problem, hints=hints)
        return result.content


def _known_once(writer: SessionWriter, key: str, *, running: bool) -> Outcome | None:
    """The recorded outcome; None if the effect never began, may run again, or is `running`. InDoubt if its outcome is
    unknown."""
    recorder = writer.recorder
    with recorder.lock:
        effect = recorder.fold.once.get(key)
        if effect is not None and effect.outcome is None and recorder.has_unknown_commit:
            recorder.resolve_unknown("mark")
            effect = recorder.fold.once.get(key)
        if effect is not None and effect.outcome is None and not running:
            raise InDoubt(writer.name, key)
        if effect is not None and effect.outcome is not None and effect.carried_from and recorder.owns:
            # Record it on this branch too, so that the next load need not search the abandoned ones for it.
            carried = {"id": key, "carried_from": effect.carried_from, "effect": "once"}
            writer.record("result", Changes(outcomes=[msgspec.structs.replace(effect.outcome, **carried)]))
        return effect.outcome if effect is not None else None


def _once_late(execution: Execution, writer: SessionWriter, key: str, generation: int, outcome: Outcomes) -> None:
    """Record the outcome of a `once` whose caller gave up, if it is still open and the session still ours."""
    try:
        try:
            result = kept(outcome(), f"once({key!r})")
            ended = Outcome(id=key, content=result.content, generation=generation)
        except Exception:  # it raised, so it did not succeed
            ended = Outcome(id=key, status="void", synthetic=True, generation=generation)
        with writer.recorder.lock:
            effect = writer.recorder.fold.once.get(key)
            if effect is not None and effect.outcome is None:
                _record_outcome(writer, ended, key)
    finally:
        execution.end()


def _record_outcome(
    writer: SessionWriter, outcome: Outcome, name: str | None = None, *, used: Sequence[str] = ()
) -> None:
    """Commit an outcome. `name`: what has run just now, for the error if the lease was lost meanwhile."""
    try:
        writer.record("result", Changes(outcomes=[outcome], used=used), finishing=True)
    except LeaseLost as lost:
        if name is not None and outcome.status == "ok":
            lost.evidence += (f"{name} has run, and its result could not be recorded: the new owner cannot know it",)
        raise


def settle(writer: SessionWriter, key: str, result: Any, *, retry: bool) -> Checkpoint:
    """Record the outcome of an effect in doubt, or allow it to run again; by its key or its call id."""
    with writer.recorder.lock:
        writer.check_open()
        outcome = settling_outcome(writer.recorder, key, result, retry=retry)
        writer.refuse_running((outcome.asked_seq, outcome.id))
        return writer.record("result", Changes(outcomes=[outcome], note={"settled": key}))
