"""Approval of tool calls: a call of a tool with `approve=` waits for a person before its intent is committed.

    ask the predicate  ->  commit `waiting` with the question  ->  a person decides, in a commit of their own
    ->  the program is opened again  ->  the intent (or the refusal) uses the decision up, in the same commit

A decision holds for one call with exactly its arguments, and is used once. Whatever goes wrong before it is read, the
call does not begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from relight.journal.effects.approvals import approval_slot, question_of
from relight.journal.fold import Slot
from relight.sessions.coroutines import Execute, Program
from relight.telemetry.logs import TOOL, warn
from relight.values.status import Asking, StatusChange

if TYPE_CHECKING:
    from relight.sessions.calls.tools import Tool
    from relight.sessions.session_writer import SessionWriter


def approved(
    writer: SessionWriter, slot: Slot, tool: Tool[Any, Any], given: dict[str, Any], arguments: dict[str, Any]
) -> Program[tuple[bool, list[str]] | StatusChange]:
    """Whether a call may begin, and the decision to mark as used if it does or is refused; or the question that a
    person has to decide first.

    `given` is what the model passed, and what the decision is about; `arguments` is the same, converted, for the
    predicate. An existing decision counts before the predicate is called, so a denial holds whatever it says later.
    """
    decision_key = approval_slot(slot.asked_seq, slot.site.id, slot.site.name, given)
    answer = writer.recorder.fold.answered.get(decision_key)
    if answer is not None:
        return answer == "allow", [decision_key]
    if not (yield from _wants_approval(writer, tool, arguments, slot.key)):
        return True, []
    question = question_of(slot.site.id, slot.site.name, given)
    asking = Asking(kind="approval", key=decision_key)
    return StatusChange(status="waiting", reason="asks", question=question, asking=asking)


def denial_of(writer: SessionWriter, decision: Sequence[str]) -> str:
    """The result the model gets for a call that a person denied."""
    reasons = [writer.recorder.fold.reasons[one] for one in decision if one in writer.recorder.fold.reasons]
    return f"not run: a person denied it{': ' + reasons[0] if reasons else ''}"


def _wants_approval(writer: SessionWriter, tool: Tool[Any, Any], arguments: dict[str, Any], key: str) -> Program[bool]:
    if not callable(tool.approve):
        return tool.approve
    try:
        return bool((yield Execute(tool.approve, partial(tool.ask_approval, arguments, key))))
    except Exception as error:  # the user's predicate may raise anything: then the call does not run without a person
        why = f"approve of {tool.name!r} failed, so a person is asked: {type(error).__name__}: {error}"
        warn(TOOL, f"{writer.name}: {why}", writer.recorder.log_fields)
        return True
