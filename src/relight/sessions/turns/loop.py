"""The loop of model and tools, which continues after a crash at any line: `s.run`, and `s.turns` by hand.

    open calls  ->  model  ->  commit its reply with its usage  ->  its calls  ->  ...  ->  verdict

Calls that a crash left open come first, then a new prompt. A reply is committed with what it cost, so at most the one
reply in flight is paid for twice. Ends `completed` with the model's last text, or `halted` on a repeated call, at the
turn limit, or if the last reply was cut off. Both forms take their decisions in `Turns.advance`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from relight.errors import UsageError
from relight.journal.conversation.last_reply import reply_text
from relight.journal.conversation.loop_detector import repeated
from relight.journal.conversation.reply_ends import MAX_PAUSES, is_cut_off, is_paused, why_cut_off
from relight.sessions.calls.effects import note_tools
from relight.sessions.calls.open_calls import check_parallel, run_open_calls
from relight.sessions.calls.tools import Tool, Tools, toolbox
from relight.sessions.coroutines import Program, drive
from relight.sessions.model_calls import ask_model, commit_reply
from relight.sessions.session_writer import SessionWriter
from relight.sessions.turns.prompts import answer_to, append_prompt, check_prompt, is_new_prompt, reopen_for
from relight.sessions.turns.rewinding import leave_reply
from relight.values.call import Call
from relight.values.policy import MAX_TURNS, PARALLEL, LoopGuard, Retry

InDoubt = Literal["tell", "wait"]
"""tell the model that the outcome of a call is unknown, or wait for a person to settle it"""


def run_program(turns: Turns, model: Any, retry: Retry) -> Program[Any]:
    """Ask the model at each turn until there is a verdict; the result, or what an earlier prompt was answered."""
    if not callable(model):
        hints = ["def model(messages): return client.messages.create(..., messages=messages)"]
        raise UsageError(f"the model is a function of the messages, not {type(model).__name__}", hints=hints)
    _check_kind("retry", retry, Retry, "no second attempt: retry=relight.Retry(attempts=1)")
    turns.writer.refuse_coroutine(model, "the model")
    while (yield from turns.advance()) is not None:
        commit_reply(turns.writer, (yield from ask_model(turns.writer, model, retry)))
    return turns.answer()


def _check_kind(name: str, given: Any, kind: type, hint: str) -> None:
    if not isinstance(given, kind):
        raise UsageError(f"{name} is a relight.{kind.__name__}, not {given!r}", hints=[hint])


class Turns:
    """The turns of one run: iterate over it, and give each turn its reply."""

    def __init__(
        self,
        writer: SessionWriter,
        tools: Tools | None,
        *,
        prompt: str | None = None,
        prompt_id: str | None = None,
        max_turns: int = MAX_TURNS,
        parallel: int = PARALLEL,
        in_doubt: InDoubt = "tell",
        guard: LoopGuard,
    ) -> None:
        if in_doubt not in ("tell", "wait"):
            raise UsageError(f'in_doubt is "tell" or "wait", not {in_doubt!r}')
        if type(max_turns) is not int or max_turns < 1:
            raise UsageError(f"max_turns is the number of replies to a prompt, 1 or more, not {max_turns!r}")
        _check_kind("guard", guard, LoopGuard, "to turn it off: guard=relight.LoopGuard(repeats=0)")
        check_prompt(prompt)
        self.writer = writer
        self._tools: Mapping[str, Tool[Any, Any]] | None = toolbox(tools) if tools is not None else None
        self._prompt, self._prompt_id = prompt, prompt_id
        self._max_turns, self._in_doubt, self._guard = max_turns, in_doubt, guard
        self._parallel = check_parallel(parallel)
        self._number = -1
        """replies to this prompt so far; -1 before the first turn"""

    def __repr__(self) -> str:
        return f"<relight turns of {self.writer.name}>"

    def advance(self) -> Program[Turn | None]:
        """Run the open calls; then the turn to give a reply to, or None if the session has a verdict."""
        writer = self.writer
        writer.refuse_in_batch("a run")
        if self._number < 0 and not (yield from self._begin()):
            return None
        yield from self.run_calls(writer.pending_calls())
        if self._end_if_done():
            return None
        if self._number >= self._max_turns:
            writer.end("halted", f"the turn limit of {self._max_turns} is reached")
            return None
        if writer.halt_at_limit() is not None:
            return None
        # Counted here and not by the replies: a body that gives no reply must not loop without end.
        self._number += 1
        return Turn(self, self._number)

    def _begin(self) -> Program[bool]:
        """Append a new prompt, after the calls that are open; False if the session is finished and has had it."""
        writer = self.writer
        if writer.is_finished and not (yield from reopen_for(writer, self._prompt, self._prompt_id)):
            return False
        if is_new_prompt(writer, self._prompt, self._prompt_id):
            yield from self.run_calls(writer.pending_calls())
            append_prompt(writer, self._prompt, self._prompt_id)
        if self._tools is not None:
            note_tools(writer, self._tools)
        self._number = _turns_since_prompt(writer)
        return True

    def answer(self) -> Any:
        """What the prompt was answered; the session's result where the prompt is the newest, or has no id."""
        return answer_to(self.writer, self._prompt_id)

    def run_calls(self, calls: list[Call]) -> Program[None]:
        """Run these calls to their ends."""
        if not calls:
            return
        if self._tools is None:
            names = ", ".join(sorted({call.name for call in calls}))
            hints = ["s.turns(tools): they are run before the model is asked again"]
            raise UsageError(f"calls are open ({names}), and the turns were given no tools to run them", hints=hints)
        note_tools(self.writer, self._tools)
        yield from run_open_calls(self.writer, calls, self._tools, self._in_doubt, self._parallel)

    def _end_if_done(self) -> bool:
        """Record the verdict if the conversation has reached one."""
        writer, fold = self.writer, self.writer.recorder.fold
        last, resumed_from = _last_reply(writer), writer.recorder.head.resumed_from or 0
        if last and not writer.pending_calls():
            seq, stop = fold.stop or (0, None)
            if is_cut_off(stop):
                if seq <= resumed_from:  # opened again since: another reply is wanted instead of this one
                    leave_reply(writer, seq, len(last) if fold.format.spans else 1)
                    return False
                writer.end("halted", why_cut_off(stop, reply_text(fold.format, last)))
            elif is_paused(last, stop):
                if len(last) < MAX_PAUSES or 0 < seq <= resumed_from:  # opened again since: it may go on
                    return False
                writer.end("halted", f"the provider paused its turn {MAX_PAUSES} times in a row")
            else:
                writer.end("completed", result=reply_text(fold.format, last) or None)
            return True
        repetition = repeated(fold, since=resumed_from, repeats=self._guard.repeats)
        if repetition is not None:
            writer.end("halted", repetition)
        return repetition is not None

    def __iter__(self) -> Iterator[Turn]:
        while (turn := drive(self.advance(), self.writer.context.clock)) is not None:
            yield turn


class Turn:
    """One turn of the model: ask it for a reply to `s.messages`, and give that to `reply`."""

    def __init__(self, turns: Turns, number: int) -> None:
        self._turns = turns
        self.number = number
        """1 for the first reply to the prompt, over all attempts"""

    def __repr__(self) -> str:
        return f"<relight turn {self.number} of {self._turns.writer.name}>"

    def reply(self, returned: Any) -> TurnReply:
        """Commit what the model returned: whatever a model function of `s.run` may return."""
        writer = self._turns.writer
        commit_reply(writer, returned)
        text = reply_text(writer.recorder.fold.format, _last_reply(writer))
        return TurnReply(text, [OpenCall(self._turns, call) for call in writer.pending_calls()])


class TurnReply(NamedTuple):
    """A reply that is committed."""

    text: str
    """what it says"""
    calls: list[OpenCall]
    """what it requests; those that the program does not run are run before the next turn"""


class OpenCall:
    """A call that a reply requests, to be run now."""

    def __init__(self, turns: Turns, call: Call) -> None:
        self._turns = turns
        self.call = call
        """what is requested: its `name`, `arguments` and `id`, and whether it is `in_doubt`"""

    def __repr__(self) -> str:
        return f"<relight call {self.call.name} {self.call.id} of {self._turns.writer.name}>"

    def run(self) -> Call:
        """Run it with the tools of the turns, and commit its result."""
        return drive(self.program(), self._turns.writer.context.clock)

    def program(self) -> Program[Call]:
        """`run`, for a driver of one's own."""
        yield from self._turns.run_calls([self.call])
        return self._turns.writer.call_of(self.call)


def _last_reply(writer: SessionWriter) -> list[dict[str, Any]]:
    """The reply that ends the conversation, new or left by a crash before the verdict. Empty: more must follow."""
    fold = writer.recorder.fold
    return list(takewhile(fold.format.is_assistant, reversed(fold.messages)))[::-1]


def _turns_since_prompt(writer: SessionWriter) -> int:
    """Replies since the last user message, over all attempts: a crash must not reset the turn limit."""
    fold = writer.recorder.fold
    replies = 0
    for message in reversed(fold.messages):
        if fold.format.is_assistant(message):
            replies += 1
        elif not fold.format.answers(message):
            break
    return replies
