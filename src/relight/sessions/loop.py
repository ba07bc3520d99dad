"""`relight.loop`: a ready-made loop of model and tools that continues after a crash at any line.

    open calls  ->  model  ->  commit its reply with its usage  ->  its calls  ->  ...  ->  verdict

Calls that a crash left open come first, then a new prompt. A reply is committed with what it cost, so at most the one
reply in flight is paid for twice. Ends `completed` with the model's last text, or `halted` on a repeated call, at the
turn limit, or if the last reply was cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any, Literal

from relight.errors import UsageError
from relight.journal.conversation.last_reply import reply_text
from relight.journal.conversation.loop_detector import repeated
from relight.journal.conversation.model_replies import MAX_PAUSES, is_cut_off, is_paused
from relight.journal.jsonable import check_text
from relight.sessions.calls.effects import note_tools
from relight.sessions.calls.open_calls import PARALLEL, check_parallel, run_open_calls
from relight.sessions.calls.tools import Tools, toolbox
from relight.sessions.coroutines import Program
from relight.sessions.model_calls import ask_model, commit_reply
from relight.sessions.session import Session, driven, writer_of
from relight.values.policy import LoopGuard, Retry
from relight.values.view import Text


def loop_program(
    s: Session,
    *,
    model: Callable[..., Any],
    tools: Tools | None = None,
    prompt: str | None = None,
    prompt_id: str | None = None,
    max_turns: int = 200,
    parallel: int = PARALLEL,
    in_doubt: Literal["tell", "wait"] = "tell",
    retry: Retry | None = None,
    guard: LoopGuard | None = None,
) -> Program[Any]:
    """Run until the model requests no more calls; returns the session's result. A finished session returns at once.

    `prompt` is a user message. With a `prompt_id` it is appended once per id, whatever the text. Without one, a text
    equal to the newest prompt is that prompt (a restarted program), and any other text is a new turn. Tool calls of one
    reply run side by side, up to `parallel` at a time: plain functions in threads, coroutines as tasks.
    """
    if in_doubt not in ("tell", "wait"):
        raise UsageError(f'in_doubt is "tell" or "wait", not {in_doubt!a}')
    check_parallel(parallel)
    writer_of(s).refuse_coroutine(model, "the model")
    is_next = _is_new_prompt(s, prompt, prompt_id)
    if s.is_finished:
        if not is_next:
            return s.result
        writer_of(s).reopen()
    box = toolbox(tools)
    if is_next and s.pending_calls():
        note_tools(writer_of(s), box)
        # providers refuse a user message before the results
        yield from run_open_calls(writer_of(s), s.pending_calls(), box, in_doubt, parallel)
    if is_next:
        _append_prompt(s, prompt, prompt_id)
    note_tools(writer_of(s), box)
    for turn in range(_turns_since_prompt(s), max_turns + 1):
        yield from run_open_calls(writer_of(s), s.pending_calls(), box, in_doubt, parallel)
        if _end_if_done(s, guard or LoopGuard()):
            return s.result
        if turn < max_turns:
            if writer_of(s).halt_at_limit() is not None:
                return s.result
            commit_reply(s, (yield from ask_model(s, model, retry or Retry())))
    s.halt(f"the turn limit of {max_turns} is reached")
    return s.result


loop = driven(loop_program, name="loop")


def _end_if_done(s: Session, guard: LoopGuard) -> bool:
    """Record the verdict if the conversation has reached one."""
    fold = writer_of(s).recorder.fold
    last = _last_reply(s)
    if last and not s.pending_calls():
        seq, stop = fold.stop or (0, None)
        if is_cut_off(stop):
            if seq <= (s.resumed_from or 0):
                return False  # opened again since: the user wants the model to continue
            s.halt(f"the last reply was cut off ({stop}): allow it more tokens, or give another prompt")
        elif is_paused(last, stop):
            if len(last) < MAX_PAUSES:
                return False
            s.halt(f"the provider paused its turn {MAX_PAUSES} times in a row")
        else:
            s.complete(reply_text(fold.format, last) or None)
        return True
    why = repeated(fold, since=s.resumed_from or 0, repeats=guard.repeats)
    if why is not None:
        s.halt(why)
    return why is not None


def _last_reply(s: Session) -> list[dict[str, Any]]:
    """The reply that ends the conversation, new or left by a crash before the verdict. Empty: more must follow."""
    return list(takewhile(writer_of(s).recorder.fold.format.is_assistant, reversed(s.messages)))[::-1]


def _turns_since_prompt(s: Session) -> int:
    """Replies since the last user message, over all attempts: a crash must not reset the turn limit."""
    format = writer_of(s).recorder.fold.format
    replies = 0
    for message in reversed(s.messages):
        if format.is_assistant(message):
            replies += 1
        elif not format.answers(message):
            break
    return replies


def _is_new_prompt(s: Session, prompt: Any, prompt_id: str | None) -> bool:
    """Whether the session has not had this prompt. Compared with the program's own last prompt, not with one that an
    operator sent, so that a program that always passes the same prompt does not repeat it after `relight resume NAME
    PROMPT`."""
    if prompt_id is not None:
        if prompt is None or not check_text(prompt_id, "prompt_id"):
            raise UsageError("a prompt_id is a text that belongs to a prompt: give both")
        is_next = prompt_id not in writer_of(s).recorder.fold.prompts
        if is_next:
            writer_of(s).recorder.recording.check_key(prompt_id, "the prompt_id")
        return is_next
    if prompt is None:
        return False
    fold = writer_of(s).recorder.fold
    before = fold.prompt or fold.last_user_message
    if before is not None:
        return not _same(s, before, prompt)
    # A reset written by 0.1.0 does not carry the prompt. In the middle of a turn it must have been appended before.
    return s.is_new or not fold.was_reset or s.is_finished


def _same(s: Session, before: dict[str, Any], prompt: Any) -> bool:
    format = writer_of(s).recorder.fold.format
    prompt = writer_of(s).recorder.recording.data_of(prompt)
    if before == format.user(prompt):
        return True
    blocks = [block for view in format.read([before]) if view.role == "user" for block in view.blocks]
    return len(blocks) == 1 and isinstance(blocks[0], Text) and blocks[0].text == prompt


def _append_prompt(s: Session, prompt: Any, prompt_id: str | None) -> None:
    writer_of(s).append([writer_of(s).recorder.fold.format.user(prompt)], None, prompt=prompt_id or "")
