"""`s.rewind`: an agent goes back by itself, with the rules of `rl.history.rewind`, under the lease that it holds.

So does a run that is started again after a reply that is not usable: the model is asked without it.
"""

from __future__ import annotations

from relight.errors import UsageError
from relight.history.loading import resolve
from relight.history.rewind import head_state, rewind_view
from relight.journal.files.undo_log import Move, end_note
from relight.sessions.session_writer import SessionWriter
from relight.values.checkpoint import Checkpoint
from relight.values.step import Changes, View


def rewind(writer: SessionWriter, checkpoint: Checkpoint | str | int) -> Checkpoint:
    """Commit the rewind; conversation, state and answers are those of the checkpoint."""
    writer.refuse_in_batch("rewind")
    recorder, context = writer.recorder, writer.context
    asked = checkpoint.id if isinstance(checkpoint, Checkpoint) else str(checkpoint)
    with recorder.lock:
        writer.check_open()
        if writer.running:
            raise UsageError("rewind while a tool runs: its outcome would belong to a branch that was left")
        if recorder.has_unknown_commit:
            recorder.resolve_unknown("rewind")
        found = resolve(context.store, asked if "@" in asked else f"{recorder.identity.id}@{asked}")
        if found.identity.id != recorder.identity.id:
            raise UsageError(f"{asked} is a checkpoint of another session", hints=["fork it: rl.history.fork(REF)"])
        return _to(writer, rewind_view(context, found)[0])


def leave_reply(writer: SessionWriter, seq: int, messages: int) -> bool:
    """Go back before the reply of this step, which is the end of the conversation; the program's state stays. False if
    that is not possible: the step is of the session that was forked, or says more than the reply."""
    recorder, context = writer.recorder, writer.context
    with recorder.lock:
        found = resolve(context.store, f"{recorder.identity.id}@{seq - 1}")
        if found.identity.id != recorder.identity.id:
            return False
        view, _ = rewind_view(context, found)
        if view.message_count != len(recorder.fold.messages) - messages:
            return False
        kept = dict(writer.state)
        _to(writer, view)
        for key in [key for key in writer.state if key not in kept]:
            del writer.state[key]
        writer.state.update({key: value for key, value in kept.items() if writer.state.get(key) != value})
        return True


def _to(writer: SessionWriter, view: View) -> Checkpoint:
    recorder, context = writer.recorder, writer.context
    head = recorder.head
    move = Move(verb="rewind", heads=(head.head, view.head), before=head_state(context, head))
    committed = recorder.commit("rewind", Changes(note=end_note(move, begun=None, restores={})), view=view)
    # What belongs to the branch that was left: state that no step has saved, answers not used yet.
    writer.state.clear()
    writer.used_answers = []
    if writer.files is not None:
        writer.files.forget_committed()  # the files stay: they are not those that the checkpoint names
    return committed
