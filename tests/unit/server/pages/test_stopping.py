"""Stop and rewind: one plan, one act. What is refused is refused before anything was stopped, as far as that can be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server_harness import Answer, ServerHarness
from tests.support.shell import eventually

PROGRAM = """
import sys, time, relight
with relight.open(sys.argv[1]) as rl, rl.session("busy", agent="mine", workspace=sys.argv[2]) as s:
    for n in range(3):
        s.append({"role": "user", "content": f"message {n}"})
    s.checkpoint("here")
    s.append({"role": "user", "content": "one too many"})
    time.sleep(600)
"""


@pytest.fixture
def busy(harness: ServerHarness, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program at work, in a process of its own."""
    (tmp_path / "work").mkdir()
    running = subprocess.Popen([sys.executable, "-c", PROGRAM, str(harness.store), str(tmp_path / "work")])
    try:
        eventually(lambda: (info := harness.rl.sessions.find("busy")) is not None and info.message_count == 4)
        yield running
    finally:
        running.kill()
        running.wait()


def test_a_running_session_is_stopped_and_rewound_by_one_act_whose_plan_says_so(
    harness: ServerHarness, busy: subprocess.Popen[bytes]
) -> None:
    session = harness.rl.sessions.get("busy").id
    with harness.client() as client:
        page = client.get(f"/checkpoints/{session}@here", headers={"accept": "text/html"}).text
        assert "Stop and rewind…" in page
        shown = client.get(f"/checkpoints/{session}@here/do/rewind", headers={"accept": "text/html"}).text
        assert "Ask mine to end" in shown and "relight stop busy &amp;&amp; relight rewind busy@" in shown
        assert "&#34;stop&#34;: true" in shown and 'data-plan=""' in shown and "Not possible now" not in shown
        refused = client.post(f"/api/sessions/{session}@here/rewind", json={"scope": "conversation"})
        assert Answer(refused).status == 409, "it runs, and nobody said that it may be stopped"
        assert (
            client.post(f"/api/sessions/{session}@999/rewind", json={"scope": "both", "stop": True}).status_code == 404
        )
        assert client.post(f"/api/sessions/{session}@here/rewind", json={"stop": True}).status_code == 400
        assert busy.poll() is None, "what is refused stops nobody"
        done = client.post(f"/api/sessions/{session}@here/rewind", json={"scope": "both", "stop": True})
    assert done.status_code == 200 and busy.wait(60) != 0
    info = harness.rl.sessions.get(session)
    assert (info.status, len(harness.rl.history.load(session).messages)) == ("terminated", 3)


def test_where_the_rewind_is_refused_after_all_it_is_told_that_it_was_stopped(
    harness: ServerHarness, busy: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    (tmp_path / "work" / "mine.txt").write_text("written by somebody else\n")
    (tmp_path / "work").rename(tmp_path / "away")
    with harness.client() as client:
        answer = Answer(client.post("/api/sessions/busy@here/rewind", json={"scope": "both", "stop": True}))
    assert "the session was stopped, but not rewound" in answer.document["evidence"], answer.document
    assert busy.wait(60) != 0 and len(harness.rl.history.load("busy").messages) == 4
