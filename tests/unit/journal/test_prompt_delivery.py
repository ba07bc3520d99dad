"""Whether an agent was told its prompt is decided by the lines of the attempts that were to tell it, in one place."""

from __future__ import annotations

from typing import Any

import pytest

from relight.agents.claude_code.format import CLAUDE_CODE
from relight.agents.codex.format import CODEX
from relight.journal.conversation.dialogue import NEXT_PROMPT
from relight.journal.conversation.prompt_delivery import delivers, holds
from relight.journal.fold import Fold
from relight.journal.formats.format import Format
from relight.values.step import AttemptStart, Changes, Step

BOTH = pytest.mark.parametrize("format", [CLAUDE_CODE, CODEX], ids=["claude", "codex"])
SECRET = "fake-secret-of-a-test"


def redact(text: str) -> str:
    return text.replace(SECRET, "[redacted]")


def written(line: dict[str, Any]) -> dict[str, Any]:
    """As it stands in a transcript: by this an agent's format is recognised."""
    tree = {"uuid": "u", "parentUuid": None} if "message" in line else {}
    return {**line, **tree, "timestamp": "2026-01-01T00:00:00Z"}


class Told:
    """A journal, step by step."""

    def __init__(self, format: Format) -> None:
        self.fold, self.format, self.attempt, self.seq = Fold(), format, 0, 0

    def step(self, **changes: Any) -> None:
        self.seq += 1
        step = Step(session="s", seq=self.seq, kind="mark", at_us=0, attempt=self.attempt, base=0, since=0,
                    message_count=0, turns=0, open=(), label=None, key=b"", digest=b"", body=b"")  # fmt: skip
        self.fold.apply(step, Changes(**changes))

    def begins(self, prompt: str | None = None) -> None:
        self.attempt += 1
        said = [NEXT_PROMPT, prompt] if prompt is not None else []
        self.step(attempt=AttemptStart(number=self.attempt, resumed_from=0, owner="o"), answer=said)

    def delivers(self, *texts: str, upto: int) -> bool:
        lines = [written(self.format.user(text)) for text in texts]
        return delivers(self.fold, lines, upto=upto, redact=redact)


@BOTH
def test_a_line_of_the_attempt_that_was_to_tell_it_delivers_it(format: Format) -> None:
    reported = Told(format)
    reported.begins("deploy it")
    assert not reported.delivers("deploy it", upto=0), "the same words, from before it was recorded"
    assert not reported.delivers("something else", upto=1)
    assert reported.delivers("something else", "deploy it\n", upto=1)


@BOTH
def test_the_same_words_of_an_attempt_before_are_another_prompt(format: Format) -> None:
    reported = Told(format)
    reported.begins("continue")
    reported.begins("continue")
    assert not reported.delivers("continue", upto=1)
    assert reported.delivers("continue", upto=2)


@BOTH
def test_a_prompt_recorded_between_two_attempts_is_for_the_next(format: Format) -> None:
    reported = Told(format)
    reported.begins()
    reported.step(answer=[NEXT_PROMPT, "and the docs"])
    assert not reported.delivers("and the docs", upto=1)
    reported.begins()
    assert reported.delivers("and the docs", upto=2)


@BOTH
def test_it_is_known_by_the_form_without_its_secrets(format: Format) -> None:
    reported = Told(format)
    reported.begins(redact(f"use {SECRET}"))
    assert reported.delivers(f"use {SECRET}", upto=1)
    assert reported.delivers(redact(f"use {SECRET}"), upto=1)


@BOTH
def test_what_the_model_says_delivers_nothing(format: Format) -> None:
    reported = Told(format)
    reported.begins("deploy it")
    assert not delivers(reported.fold, [written(format.assistant("deploy it"))], upto=1, redact=redact)


def test_a_fork_counts_its_attempts_anew() -> None:
    reported = Told(CLAUDE_CODE)
    reported.attempt = 6
    reported.begins("deploy it")
    reported.attempt = 0
    reported.begins()
    assert reported.delivers("deploy it", upto=1)


def test_a_reset_keeps_for_which_attempt_it_is() -> None:
    reported = Told(CLAUDE_CODE)
    reported.begins()
    reported.begins("deploy it")
    carried, reported.fold = reported.fold.carried([]), Fold()
    reported.seq += 1
    step = Step(session="s", seq=reported.seq, kind="reset", at_us=0, attempt=2, base=0, since=0,
                message_count=0, turns=0, open=(), label=None, key=b"", digest=b"", body=b"")  # fmt: skip
    reported.fold.apply(step, Changes(carried=carried))
    assert not reported.delivers("deploy it", upto=1)
    assert reported.delivers("deploy it", upto=2)


def test_only_whole_lines_hold_a_prompt() -> None:
    assert holds("What is known.\n\ngo", "go"), "a brief ends with it"
    assert not holds("let it go", "go")
    assert not holds("anything", "  ")
