"""Prompts: which text is a new turn of the user, and which one the session has had.

A program is started again from its first line, so it gives its prompt again. With an id a prompt is appended once,
whatever the text. Without one, the text of the program's newest prompt is that prompt, and any other text is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from relight.errors import Conflict, Finished, LeaseHeld, UsageError
from relight.journal.conversation.last_reply import reply_text
from relight.journal.conversation.provider_responses import is_users
from relight.journal.jsonable import check_text
from relight.sessions.coroutines import Pause, Program
from relight.sessions.opening import CLAIM_TRIES, FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS, refresh
from relight.sessions.session_writer import SessionWriter
from relight.values.checkpoint import Checkpoint
from relight.values.view import Text


def check_prompt(prompt: Any) -> None:
    """UsageError for what is no text with a word in it. Each format writes the prompt where a text has to be."""
    if prompt is not None and not isinstance(prompt, str):
        what = "a message" if isinstance(prompt, Mapping) else type(prompt).__name__
        hints = ["append a message, with images or files too: if s.is_new: s.append(message)"]
        raise UsageError(f"a prompt is a text, not {what}", hints=hints)
    if prompt is not None and not prompt.strip():
        raise UsageError("the prompt is empty")


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
    message before the results. Nothing is run here; what began without an outcome is reported as unknown."""
    return writer.append([writer.recorder.fold.format.user(prompt)], None, prompt=prompt_id or "")


def prompt_once(writer: SessionWriter, prompt: str, prompt_id: str | None) -> Program[Checkpoint | None]:
    """Append the prompt if it is a new one, reopening a finished session for it; None if the session has had it."""
    writer.refuse_in_batch("prompt")
    check_prompt(prompt)
    if writer.is_finished:
        yield from reopen_for(writer, prompt, prompt_id)
    made = append_prompt(writer, prompt, prompt_id) if is_new_prompt(writer, prompt, prompt_id) else None
    writer.stop_own_loop()
    return made


def reopen_for(writer: SessionWriter, prompt: Any, prompt_id: str | None) -> Program[bool]:
    """Claim a finished session for a prompt that it has not had; False if it has had it and is finished.

    A finished session is opened without a lease, so several may want to continue it at once. Each claim that is lost,
    and each wait for the holder (the `wait` of its opening), is followed by another look at what the session has had: a
    request that was sent to two workers is answered once.
    """
    left, pause, lost = writer.wait_seconds, FIRST_PAUSE_SECONDS, 0
    while True:
        if writer.is_finished and not is_new_prompt(writer, prompt, prompt_id):
            writer.is_replayed = True
            return False
        try:
            writer.reopen(tries=1)
            return True
        except LeaseHeld:
            if left <= 0:
                raise
            yield Pause(min(pause, left))
            left, pause = left - pause, min(2 * pause, MAX_PAUSE_SECONDS)
            refresh(writer.context, writer.recorder)
        except (Conflict, Finished):  # lost to another claim; the recorder has what that one wrote, its end included
            lost += 1
            if lost == CLAIM_TRIES:
                raise


def answer_to(writer: SessionWriter, prompt_id: str | None) -> Any:
    """The session's result; for a prompt that others followed, the text of the reply that ended its turn. So a request
    that is repeated late gets its own answer. One whose turn ended without a reply, because its process died and the
    next prompt came first, gets that one's: it is the reply to both. A prompt that a reset has hidden gets the
    result."""
    fold = writer.recorder.fold
    given = fold.prompts.get(prompt_id) if prompt_id is not None else None
    at = next((at for at, message in enumerate(fold.messages) if message is given), None)
    if at is None:
        return fold.result
    ends = [end for end, message in enumerate(fold.messages) if end > at and is_users(fold.format, message)]
    for end in ends:
        reply = list(takewhile(fold.format.is_assistant, reversed(fold.messages[at + 1 : end])))[::-1]
        if reply:
            return reply_text(fold.format, reply) or None
    return fold.result
