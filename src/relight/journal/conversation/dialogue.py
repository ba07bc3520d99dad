"""The part of the fold about user, operator and program: prompts, questions, answers, why a reply ended.

It knows which prompt the program gave last, what it asks, and which answers exist for it and are not used yet. An
answer for one asking lapses when it is used or with the next user message; one under a key of its own remains.
"""

from __future__ import annotations

from typing import Any, Final

from relight.journal.effects.approvals import QUESTION
from relight.values.status import StatusChange
from relight.values.step import Carried, Changes, Step

ONE_ASKING: Final = "ask:"
"""prefix of the key of an answer that is for one asking"""
SLEEP: Final = "relight: sleep"
"""pseudo-question under which the wake-up time of a pause is filed"""
SLEEPING: Final = "sleeping until"
"""how the reason of a session begins that sleeps"""
_PAUSE: Final = "sleep:"
"""prefix of the key of a pause without a key of its own"""
NEXT_PROMPT: Final = "relight: next prompt"
"""pseudo-question under which a prompt waits until its agent is started"""


class Dialogue:
    """Base of the fold, which adds each step by `_apply_messages`, `_apply_answers` and `_apply_delivery`."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        """by question: decisions about calls of coding agents, and answers that 0.1.0 recorded for questions"""
        self.answered: dict[str, Any] = {}
        """by key: unused answers to the program's own questions"""
        self.reasons: dict[str, str] = {}
        """reason given with a decision, by key or question"""
        self.asking: StatusChange | None = None
        """the program's newest question, until it is answered or a user message follows"""
        self.prompt: dict[str, Any] | None = None
        """the newest prompt that the program gave"""
        self.prompts: dict[str, dict[str, Any] | None] = {}
        """such prompts by their id; None where a reset has hidden the message"""
        self.last_user_message: dict[str, Any] | None = None
        """the newest user message since the last reset, from any writer"""
        self.stop: tuple[int, str] | None = None
        """seq of the newest reply, and its stop reason if reported"""
        self.prompt_from = 0
        """the first attempt that can have delivered the waiting prompt; 0 if unknown"""
        self.prompt_given = 0
        """the newest attempt that started or reattached its agent with it; 0: none"""
        self.was_reset = False
        """whether earlier messages exist that are not visible"""

    def _apply_answers(self, step: Step, changes: Changes) -> None:
        """What a step says about questions: one asked, one answered, answers that were used."""
        if changes.answer:
            self._file(list(changes.answer))
        if changes.answer or self.answers:  # else no prompt waits
            self._apply_delivery(step, changes)
        for key in changes.used:
            for filed in (self.answered, self.answers, self.reasons):
                filed.pop(key, None)
        if changes.status is not None and changes.status.asking is not None:
            self.asking = changes.status

    def _apply_messages(self, step: Step, changes: Changes, *, replied: bool, words: dict[str, Any] | None) -> None:
        """A user message ends what was asked before it; a reply may come with its stop reason. `replied`: a reply is
        among the messages; `words`: the last user message among them."""
        if replied:
            self.stop = (step.seq, changes.stop) if changes.stop is not None else None
        if self.answers:  # 0.1.0 did not record use: its answers to questions count until the next message
            self.answers = {asked: one for asked, one in self.answers.items() if _is_decision(asked)}
        # A pause that its program never took up again ends with the next turn, or a later one would find it over.
        if self.answered and (replied or changes.prompt is not None):
            self.answered = {key: one for key, one in self.answered.items() if not key.startswith(_PAUSE)}
        if words is None:
            return
        self.last_user_message, self.asking = words, None
        # An unused answer lapses with the next user message: an old yes must not approve a new question.
        if self.answered:
            self.answered = {key: one for key, one in self.answered.items() if not key.startswith(ONE_ASKING)}
        if changes.prompt is not None:
            self.prompt = words
            if changes.prompt:
                self.prompts[changes.prompt] = words

    def _apply_delivery(self, step: Step, changes: Changes) -> None:
        """Which attempts can have delivered the waiting prompt to the agent. One recorded with an attempt's
        beginning, or while its agent runs, is for that attempt; any other is for the next."""
        note = changes.note or {}
        runs = "started" in note or "taken_up" in note
        if changes.answer and changes.answer[0] == NEXT_PROMPT:
            is_now = runs or changes.attempt is not None
            self.prompt_from, self.prompt_given = step.attempt + (0 if is_now else 1), 0
        if self.answers.get(NEXT_PROMPT) is None:
            return
        if changes.attempt is not None:  # a fork starts counting attempts at 1
            self.prompt_from = min(self.prompt_from, step.attempt)
        if runs:
            self.prompt_given = step.attempt

    def _file(self, answer: list[Any]) -> None:
        """File an answer by its key if the program asked, by its question if a coding agent's hook did."""
        question, value, key, reason = [*answer, "", ""][:4]
        (self.answered if key else self.answers)[key or question] = value
        if reason:
            self.reasons[key or question] = reason
        if self.asking is not None and self.asking.asking is not None and self.asking.asking.key == key:
            self.asking = None

    def _carry_over(self, carried: Carried) -> None:
        """Restore what a reset carries."""
        self.answers, self.answered = dict(carried.answers), dict(carried.answered)
        self.reasons, self.asking = dict(carried.reasons), carried.asking
        self.prompt, self.prompts = carried.prompt, dict.fromkeys(carried.prompts)
        self.prompt_from, self.prompt_given = carried.prompt_from, carried.prompt_given
        self.last_user_message, self.stop, self.was_reset = None, None, True


def _is_decision(question: str) -> bool:
    """Whether it is filed by its question on purpose, and is not an answer to a question recorded by 0.1.0."""
    return question == NEXT_PROMPT or question.startswith(QUESTION)
