"""Prompts: which text is a new turn of the user, and which one the session has had.

A program is started again from its first line, so it gives its prompt again. With an id a prompt is appended once,
whatever the text. Without one, the text of the program's newest prompt is that prompt, and any other text is new.
"""

from __future__ import annotations

from typing import Any

from relight.errors import UsageError
from relight.journal.jsonable import check_text
from relight.sessions.session_writer import SessionWriter
from relight.values.checkpoint import Checkpoint
from relight.values.view import Text


def is_new_prompt(writer: SessionWriter, prompt: Any, prompt_id: str | None) -> bool:
    """Whether the session has not had this prompt. Compared with the program's own last prompt, not with one that an
    operator sent, so that a program that always passes the same prompt does not repeat it after `relight resume NAME
    PROMPT`."""
    fold = writer.recorder.fold
    if prompt_id is not None:
        if prompt is None or not check_text(prompt_id, "prompt_id"):
            raise UsageError("a prompt_id is a text that belongs to a prompt: give both")
        is_next = prompt_id not in fold.prompts
        if is_next:
            writer.recorder.recording.check_key(prompt_id, "the prompt_id")
        return is_next
    if prompt is None:
        return False
    before = fold.prompt or fold.last_user_message
    if before is not None:
        return not _same(writer, before, prompt)
    # A reset written by 0.1.0 does not carry the prompt. In the middle of a turn it must have been appended before.
    return not fold.messages or not fold.was_reset or writer.is_finished


def _same(writer: SessionWriter, before: dict[str, Any], prompt: Any) -> bool:
    format = writer.recorder.fold.format
    prompt = writer.recorder.recording.data_of(prompt)
    if before == format.user(prompt):
        return True
    blocks = [block for view in format.read([before]) if view.role == "user" for block in view.blocks]
    return len(blocks) == 1 and isinstance(blocks[0], Text) and blocks[0].text == prompt


def append_prompt(writer: SessionWriter, prompt: Any, prompt_id: str | None) -> Checkpoint:
    """Commit the prompt as a user message, with its id and outcomes for calls that are open: providers refuse a user
    message before the results. Nothing is run here; what began without an outcome is told as unknown."""
    return writer.append([writer.recorder.fold.format.user(prompt)], None, prompt=prompt_id or "")


def prompt_once(writer: SessionWriter, prompt: str, prompt_id: str | None) -> Checkpoint | None:
    """Append the prompt if it is a new one, reopening a finished session for it; None if the session has had it."""
    writer.refuse_in_batch("prompt")
    if not is_new_prompt(writer, prompt, prompt_id):
        return None
    if writer.is_finished:
        writer.reopen()
    return append_prompt(writer, prompt, prompt_id)
