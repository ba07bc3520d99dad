"""An answer and a start in one request: the answer is committed first, and what follows is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relight.errors import Waiting
from relight.journal.after_answer import after_answer, continuation_of
from relight.values.options import RunOptions
from tests.support.server_harness import ServerHarness
from tests.support.waiting_sessions import in_doubt


def asking(rl: Any, directory: Path, name: str, *, command: bool = True) -> str:
    """A session that asks, and that relight can start again."""
    if command:
        rl.runs.create(["true"], RunOptions(directory=str(directory), agent="command", name=name))
    with pytest.raises(Waiting), rl.session(name) as s:
        s.ask("delete them?")
    return str(s.id)


def test_an_answer_with_resume_starts_the_session(harness: ServerHarness, tmp_path: Path) -> None:
    session = asking(harness.rl, tmp_path, "backups")
    assert after_answer(harness.rl.sessions.get(session)) == "start"
    with harness.client("operate") as client:
        done = client.post(f"/api/sessions/{session}/send", json={"text": "no", "resume": True})
    assert done.status_code == 200, done.text
    assert done.json()["started"]["session"]["attempt"] == harness.rl.sessions.get(session).attempt
    assert done.json()["not_started"] is None and done.json()["started"]["pid"]


def test_an_answer_that_nobody_can_start_is_kept_and_says_who_continues(harness: ServerHarness, tmp_path: Path) -> None:
    session = asking(harness.rl, tmp_path, "own", command=False)
    with harness.client("operate") as client:
        plain = client.post(f"/api/sessions/{session}/send", json={"text": "first"}).json()
        assert plain["started"] is None and plain["not_started"] is None
        done = client.post(f"/api/sessions/{session}/send", json={"text": "no", "resume": True}).json()
        assert done["started"] is None and "your program" in done["not_started"]
        (tmp_path / "gone").mkdir()
        gone = asking(harness.rl, tmp_path / "gone", "lost")
        (tmp_path / "gone").rmdir()
        refused = client.post(f"/api/sessions/{gone}/send", json={"text": "yes", "resume": True})
    assert refused.status_code == 200 and refused.json()["started"] is None and refused.json()["not_started"]
    info = harness.rl.sessions.get(gone)
    assert info.question is None and continuation_of(info) == "start", "the answer is recorded all the same"


def test_a_settled_call_goes_on_only_when_none_is_left(harness: ServerHarness) -> None:
    session = in_doubt(harness.rl)
    with harness.client("operate") as client:
        done = client.post(f"/api/sessions/{session}/settle", json={"call": "c1", "retry": True, "resume": True})
    assert done.status_code == 200 and "your program" in done.json()["not_started"]
