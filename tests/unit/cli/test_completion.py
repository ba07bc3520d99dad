"""Completion in a shell: verbs, sessions and labels, by our own quick answer where click would give the same one."""

from __future__ import annotations

import os

import pytest

import relight
from relight.cli.app import complete as completing
from relight.cli.app import group
from tests.support.shell import Shell


def test_a_shell_completes_verbs_sessions_and_labels(shell: Shell, some: relight.Relight) -> None:
    def complete(line: str) -> str:
        words = line.split(" ")
        return shell.run(_RELIGHT_COMPLETE="fish_complete", COMP_WORDS=line, COMP_CWORD=words[-1]).stdout

    assert "plain,resume" in complete("relight res")
    assert "fix-login\twaiting" in complete("relight show fi")
    assert "fix-login@tests-red" in complete("relight rewind fix-login@te")
    assert "old" not in complete("relight show ")
    for name in ("bash", "zsh", "fish"):
        assert "_RELIGHT_COMPLETE" in shell.run("completion", name).stdout


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("typed", ["", "fi", "fix-login@", "nobody", "old"])
def test_our_own_answer_to_a_shell_is_the_one_click_would_give(
    some: relight.Relight, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, typed: str
) -> None:
    words = {"COMP_WORDS": f"relight show {typed}".strip(), "COMP_CWORD": typed if name == "fish" else "2"}
    for variable, value in {**words, "_RELIGHT_COMPLETE": f"{name}_complete"}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("RELIGHT_STORE", some.store.url)
    assert completing.answered(os.environ)
    ours = capsys.readouterr().out
    group.run([])
    assert capsys.readouterr().out.strip("\n") == ours.strip("\n")


@pytest.mark.parametrize("line", ["relight", "relight sh", "relight show 'fix", "relight show -", "relight list f"])
def test_other_questions_of_a_shell_are_left_to_click(line: str) -> None:
    asked = {"_RELIGHT_COMPLETE": "zsh_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    assert not completing.answered(asked)
