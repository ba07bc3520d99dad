"""An answer and a start in one request: the answer is committed first, and what follows is told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.errors import Waiting
from relight.journal.after_answer import after_answer, continuation_of
from relight.values.options import RunOptions
from tests.support.calls import call
from tests.support.server_harness import ServerHarness
from tests.support.waiting_sessions import in_doubt, interrupted


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


def dialogs(harness: ServerHarness, session: str) -> list[str]:
    """The dialogs that the rows of a session's history offer."""
    with harness.client() as client:
        page = client.get(f"/sessions/{session}", headers={"accept": "text/html"}).text
    return re.findall(rf'class="rt"><a class="button small" href="/sessions/{session}/do/(\w+)"', page)


def test_the_row_of_a_question_has_the_dialog_that_answers_it_while_it_waits(harness: ServerHarness) -> None:
    @relight.tool(approve=True)
    def pay() -> str:
        return "paid"

    rl, asks = harness.rl, "approve the budget?"  # a program's own question, which is no approval
    with pytest.raises(Waiting), rl.session("asks") as s:
        s.ask(asks)
    with pytest.raises(Waiting), rl.session("approval") as approval:
        approval.append(call("c1", "pay", "{}"))
        approval.run_tool(approval.pending_calls()[0], [pay])
    assert dialogs(harness, s.id) == ["send"]
    assert dialogs(harness, approval.id) == ["approve"]
    assert dialogs(harness, in_doubt(rl)) == ["settle"]
    assert dialogs(harness, interrupted(rl)) == [], "only its own program can answer"
    rl.runs.send("asks", "yes")
    with pytest.raises(Waiting), rl.session("asks") as s:
        s.ask(asks)
        s.ask("and the date?")
    assert dialogs(harness, s.id) == ["send"], "only the newest question is open"
    rl.runs.send("asks", "now")
    with rl.session("asks") as s:
        s.complete()
    assert dialogs(harness, s.id) == []
