"""A prompt that its program could not be given is refused at every entry point, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import UsageError
from relight.library.facade import Relight
from relight.supervision.launch import launch
from relight.values.options import ResumeOptions, RunOptions

LONGEST = 131_071
ASKED = ResumeOptions(prompt="go on")
REFUSED = ("", " \n", "a\0b", "\ud800", "x" * (LONGEST + 1), "é" * (LONGEST // 2 + 1))


@pytest.fixture
def rl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relight]:
    monkeypatch.setenv("RELIGHT_STORE", str(tmp_path / "r.db"))
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    with relight.open() as opened:
        for name, agent, command in (("coding", "claude", ["claude", "-p", "hello"]), ("own", "sh", ["sh", "-c", ":"])):
            launch(opened._context, command, RunOptions(directory=str(tmp_path), agent=agent, name=name))
        yield opened


def everything(rl: Relight) -> Any:
    return [(info, list(rl.store.steps(info.id))) for info in rl.sessions.list()]


@pytest.mark.parametrize("prompt", REFUSED, ids=lambda text: f"{text[:1]!r} of {len(text)}")
def test_a_prompt_that_a_coding_agent_cannot_be_started_with_is_refused(rl: Relight, prompt: str) -> None:
    before = everything(rl)
    for ask in (
        lambda: rl.runs.send("coding", prompt),
        lambda: rl.runs.resume("coding", ResumeOptions(prompt=prompt)),
        lambda: rl.runs.supervise("coding", ResumeOptions(prompt=prompt)),
        lambda: rl.runs.check_start("coding", ResumeOptions(prompt=prompt)),
        lambda: rl.runs.prepare("coding", prompt=prompt),
        lambda: rl.queues.enqueue("coding", queue="default", prompt=prompt),
        lambda: rl.history.fork("coding", name="f", prompt=prompt),
    ):
        with pytest.raises(UsageError):
            ask()
        assert everything(rl) == before


def test_a_program_of_ones_own_is_given_any_prompt_but_an_empty_one(rl: Relight) -> None:
    for number, prompt in enumerate(REFUSED):
        if prompt.strip():
            rl.history.fork("own", name=f"f{number}", prompt=prompt)
            assert rl.history.load(f"f{number}").messages[-1]["content"] == prompt
        else:
            with pytest.raises(UsageError, match="the prompt is empty"):
                rl.history.fork("own", prompt=prompt)
    rl.runs.send("coding", "x" * LONGEST)


@pytest.mark.parametrize("word", ["a\0b", "x" * (LONGEST + 1)], ids=["nul", "long"])
def test_a_word_that_no_program_can_be_started_with_is_refused(rl: Relight, tmp_path: Path, word: str) -> None:
    before = everything(rl)
    with pytest.raises(UsageError, match="a word of"):
        rl.runs.start(["sh", "-c", ":", word], RunOptions(directory=str(tmp_path), agent="sh", name="new"))
    assert everything(rl) == before


def test_a_plan_with_a_prompt_asks_for_none(rl: Relight) -> None:
    with rl.session("own") as s:
        s.complete()
    cures = {options: rl.runs.plan("own", options=options).reasons[0].cure for options in (ASKED, ResumeOptions())}
    assert cures == {ASKED: None, ResumeOptions(): "relight resume own PROMPT"}
