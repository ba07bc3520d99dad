"""Questions of a program to a person: `s.ask`.

    commit `waiting` with the question  ->  the block is left  ->  a person answers, in a commit of their own
    ->  the program is opened again and asks the same  ->  the answer is returned, and used up by the next step

An answer belongs to one asking. It is used up by the first step committed after it was returned, in the same commit: a
crash before that step leaves it unused, and the same question gets it again; after it, the same text is a new question.
Another wait is no such step: the program that is started again asks both again, and gets both answers.
A `key` makes all askings under it one. An answer that no program asks for again lapses with the next user message, so
that an old yes never approves a new question.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from relight.errors import UsageError
from relight.journal.codec import isolated
from relight.journal.conversation.dialogue import ONE_ASKING
from relight.journal.jsonable import check_text
from relight.values.status import Asking, StatusChange
from relight.values.step import Changes

if TYPE_CHECKING:
    from relight.sessions.session_writer import SessionWriter

_MAX_TIMEOUT_SECONDS: Final = 1e9
_MAX_CHOICES: Final = 100


def ask(
    writer: SessionWriter,
    question: str,
    key: str | None,
    choices: Sequence[str] | None,
    timeout: float | None,
    default: Any,
) -> Any:
    """The answer to this asking; if there is none, commit `waiting` and raise Waiting."""
    _check(question, key, choices, timeout, default)
    writer.refuse_in_batch("ask")
    recorder = writer.recorder
    digest = sha256(question.encode("utf-8", "surrogatepass")).hexdigest()
    slot = f"key:{key}" if key is not None else _next_slot(writer, ONE_ASKING + digest)
    with recorder.lock:
        if recorder.has_unknown_commit:
            recorder.resolve_unknown("mark")
        if key is not None and slot in recorder.fold.answered:
            return recorder.fold.answered[slot]
        _refuse_inside(writer)
        writer.check_open()
        if slot in recorder.fold.answered and slot not in writer.used_answers:
            return _mark_used(writer, slot, recorder.fold.answered[slot])
        if key is None and question in recorder.fold.answers and question not in writer.used_answers:
            return _mark_used(writer, question, recorder.fold.answers[question])  # 0.1.0 filed answers by text
        wake_us = _wake_us(writer, slot, timeout)
        if wake_us is not None and wake_us <= writer.context.clock.now_us():
            return _give_up(writer, slot, question, default)
        if key is not None:
            recorder.recording.check_key(key, "the key of this question")
        given = [] if default is ... else [isolated(default, "the default")]
        asking = Asking(key=slot, choices=list(choices or ()), default=given)
        change = StatusChange(status="waiting", reason="asks", question=question, wake_us=wake_us, asking=asking)
        raise writer.wait(change)


def _check(question: str, key: str | None, choices: Sequence[str] | None, timeout: float | None, default: Any) -> None:
    check_text(question, "the question")
    if not question.strip():
        raise UsageError("the question is empty")
    if key is not None:
        check_text(key, "the key of ask")
    if choices is not None:
        if isinstance(choices, str) or not 0 < len(choices) <= _MAX_CHOICES:
            raise UsageError(f"choices are 1 to {_MAX_CHOICES} texts, not {choices!r}")
        for choice in choices:
            check_text(choice, "a choice")
    if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout < _MAX_TIMEOUT_SECONDS):
        raise UsageError(f"timeout must be a number of seconds above 0, not {timeout!r}")
    if default is not ... and timeout is None:
        raise UsageError("a default is used when the timeout is over: give both", hints=["s.ask(..., timeout=3600)"])


def _refuse_inside(writer: SessionWriter) -> None:
    if writer.running:
        slots = [writer.recorder.fold.slot(*effect) or effect[1] for effect in writer.running]
        names = ", ".join(sorted(one if isinstance(one, str) else one.site.name for one in slots))
        writer.misused = UsageError(
            f"s.ask was called while {names} is running: after the answer it would have to run again, with everything "
            "it did before. To ask a person before a tool runs, declare it @relight.tool(approve=True)"
        )
        raise writer.misused


def _next_slot(writer: SessionWriter, slot: str) -> str:
    """The slot of this asking: after answers to the same text that no step has used yet, the next number."""
    asked = sum(used == slot or used.startswith(f"{slot}:") for used in writer.used_answers)
    return f"{slot}:{asked}" if asked else slot


def _mark_used(writer: SessionWriter, slot: str, answer: Any) -> Any:
    writer.used_answers.append(slot)
    return answer


def _wake_us(writer: SessionWriter, slot: str, timeout: float | None) -> int | None:
    """The deadline of the wait. Asking again after a restart does not extend it."""
    if timeout is None:
        return None
    before = writer.recorder.fold.asking
    if before is not None and before.asking is not None and before.asking.key == slot and before.wake_us is not None:
        return before.wake_us
    return writer.context.clock.now_us() + round(timeout * 1e6)


def _give_up(writer: SessionWriter, slot: str, question: str, default: Any) -> Any:
    """No answer in time: record the default as the answer."""
    if default is ...:
        raise TimeoutError(f"no answer in time: {question}")
    default = isolated(default)
    note = {"answered": "by its default: no answer in time"}
    writer.record("mark", Changes(answer=[question, default, slot], note=note), uses_answers=False)
    return default if slot.startswith("key:") else _mark_used(writer, slot, default)
