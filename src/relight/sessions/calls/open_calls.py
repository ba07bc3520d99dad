"""The open calls of a conversation, run to their ends before the model is asked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from relight.journal.conversation.model_replies import CUT_OFF, is_cut_off
from relight.sessions.calls.effects import refuse_call, run_tool
from relight.sessions.calls.tools import Tool
from relight.sessions.coroutines import Program
from relight.values.call import Call
from relight.values.status import StatusChange

if TYPE_CHECKING:
    from relight.sessions.session_writer import SessionWriter


def run_open_calls(
    writer: SessionWriter, calls: Sequence[Call], box: Mapping[str, Tool], in_doubt: Literal["tell", "wait"]
) -> Program[None]:
    """Run these calls to their ends. With `in_doubt="wait"` a person decides about those that may have happened."""
    doubtful = [call for call in calls if call.in_doubt and call.effect == "once"]
    if doubtful and in_doubt == "wait":
        names = ", ".join(f"{call.name} ({call.id})" for call in doubtful)
        change = StatusChange(status="waiting", reason=f"in doubt: {names}")
        cure = f"relight settle {writer.name} {doubtful[0].id} --result TEXT | --retry"
        raise writer.wait(change, question=f"did {names} take effect?", cure=cure)
    seq, stop = writer.recorder.fold.stop or (0, None)
    for call in calls:
        if call.asked_seq == seq and call.intent_seq is None and is_cut_off(stop):
            refuse_call(writer, call, f"{CUT_OFF} ({stop})")
        else:
            yield from run_tool(writer, call, box)
