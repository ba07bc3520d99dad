"""What the user, the operator and the model said to the program: prompts, questions and answers, why a reply ended.

One part of the fold: which prompt the program gave last, what it asks, which answers are there for it and not used yet.
An answer for one asking lapses when it is used or when the user says something new; one under a key of its own stays.
"""

from __future__ import annotations

from typing import Any, Final

from relight.journal.effects.approvals import QUESTION
from relight.journal.formats.format import Format
from relight.values.status import StatusChange
from relight.values.step import Carried, Changes, Step

ONE_ASKING: Final = "ask:"
"""begins the key of an answer that is for one asking"""
NEXT_PROMPT: Final = "relight: next prompt"
"""under this question a prompt waits until its agent is started"""


class Dialogue:
    """Part of the fold; `_hear` takes each step in."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        """by question: decisions about calls of coding agents, and what 0.1.0 recorded for `wait`"""
        self.answered: dict[str, Any] = {}
        """by key: what was answered to the program's own questions and is not used yet"""
        self.reasons: dict[str, str] = {}
        """why a person decided so, by key or question"""
        self.asking: StatusChange | None = None
        """the program's newest question, until it is answered or the user says something new"""
        self.prompt: dict[str, Any] | None = None
        """the newest prompt that the program gave to `loop`"""
        self.prompts: set[str] = set()
        """ids of such prompts"""
        self.spoken: dict[str, Any] | None = None
        """the user's newest message since the last reset, whoever appended it"""
        self.stop: tuple[int, str] | None = None
        """seq of the newest reply and why its model stopped, where that was told"""
        self.prompt_from = 0
        """the first attempt that can have told its agent the prompt that waits; 0 where that is not known"""
        self.prompt_given = 0
        """the newest attempt that started or took up its agent with it; 0: none"""
        self.was_reset = False
        """are there messages from before that are not in view?"""

    def _hear(self, step: Step, changes: Changes, format: Format) -> None:
        if changes.messages and step.kind != "reset":
            self._hear_messages(step, changes, format)
        if changes.answer:
            self._file(list(changes.answer))
        self._hear_delivery(step, changes)
        for key in changes.used:
            for filed in (self.answered, self.answers, self.reasons):
                filed.pop(key, None)
        if changes.status is not None and changes.status.asking is not None:
            self.asking = changes.status

    def _hear_messages(self, step: Step, changes: Changes, format: Format) -> None:
        """A user's words end what was asked before them; a reply may say why it stopped."""
        if any(map(format.is_assistant, changes.messages)):
            self.stop = (step.seq, changes.stop) if changes.stop is not None else None
        if self.answers:  # 0.1.0 recorded no use: what it filed for `wait` holds until the conversation goes on
            self.answers = {asked: one for asked, one in self.answers.items() if _is_decision(asked)}
        words = [one for one in changes.messages if one.get("role") == "user" and not format.answers(one)]
        if not words:
            return
        self.spoken, self.asking = words[-1], None
        self.answered = {key: one for key, one in self.answered.items() if not key.startswith(ONE_ASKING)}
        if changes.prompt is not None:
            self.prompt = words[-1]
            self.prompts |= {changes.prompt} - {""}

    def _hear_delivery(self, step: Step, changes: Changes) -> None:
        """Which attempts can have told the agent the prompt that waits. One recorded with an attempt's beginning, or
        once its agent runs, is for that attempt; any other is for the next."""
        note = changes.note or {}
        runs = "started" in note or "taken_up" in note
        if changes.answer and changes.answer[0] == NEXT_PROMPT:
            is_now = runs or changes.attempt is not None
            self.prompt_from, self.prompt_given = step.attempt + (0 if is_now else 1), 0
        if self.answers.get(NEXT_PROMPT) is None:
            return
        if changes.attempt is not None:  # a fork counts its attempts anew
            self.prompt_from = min(self.prompt_from, step.attempt)
        if runs:
            self.prompt_given = step.attempt

    def _file(self, answer: list[Any]) -> None:
        """By its key where the program asked; by the question where a coding agent's hook did."""
        question, value, key, reason = [*answer, "", ""][:4]
        (self.answered if key else self.answers)[key or question] = value
        if reason:
            self.reasons[key or question] = reason
        if self.asking is not None and self.asking.asking is not None and self.asking.asking.key == key:
            self.asking = None

    def _take_along(self, carried: Carried) -> None:
        """What a reset carries on."""
        self.answers, self.answered = dict(carried.answers), dict(carried.answered)
        self.reasons, self.asking = dict(carried.reasons), carried.asking
        self.prompt, self.prompts = carried.prompt, set(carried.prompts)
        self.prompt_from, self.prompt_given = carried.prompt_from, carried.prompt_given
        self.spoken, self.stop, self.was_reset = None, None, True


def _is_decision(question: str) -> bool:
    """Is it filed by its question on purpose, and no answer to `wait` of 0.1.0?"""
    return question == NEXT_PROMPT or question.startswith(QUESTION)
