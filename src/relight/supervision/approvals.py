"""Approvals: a matching tool call waits for a person's decision, across restarts; a decision is used once.

hook event -> question recorded, the agent is told to defer -> it ends -> `waiting`, with the question
-> approve or deny commits the answer -> resumed, the hook asks again -> the answer is used and marked as used
"""

from __future__ import annotations

from typing import Final

from relight.errors import Conflict
from relight.history.loading import Found
from relight.journal.effects.approvals import QUESTION, asks_approval, mark_of, matches, question_of
from relight.journal.jsonable import check_text
from relight.operations.operator import write_once
from relight.ports.agent import Decision, Heard
from relight.sessions.context import Context
from relight.sessions.opening import recorder_for, refuse_archived
from relight.sessions.recorder import Recorder
from relight.values.checkpoint import Checkpoint
from relight.values.status import StatusChange
from relight.values.step import Changes

ASKED: Final = "asked"
"""stored as the answer while there is none: the call was told to wait, so it has not run"""


def decision_of(recorder: Recorder, heard: Heard) -> tuple[Decision, str] | None:
    """The decision about a tool call that is about to begin, and its reason; None if it needs no approval."""
    if heard.kind != "tool_begins" or not matches(recorder.identity.policy.approve, heard.tool, heard.arguments):
        return None
    shown = question_of(heard.call, heard.tool, heard.arguments)
    question, mark = recorder.recording.about(shown), mark_of(heard.call, heard.arguments)
    with recorder.lock:
        # Found by its mark, not by its text: the stored question may have been redacted.
        given = (one for one in reversed(recorder.fold.answers) if one.startswith(QUESTION) and one.endswith(mark))
        question = next(given, question)
        answer = recorder.fold.answers.get(question)
        if answer == "allow":
            recorder.commit("mark", Changes(answer=[question, "used"], note={"approval": "allowed"}))
            return "allow", "a person allowed it"
        if answer == "deny":
            reason = recorder.fold.reasons.get(question)
            recorder.commit("mark", Changes(answer=[question, "used"], note={"approval": "denied"}))
            return "deny", f"a person denied it: {reason}" if reason else "a person denied it"
        recorder.commit("mark", Changes(answer=[question, ASKED], note={"asks": question}))
    return "wait", question


def decide(context: Context, found: Found, *, allow: bool, reason: str | None = None) -> Checkpoint:
    """Record a person's decision about the tool call a session waits for, and queue the session.

    The model is told the `reason` of a denial.
    """
    refuse_archived(found)
    recorder = recorder_for(context, found)
    question, asking, name = recorder.head.question, recorder.head.asking, found.identity.name or found.identity.id
    if recorder.head.status != "waiting" or question is None or not asks_approval(question, asking):
        raise Conflict(f"{name}: no tool call waits for a decision", hints=[f"see what it does: relight show {name}"])
    answer = "allow" if allow else "deny"
    change = StatusChange(status="queued", reason="approved" if allow else "denied")
    recorded = [question, answer, asking.key if asking is not None else "", check_text(reason or "", "the reason")]
    return write_once(context, recorder, "mark", Changes(answer=recorded, status=change))
