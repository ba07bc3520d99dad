"""A program with a real client, killed with SIGKILL while its tool runs, goes on where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import relight
from tests.integration.frameworks.sdks.conftest import SCRIPT
from tests.support.fake_model import FakeModel

PROGRAM = """
import sys, time
from pathlib import Path
import relight

@relight.tool(effect="idempotent")
def look(city: str) -> str:
    "Look at a city."
    with open("looked.txt", "a") as file:
        file.write(city + "\\n")
    while city == "Rome" and not Path("go").exists():
        time.sleep(0.01)
    return f"{city} is fine"

def claude(messages):
    import anthropic
    client = anthropic.Anthropic(max_retries=0)
    asked = {"model": "m", "max_tokens": 9, "tools": [look.schema("anthropic")], "messages": messages}
    yield from client.messages.create(**asked, stream=True)

def gpt(messages):
    import openai
    client = openai.OpenAI(max_retries=0)
    return client.chat.completions.create(model="m", tools=[look.schema("openai")], messages=messages)

with relight.open("relight.db") as rl, rl.session("agent") as s:
    print(s.run({"claude": claude, "gpt": gpt}[sys.argv[1]], tools=[look], prompt="Look at the cities"))
"""


@pytest.mark.parametrize("model", ["claude", "gpt"])
def test_a_kill_in_the_middle_of_a_tool_loses_and_repeats_nothing_but_that_call(model: str, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(PROGRAM, encoding="utf-8")
    with FakeModel(SCRIPT, exact=True) as server:
        fake = {"ANTHROPIC_BASE_URL": server.url, "OPENAI_BASE_URL": f"{server.url}/v1"}
        environment = {**os.environ, **fake, "ANTHROPIC_API_KEY": "sk-ant-fake", "OPENAI_API_KEY": "sk-fake"}
        command = [sys.executable, "agent.py", model]
        with subprocess.Popen(command, cwd=tmp_path, env=environment) as running:
            _wait_for(lambda: "Rome" in _looked(tmp_path))
            running.send_signal(signal.SIGKILL)
        (tmp_path / "go").touch()
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=True
        )
        assert [request.problem for request in server.requests() if request.problem] == []
        assert len(server.requests()) == 3, "no reply was paid twice"
    assert ran.stdout.strip() == "Oslo, Rome and Bern are fine."
    looked = _looked(tmp_path)
    assert (looked.count("Oslo"), looked.count("Rome")) == (1, 2)
    with relight.open(tmp_path / "relight.db") as rl:
        assert rl.sessions.get("agent").status == "completed"


def _looked(folder: Path) -> list[str]:
    path = folder / "looked.txt"
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def _wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.01)
