"""The real Claude Agent SDK on our store, against the fake model: killed inside a tool, resumed in a blank HOME."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import relight
from relight.frameworks.claude_agent_sdk import RelightSessionStore
from tests.support.child_processes import wait_until
from tests.support.fake_model import FakeModel, pairs, texts, unpaired
from tests.support.figures import Figure
from tests.support.processes import marked
from tests.support.real_agents import Claude
from tests.support.shell import SOURCE

pytestmark = pytest.mark.agents

SECONDS = 90
MARK = "RELIGHT_TEST_MARK"
LOOK = {"text": "I look.", "calls": [{"shell": "echo one >> log.txt"}]}
SLOWLY = {"text": "Slowly now.", "calls": [{"shell": "echo two >> log.txt; touch inside; sleep 300"}]}
DONE = [{"text": "All done."}] * 8


class Room:
    """A directory, a store and a scripted model; every start has a HOME of its own."""

    def __init__(self, base: Path, script: list[Any]) -> None:
        self.base, self.work, self.store = base, base / "work", base / "r.db"
        self.work.mkdir()
        self.mark = uuid.uuid4().hex
        self.model = FakeModel(script, strict=True).start()

    def start(self, prompt: str, **options: Any) -> subprocess.Popen[bytes]:
        """Its output goes to files: what a killed program leaves running would keep a pipe open."""
        home = self.base / uuid.uuid4().hex
        home.mkdir()
        environment = Claude(home=home, cwd=self.work, url=self.model.url).environment()
        program = Path(__file__).with_name("assistant.py")
        with (self.base / "out").open("w") as out, (self.base / "err").open("w") as err:
            return subprocess.Popen(
                [sys.executable, program, self.store, self.work, prompt, json.dumps(options)],
                env={**environment, "PYTHONPATH": SOURCE, "RELIGHT_HINTS": "0", MARK: self.mark},
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def run(self, prompt: str, **options: Any) -> dict[str, Any]:
        code = self.start(prompt, **options).wait(timeout=SECONDS)
        assert code == 0, (self.base / "err").read_text()[-3000:]
        reported: dict[str, Any] = json.loads((self.base / "out").read_text().splitlines()[-1])
        return reported

    def close(self) -> None:
        """End what a killed program has left: its agent, and the tool of its agent."""
        for pid in marked(MARK, self.mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.model.close()


@pytest.fixture
def room(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Room]:
    one = Room(tmp_path, request.param)
    yield one
    one.close()


@pytest.mark.crash
@pytest.mark.parametrize("room", [[LOOK, SLOWLY, *DONE]], indirect=True, ids=["script"])
def test_killed_inside_a_tool_it_resumes_in_a_blank_home_with_its_full_history(room: Room, figure: Figure) -> None:
    session = str(uuid.uuid4())
    program = room.start("do the work", session_id=session)
    wait_until("the tool", lambda: (room.work / "inside").exists() or program.poll() is not None)
    os.kill(program.pid, signal.SIGKILL)
    assert program.wait(timeout=SECONDS) == -9, (room.base / "err").read_text()[-3000:]
    with relight.open(room.store) as rl:
        [info] = rl.sessions.list()
        assert (info.status, info.key, info.agent) == ("terminated", session, "claude-agent-sdk")
        assert info.name == RelightSessionStore(rl).ref(session, info.labels["project"])
        assert [call.name for call in rl.history.load(info.id).calls] == ["Bash", "Bash"]
        assert any(row.snapshot for row in rl.history.checkpoints(info.id))
    reported = room.run("go on", resume=session)
    assert reported == {"session": session, "result": "All done."}
    last = room.model.requests()[-1].items
    said = texts(last)
    for text in ("do the work", "I look.", "Slowly now.", "go on"):
        assert any(text in one for one in said), text
    assert unpaired(last) == [] and [request.problem for request in room.model.requests() if request.problem] == []
    [(first, seen), (second, doubt)] = pairs(last)
    assert "echo one" in str(first.value) and seen is not None and "unknown" not in str(seen.value)
    assert "echo two" in str(second.value) and doubt is not None and "unknown" in str(doubt.value)
    assert (room.work / "log.txt").read_text() == "one\ntwo\n"
    assert len(room.model.requests()) == 3
    with relight.open(room.store) as rl:
        [info] = rl.sessions.list()
        assert (info.status, info.attempt, info.said) == ("completed", 2, "All done.")
        assert rl.history.verify().ok
    figure("G11", "claude-agent-sdk: killed inside a tool, resumed in a blank HOME from our store: 0 turns paid again")


@pytest.mark.parametrize("room", [[LOOK, *DONE]], indirect=True, ids=["script"])
def test_a_fork_and_a_continuation_in_blank_homes_have_the_history_and_leave_the_original(room: Room) -> None:
    first = room.run("do the work")["session"]
    with relight.open(room.store) as rl:
        [original] = rl.sessions.list()
        before = rl.history.load(original.id).messages
    forked = room.run("another way", resume=first, fork_session=True)["session"]
    assert forked != first
    said = texts(room.model.requests()[-1].items)
    assert all(any(text in one for one in said) for text in ("do the work", "I look.", "another way"))
    with relight.open(room.store) as rl:
        assert {info.key for info in rl.sessions.list()} == {first, forked}
        assert rl.history.load(original.id).messages == before
    assert room.run("and on", continue_conversation=True)["session"] == forked
    said = texts(room.model.requests()[-1].items)
    assert all(any(text in one for one in said) for text in ("do the work", "another way", "and on"))
