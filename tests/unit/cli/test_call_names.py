"""What people read names tools and never bare call ids, wherever the telling begins: milestones, tail, show, page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import relight
from relight.cli.app.group import run
from relight.server.pages.conversation import conversation
from relight.values.options import RunOptions
from tests.support.calls import call
from tests.support.server_harness import ServerHarness

ID = "toolu_01RawIdentifier"
AGENT = f"""
import relight

with relight.open() as rl, rl.session("job") as s:
    s.append({{"role": "tool", "tool_call_id": "{ID}", "content": "2 failed"}})
    s.complete()
"""


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerHarness:
    """`job` was asked for a call, long ago; its program gives the result."""
    monkeypatch.setenv("RELIGHT_STORE", str(tmp_path / "p.db"))
    monkeypatch.setenv("PYTHONPATH", str(Path(relight.__file__).parent.parent))
    made = ServerHarness(tmp_path / "p.db")
    program = tmp_path / "agent.py"
    program.write_text(AGENT)
    command = [sys.executable, str(program)]
    made.rl.runs.create(command, RunOptions(agent="agent", name="job", directory=str(tmp_path)))
    with made.rl.session("job") as s:
        s.append({"role": "user", "content": "test it"})
        s.append(call(ID, "run_tests", '{"path": "tests/unit"}'))
        for number in range(70):
            s.checkpoint(f"mark-{number}")
    return made


def test_a_call_that_was_asked_for_long_ago_is_told_by_its_tool(
    harness: ServerHarness, capfd: pytest.CaptureFixture[str]
) -> None:
    """M29."""
    before = harness.rl.sessions.get("job").seq
    assert run(["resume", "job", "--yes", "-v"]) == 0
    milestones = capfd.readouterr().err
    assert "run_tests tests/unit" in milestones and ID not in milestones, milestones
    for words in (["tail", "job", "-n", "3"], ["tail", "job", "--after", str(before)], ["show", "job"]):
        assert run(words) == 0
        reported = capfd.readouterr().out
        assert ("run_tests tests/unit" in reported or words[0] == "show") and ID not in reported, reported
    events = list(harness.rl.history.events("job", after=before))
    unknown = conversation(events, "openai", None)
    assert [part.title for one in unknown for part in one.parts] == ["result of an earlier call"]
    window = f"/sessions/{harness.rl.sessions.get('job').id}?after={before}"
    for tab in ("", "&tab=conversation"):
        answered = harness.client().get(window + tab, headers={"Accept": "text/html"})
        assert answered.status_code == 200 and "run_tests tests/unit" in answered.text, tab
