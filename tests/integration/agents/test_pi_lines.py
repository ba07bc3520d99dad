"""pi's session file: the active branch, a compaction, lines that are there twice; its command line; its failures."""

from __future__ import annotations

from typing import Any

import pytest

from relight.agents.pi import command_line, session_lines
from relight.agents.pi.adapter import Pi
from relight.journal.failures.classify import classify
from relight.ports.agent import Ask, Surroundings
from relight.values.ending import Ending
from tests.support.transcripts import pi_conversation

NOW = 1_794_800_000_000_000


def _keys(lines: list[dict[str, Any]]) -> list[str]:
    return [entry.key for entry in session_lines.entries(lines)]


def test_the_last_line_decides_which_branch_is_active_and_a_line_counts_once() -> None:
    lines = pi_conversation()
    other = {**lines[-1], "id": "ffffffff", "parentId": lines[1]["id"]}
    assert _keys([*lines, other]) == [*_keys(lines[:2]), "line:ffffffff"]
    head = {"type": "session", "version": 3, "id": "x", "timestamp": "t", "cwd": "/"}
    assert _keys([head, *lines[:2], head, *lines]) == _keys(lines)


def test_a_compaction_leaves_what_it_keeps() -> None:
    lines = pi_conversation()
    last = {"id": "eeeeeeee", "parentId": lines[-1]["id"], "timestamp": lines[-1]["timestamp"]}
    compacted = {"type": "compaction", "summary": "so far", "firstKeptEntryId": lines[-1]["id"], **last}
    assert _keys([*lines, compacted]) == [*_keys(lines)[-1:], "line:eeeeeeee"]


@pytest.mark.parametrize("prompt", ["--help", "-p", "@secrets.txt"])
def test_a_prompt_is_never_a_flag_or_a_file(prompt: str) -> None:
    here = Surroundings(directory="/", environment={"HOME": "/nowhere"})
    ask = Ask(command=("pi", "-p", "do it"), surroundings=here, rung="bootstrap", prompt=prompt)
    assert command_line.launch(ask).command == ("pi", "-p", f" {prompt}")


@pytest.mark.parametrize(
    "command", [["pi", "install", "x"], ["pi", "--mode", "rpc"], ["pi", "-p", "x", "--no-session"], ["pip", "install"]]
)
def test_what_is_no_session_of_its_own_is_a_command_like_any_other(command: list[str]) -> None:
    assert not Pi().recognises(command)


@pytest.mark.parametrize(
    ("reason", "text", "kind"),
    [
        ("stop", "", "ok"),
        ("aborted", "Request was aborted", "interrupted"),
        ("error", "429 You have hit your usage limit. Try again in 90 seconds.", "usage_limit"),
        ("error", "401 invalid api key", "auth"),
        ("error", "529 Overloaded", "overloaded"),
        ("error", "400 prompt is too long", "context"),
    ],
)
def test_the_last_reply_tells_how_it_ended(reason: str, text: str, kind: str) -> None:
    message = {"role": "assistant", "content": [], "stopReason": reason, "errorMessage": text}
    line = {"type": "message", "id": "1", "parentId": None, "timestamp": "t", "message": message}
    code = 0 if kind == "ok" else 1
    found = classify(Ending(agent="pi", exit_code=code, transcript=(line,), now_us=NOW))
    assert found.kind == kind
    if kind == "usage_limit":
        assert found.wake_us is not None and found.wake_us >= NOW + 90_000_000
