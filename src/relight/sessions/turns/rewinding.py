"""`s.rewind`: an agent goes back by itself, with the rules of `rl.history.rewind`, under the lease that it holds."""

from __future__ import annotations

from relight.errors import UsageError
from relight.history.loading import resolve
from relight.history.rewind import head_state, rewind_view
from relight.journal.files.undo_log import Move, end_note
from relight.sessions.session_writer import SessionWriter
from relight.values.checkpoint import Checkpoint
from relight.values.step import Changes


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
        head, (view, _) = recorder.head, rewind_view(context, found)
        move = Move(verb="rewind", heads=(head.head, view.head), before=head_state(context, head))
        committed = recorder.commit("rewind", Changes(note=end_note(move, begun=None, restores={})), view=view)
        # What belongs to the branch that was left: state that no step has saved, answers not used yet.
        writer.state.roll_back(({}, set()))
        writer.used_answers = []
        return committed
