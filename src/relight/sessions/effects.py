"""Effects: intent, run, result; and what is done about a call that started and is not known to have ended.

    commit intent   ->  run the tool  ->  commit result

Dying on any line in between leaves an intent without a result: in doubt. The declared effect decides then:
`pure` and `idempotent` run again under the same key, `probe` asks the tool, `once` is never run again by itself.

Before anything runs, what is known from branches that were left counts too (journal/effects/ledger.py): an outcome is
carried over, a doubt stays a doubt.

`run_tool` and `once` are programs: the middle line is done by their driver (program.py), in the caller's own style.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from relight.errors import InDoubt, InvalidMessage, ToolsChanged, UsageError
from relight.journal.codec import isolated
from relight.journal.effects.ledger import action_for, carried_outcome, closing_outcome
from relight.journal.fold import Slot
from relight.journal.jsonable import check_text
from relight.ports import faults
from relight.sessions.coroutines import Execute, Outcomes, Program
from relight.sessions.questions import approved, denial_of
from relight.sessions.running_effects import Execution
from relight.sessions.settling import settling_outcome
from relight.sessions.tools import Tool, changed_tools, fingerprint_of
from relight.values.call import OUTCOME_UNKNOWN, Call, Intent, Outcome, OutcomeStatus
from relight.values.checkpoint import Checkpoint
from relight.values.session import Head
from relight.values.step import Changes, Step

if TYPE_CHECKING:
    from relight.sessions.session import Session


def run_tool(session: Session, call: Call, box: Mapping[str, Tool]) -> Program[Call]:
    """One call to its end. An error of the tool is a result for the model, not an exception for the caller."""
    session._refuse_in_step("run_tool")
    recorder = session._recorder
    note_tools(session, box)
    slot = recorder.fold.slot(call.asked_seq, call.id)
    if slot is None:
        raise UsageError(f"no call {call.id!a} is asked for in this conversation")
    if not slot.is_open:
        return session._as_call(slot)
    tool = box.get(slot.site.name)
    arguments = slot.site.parsed()
    if tool is None:
        _finish(session, slot, "error", f"unknown tool {slot.site.name!r}; there are: {', '.join(box) or 'none'}")
    elif not isinstance(arguments, dict):
        _finish(session, slot, "error", f"the arguments of {tool.name} are not a JSON object: {arguments[:200]}")
    else:
        session._refuse_coroutine(tool.run, f"the tool {tool.name!r}")
        session._refuse_coroutine(tool.probe, f"the probe of {tool.name!r}")
        session._refuse_coroutine(tool.approve, f"approve of {tool.name!r}")
        may_begin, decision = True, list[str]()
        if action_for(slot, tool.effect) == "run":  # once it has begun it was approved
            may_begin, decision = yield from approved(session, slot, tool, arguments)
        if not may_begin:
            _finish(session, slot, "error", denial_of(session, decision), used=decision)
            return session._as_call(slot)
        with Execution(session, (slot.asked_seq, slot.site.id)) as execution:
            if recorder.fold.slot(call.asked_seq, call.id) not in recorder.fold.open_slots():
                return session._as_call(slot)  # another thread was faster
            if (yield from _may_run(session, slot, tool, arguments)):
                if slot.intent is None:
                    _intend(session, slot, tool, decision)
                yield from _run(execution, session, slot, tool, arguments)
    return session._as_call(slot)


def refuse_call(session: Session, call: Call, why: str) -> None:
    """Close a call that was never begun, without running it."""
    slot = session._recorder.fold.slot(call.asked_seq, call.id)
    if slot is not None and slot.is_open and slot.intent is None:
        _finish(session, slot, "error", why)


def _intend(session: Session, slot: Slot, tool: Tool, decision: list[str]) -> None:
    """The commit from which on it may have begun; a decision that let it begin is used up by the same commit."""
    faults.point("tool.asked")
    intent = Intent(
        id=slot.site.id,
        name=slot.site.name,
        effect=tool.effect,
        asked_seq=slot.asked_seq,
        generation=slot.generation,
    )
    session._record("intent", Changes(intents=[intent], used=decision))
    faults.point("tool.intended")


def _run(execution: Execution, session: Session, slot: Slot, tool: Tool, arguments: dict[str, Any]) -> Program[None]:
    late = partial(_finish_late, execution, session, slot)
    request = execution.request = Execute(tool.run, partial(tool.call, arguments, slot.key), late=late)
    try:
        returned = yield request
    except Exception as error:
        if error is session._misused:  # the model cannot mend it: the call is closed, and the tool's author is told
            _finish(session, slot, "error", f"it stopped where it asked a person: {error}")
            raise
        content, status = _failed(error)
    else:
        content, status = _storable(returned)
    faults.point("tool.done")
    _finish(session, slot, status, content)
    faults.point("tool.recorded")


def _finish_late(execution: Execution, session: Session, slot: Slot, outcome: Outcomes) -> None:
    """The outcome of a tool whose caller has given up. Recorded where the call is still open and the session ours."""
    try:
        try:
            content, status = _storable(outcome())
        except Exception as error:
            content, status = _failed(error)
        with session._recorder.lock:
            now = session._recorder.fold.slot(slot.asked_seq, slot.site.id)
            if now is not None and now.is_open and now.intent is not None:
                _finish(session, now, status, content)
    finally:
        execution.end()


def _failed(error: Exception) -> tuple[Any, OutcomeStatus]:
    return f"{type(error).__name__}: {error}", "error"


def _storable(returned: Any) -> tuple[Any, OutcomeStatus]:
    try:
        return isolated(returned), "ok"
    except InvalidMessage as error:
        return f"it ran to its end, but what it returned cannot be kept ({error})", "error"


def _may_run(session: Session, slot: Slot, tool: Tool, arguments: dict[str, Any]) -> Program[bool]:
    """May it run, or run again, as far as anything is known of it? Where it may not, its outcome is committed."""
    action = action_for(slot, tool.effect)
    if action in ("run", "run_again"):
        return True
    if action != "probe" or tool.probe is None:
        _record_outcome(session, carried_outcome(slot) if action == "carry" else closing_outcome(slot))
        return False
    try:
        seen = isolated((yield Execute(tool.probe, partial(tool.ask_probe, arguments, slot.key))))
    except Exception as error:
        _finish(session, slot, "unknown", f"{OUTCOME_UNKNOWN} (its probe failed: {error})")
        return False
    if seen is not None:
        _finish(session, slot, "ok", seen)
    return seen is None


def _finish(
    session: Session, slot: Slot, status: OutcomeStatus, content: Any, *, used: list[str] | None = None
) -> None:
    outcome = Outcome(
        id=slot.site.id,
        asked_seq=slot.asked_seq,
        status=status,
        content=content,
        synthetic=status == "unknown",
        generation=slot.generation,
    )
    session._record("result", Changes(outcomes=[outcome], used=used or ()), finishing=True)


def note_tools(session: Session, box: Mapping[str, Tool]) -> None:
    """Notice tools that changed since they were last recorded; refuse where a pending call depends on the change."""
    recorder = session._recorder
    with recorder.lock:
        before, after = recorder.fold.tools, fingerprint_of(box)
        if before == after:
            return
        lines = changed_tools(before, after)
        refused = [line for slot in recorder.fold.open_slots() if (line := _forbids(slot, before, box)) is not None]
        if refused:
            raise ToolsChanged(session.name or session.id, refused)
        note = {"tools_changed": lines} if before else None
        session._record("mark", Changes(tools=after, note=note))


def _forbids(slot: Slot, before: Mapping[str, str], box: Mapping[str, Tool]) -> str | None:
    name = slot.site.name
    tool = box.get(name)
    if tool is None:
        return f"- {name} {before[name]}  (pending call {slot.site.id})" if name in before else None
    began_as = slot.intent.effect if slot.intent is not None else slot.prior.effect if slot.prior is not None else None
    if slot.in_doubt and began_as not in (None, tool.effect):
        return f"~ {name} effect {began_as} -> {tool.effect}  (pending call {slot.site.id})"
    return None


def once(session: Session, key: str, function: Callable[[], Any]) -> Program[Any]:
    """A journalled side effect outside any tool call."""
    session._refuse_in_step("once")
    check_text(key, "the key of once")
    session._refuse_coroutine(function, "the function of once")
    recorder = session._recorder
    known = _known_once(session, key, running=(0, key) in session._running)
    if known is not None:
        return known.content
    with Execution(session, (0, key)) as execution:
        with recorder.lock:
            known = _known_once(session, key, running=False)  # another thread was faster
            if known is not None:
                return known.content
            faults.point("tool.asked")
            generation = recorder.fold.generations.get(key, 1)
            session._record("intent", Changes(intents=[Intent(id=key, name=key, effect="once", generation=generation)]))
        faults.point("tool.intended")
        execution.request = Execute(function, late=partial(_once_late, execution, session, key, generation))
        try:
            returned = yield execution.request
        except Exception:  # it raised, so its author knows that it did not succeed: the next try may start it again
            _record_outcome(session, Outcome(id=key, status="void", synthetic=True, generation=generation))
            raise
        content = isolated(returned)  # where this raises, it has happened and stays in doubt
        faults.point("tool.done")
        _record_outcome(session, Outcome(id=key, content=content, generation=generation))
        faults.point("tool.recorded")
        return content


def _known_once(session: Session, key: str, *, running: bool) -> Outcome | None:
    """The recorded outcome; None where it never began, was taken back, or is `running`. InDoubt where nobody knows."""
    recorder = session._recorder
    with recorder.lock:
        effect = recorder.fold.once.get(key)
        if effect is not None and effect.outcome is None and recorder.has_unknown_commit:
            recorder.resolve_unknown("mark")
            effect = recorder.fold.once.get(key)
        if effect is not None and effect.outcome is None and not running:
            raise InDoubt(session.name or session.id, key)
        if effect is not None and effect.outcome is not None and effect.carried_from and recorder.owns:
            carried = {
                "id": key,
                "carried_from": effect.carried_from,
                "effect": "once",
            }  # known in this branch from here on
            session._record("result", Changes(outcomes=[msgspec.structs.replace(effect.outcome, **carried)]))
        return effect.outcome if effect is not None else None


def _once_late(execution: Execution, session: Session, key: str, generation: int, outcome: Outcomes) -> None:
    """The outcome of a `once` whose caller has given up; recorded where it is still open and the session ours."""
    try:
        try:
            ended = Outcome(id=key, content=isolated(outcome()), generation=generation)
        except InvalidMessage:
            return  # it has happened, and what it returned cannot be kept: it stays in doubt
        except Exception:  # as above: it raised, so it did not succeed
            ended = Outcome(id=key, status="void", synthetic=True, generation=generation)
        with session._recorder.lock:
            effect = session._recorder.fold.once.get(key)
            if effect is not None and effect.outcome is None:
                _record_outcome(session, ended)
    finally:
        execution.end()


def _record_outcome(session: Session, outcome: Outcome) -> None:
    session._record("result", Changes(outcomes=[outcome]), finishing=True)


def settle(session: Session, key: str, result: Any, *, retry: bool) -> Checkpoint:
    """Close, or take back, an effect in doubt by its key or call id."""
    with session._recorder.lock:
        session._check_open()
        outcome = settling_outcome(session._recorder, key, result, retry=retry)
        session._refuse_running((outcome.asked_seq, outcome.id))
        return session._record("result", Changes(outcomes=[outcome], note={"settled": key}))


def trial_step(head: Head) -> Step:
    """A step that is never stored: for folding a change before it is committed."""
    return Step(
        session=head.session,
        seq=head.seq + 1,
        kind="reset",
        at_us=head.updated_us,
        attempt=head.attempt,
        base=head.head,
        since=head.seq + 1,
        message_count=0,
        turns=0,
        key=b"",
        digest=b"",
        body=b"",
    )
