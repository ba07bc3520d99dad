"""The open calls of a conversation, run to their ends before the model is asked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from relight.errors import UsageError
from relight.journal.conversation.reply_ends import CUT_OFF, is_cut_off
from relight.sessions.calls.effects import refuse_call, try_tool
from relight.sessions.calls.tools import Tool
from relight.sessions.coroutines import Gather, Outcomes, Program
from relight.values.call import Call
from relight.values.policy import PARALLEL
from relight.values.status import StatusChange

if TYPE_CHECKING:
    from relight.sessions.session_writer import SessionWriter


def run_open_calls(
    writer: SessionWriter,
    calls: Sequence[Call],
    box: Mapping[str, Tool[Any, Any]],
    in_doubt: Literal["tell", "wait"],
    parallel: int = PARALLEL,
) -> Program[None]:
    """Run these calls to their ends, up to `parallel` at a time, each with its own intent and outcome.

    They begin in the order requested, and their results are in that order, whichever ends first. One that raises (a
    lost lease, a bug of the program) does not stop those that have begun; the first error is raised when they have
    ended. A call that a person has to approve is asked about when the others have ended. With `in_doubt="wait"` a
    person decides about calls that may have happened.
    """
    doubtful = [call for call in calls if call.in_doubt and call.effect == "once"]
    if doubtful and in_doubt == "wait":
        names = ", ".join(f"{call.name} ({call.id})" for call in doubtful)
        change = StatusChange(status="waiting", reason=f"in doubt: {names}")
        cure = f"relight settle {writer.name} {doubtful[0].id} --result TEXT | --retry"
        raise writer.wait(change, question=f"did {names} take effect?", cure=cure)
    questions: list[StatusChange | None] = []
    for is_alone, group in groupby(_not_cut_off(writer, calls), key=lambda call: _runs_alone(box, call)):
        programs = [try_tool(writer, call, box) for call in group]
        if is_alone or parallel == 1 or len(programs) == 1:  # in the caller's own thread
            for program in programs:
                questions.append((yield from program))
        else:
            outcomes: list[Outcomes] = yield Gather(programs, parallel)
            questions += [outcome() for outcome in outcomes]
    question = next((one for one in questions if one is not None), None)
    if question is not None:
        raise writer.wait(question)


def check_parallel(parallel: int) -> int:
    """The number of calls at a time, if it is one."""
    if type(parallel) is not int or parallel < 1:
        raise UsageError(f"parallel is the number of calls that run at a time, 1 or more, not {parallel!r}")
    return parallel


def _runs_alone(box: Mapping[str, Tool[Any, Any]], call: Call) -> bool:
    tool = box.get(call.name)
    return tool is not None and tool.alone


def _not_cut_off(writer: SessionWriter, calls: Sequence[Call]) -> list[Call]:
    """The calls that may run; those of a reply that was cut off are closed, because their arguments may be too."""
    seq, stop = writer.recorder.fold.stop or (0, None)
    cut_off = [call for call in calls if call.asked_seq == seq and call.intent_seq is None and is_cut_off(stop)]
    for call in cut_off:
        refuse_call(writer, call, f"{CUT_OFF} ({stop})")
    return [call for call in calls if call not in cut_off]
