"""Approvals: a matching tool call waits for a person's decision, across restarts; a decision is used once.

hook event -> question recorded -> the agent defers the call and ends, or its hook gets no reply and it is ended
-> `waiting`, with the question and its expiry -> approve or deny commits the answer, or it expires -> resumed
    an agent that deferred the call asks its hook again
    any other gets, as the result of the call, that it was denied, or that it may make it again
-> the answer is used by a call with exactly the same input, and marked as used
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from relight.errors import Conflict
from relight.history.loading import Found
from relight.journal.effects.approvals import (
    EXPIRY_SECONDS,
    Filed,
    Standing,
    asks_approval,
    filed,
    has_digest,
    input_digest,
    is_about,
    matches,
    question_of,
    session_digest,
    standing,
)
from relight.journal.fold import Fold
from relight.journal.jsonable import check_text
from relight.operations.write_once import write_once
from relight.ports.agent import Decision, Heard, NativeCall, NativeResult
from relight.sessions.context import Context
from relight.sessions.opening import recorder_for, refuse_archived
from relight.sessions.recorder import Recorder
from relight.values.checkpoint import Checkpoint, at
from relight.values.policy import RunPolicy
from relight.values.session import Head
from relight.values.status import StatusChange
from relight.values.step import Changes

NOT_ALLOWED: Final = "not run: it was waiting for a person to allow it when the process died; ask for it again"
ALLOWED: Final = "not run yet: a person has allowed it; make this call again now, once, with exactly the same arguments"
WAITS: Final = "it waits for a person to allow it; do not try it another way"
NESTED: Final = "a person has to allow it, and no call can wait within a sub-agent; make it later, outside of one"
UNDECIDED: Final = "not run: no one approved it in time, so it counts as denied"
LAPSED: Final = "not run: the permission for it was not used in time, so it counts as denied"
_USED: Final = "used"
"""what 0.1.0 filed as the answer of a question whose decision was used"""


def needs_approval(policy: RunPolicy, heard: Heard) -> bool:
    """Whether this event is the beginning of a tool call that a person has to allow."""
    return heard.kind == "tool_begins" and matches(policy.approve, heard.tool, heard.arguments, heard.also)


def decision_of(
    recorder: Recorder, heard: Heard, *, now_us: int, nests: tuple[str, ...] = ()
) -> tuple[Decision, str] | None:
    """The decision about a tool call that is about to begin, and its reason; None if it needs no approval. `nests`:
    tools within which no call can wait, because it cannot be told from the calls beside it."""
    policy = recorder.identity.policy
    if not needs_approval(policy, heard):
        return None
    if heard.partial:
        return "deny", "its whole input is not known, so no person could be asked"
    digest = input_digest(heard.tool, heard.arguments)
    with recorder.lock:
        native, answers = recorder.head.native or heard.native_id, recorder.fold.answers
        known = [
            one for one in answers if has_digest(one, digest) and standing(answers[one], native=native, now_us=now_us)
        ]
        # The newest. One that is about this very call comes first: an agent that deferred it asks again.
        known.sort(key=lambda one: is_about(one, heard.call))
        question = known[-1] if known else None
        state = standing(answers[question], native=native, now_us=now_us) if question is not None else None
        if question is not None and state in ("allow", "deny", "expired"):
            reason = _reason(recorder.fold, question, state)
            note = {"approval": {"allow": "allowed", "deny": "denied", "expired": "expired"}[state]}
            recorder.commit("mark", Changes(used=[question], note=note))
            return ("allow" if state == "allow" else "deny"), reason
        if any(one.intent.name in nests and one.outcome is None for one in recorder.fold.hooked.values()):
            return "deny", NESTED
        before = filed(answers[question]) if question is not None else None
        until_us = before.until_us if before is not None else now_us + _expiry_us(policy)
        asked = recorder.recording.about(question_of(heard.call, heard.tool, heard.arguments))
        value = [*msgspec.to_builtins(Filed("asked", until_us, session_digest(native)))]
        used = [question] if question is not None and question != asked else []
        recorder.commit("mark", Changes(answer=[asked, value], used=used, note={"asks": asked}))
    return "wait", asked


def _reason(fold: Fold, question: str, state: Standing) -> str:
    given = fold.reasons.get(question)
    if state == "deny":
        return f"a person denied it: {given}" if given else "a person denied it"
    if state == "expired":
        found = filed(fold.answers[question])
        return (LAPSED if found is not None and found.answer == "allow" else UNDECIDED).removeprefix("not run: ")
    return "a person allowed it"


def _expiry_us(policy: RunPolicy) -> int:
    return round((policy.approve_within or EXPIRY_SECONDS) * 1e6)


def deadline_of(fold: Fold, question: str) -> int | None:
    """When a question that waits expires."""
    found = filed(fold.answers.get(question))
    return found.until_us if found is not None else None


def is_decided(recorder: Recorder, call: str, *, now_us: int) -> bool:
    """Whether this call was deferred, and is decided by now or has expired."""
    return _known(recorder, call, now_us)[1] in ("allow", "deny", "expired")


def told_of(recorder: Recorder, call: NativeCall, *, now_us: int) -> tuple[NativeResult, list[str]] | None:
    """What the model is told about a deferred call that has not run, and the questions that are settled by
    that; None if it was not deferred. An approval stays: the call uses it when it is made again."""
    question, state = _known(recorder, call.id, now_us)
    if question is None:
        return None
    if state == "allow":
        return NativeResult(text=ALLOWED), []
    if state in ("deny", "expired"):
        return NativeResult(text=f"not run: {_reason(recorder.fold, question, state)}"), [question]
    return NativeResult(text=NOT_ALLOWED), []


def _known(recorder: Recorder, call: str, now_us: int) -> tuple[str | None, Standing | None]:
    """The newest question about this call, and its state."""
    answers = recorder.fold.answers
    for question in reversed(answers):
        if is_about(question, call) and answers[question] != _USED:
            return question, standing(answers[question], native=recorder.head.native, now_us=now_us)
    return None, None


def decide(context: Context, found: Found, *, allow: bool, reason: str | None = None) -> Checkpoint:
    """Record a person's decision about the tool call a session waits for, and queue the session.

    The model is told the `reason` of a denial.
    """
    refuse_archived(found)
    recorder = recorder_for(context, found)
    question, asking, name = recorder.head.question, recorder.head.asking, found.identity.name or found.identity.id
    if recorder.head.status != "waiting" or question is None or not asks_approval(question, asking):
        raise Conflict(f"{name}: no tool call waits for a decision", hints=[f"see what it does: relight show {name}"])
    now_us = context.clock.now_us()
    due_us = recorder.head.wake_us
    if asking is None and due_us is not None and now_us >= due_us:
        until, hints = at(due_us).astimezone(), [f"continue, and the agent may ask again: relight resume {name}"]
        why = f"the time for this decision was over at {until:%Y-%m-%d %H:%M}, so the call counts as denied"
        raise Conflict(f"{name}: {why}; nothing was written", hints=hints)
    change = StatusChange(status="queued", reason="approved" if allow else "denied")
    # Of a coding agent the answer is bound to its native session and to a time. A program of one's own asks for the
    # word, and so does a framework.
    is_agent = asking is None and context.agent(found.identity).capabilities.transcript
    policy, word = found.identity.policy, "allow" if allow else "deny"
    answer = _answer(recorder.head, policy, allow=allow, now_us=now_us) if is_agent else word
    recorded = [question, answer, asking.key if asking is not None else "", check_text(reason or "", "the reason")]
    return write_once(context, recorder, "mark", Changes(answer=recorded, status=change))


def _answer(head: Head, policy: RunPolicy, *, allow: bool, now_us: int) -> list[Any]:
    """A decision about a coding agent's call, as stored."""
    made = Filed("allow" if allow else "deny", now_us + _expiry_us(policy), session_digest(head.native))
    return [*msgspec.to_builtins(made)]
