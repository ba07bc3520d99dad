"""A supervised program on every store: it dies, is resumed, followed, stopped and resumed again, by real processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

import pytest

import relight
from relight.history.events import Event
from tests.integration.acceptance.conftest import Addresses
from tests.support.shell import Shell, eventually

AGENT: Final = """
import json, os, pathlib, signal, time
import relight

here = pathlib.Path.cwd()


@relight.tool
def send_mail(to: str) -> str:
    with (here / "mails").open("a") as file:
        file.write(to + "\\n")
    if to == "bob-1":
        os.kill(os.getpid(), signal.SIGKILL)
    return "sent"


def ask(number: int) -> dict:
    function = {"name": "send_mail", "arguments": json.dumps({"to": f"bob-{number}"})}
    return {"role": "assistant", "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]}


def model(messages: list) -> dict:
    turn = sum(message["role"] == "assistant" for message in messages)
    while turn == 2 and not (here / "go").exists():
        time.sleep(0.02)
    return ask(turn) if turn < 3 else {"role": "assistant", "content": "All mails are out."}


with relight.open() as rl, rl.session("any-name") as s:
    print(s.run(model, tools=[send_mail], prompt="mail three people"))
"""
TOLD: Final = [
    "attempt spawning",
    "attempt working",
    "message user",
    "mark",
    "message assistant",
    "intent c0",
    "result c0 ok",
    "message assistant",
    "intent c1",
    "status failed: signal 9",
    "attempt spawning",
    "attempt working",
    "result c1 unknown",
    "status terminated: stopped by relight stop",
    "attempt spawning",
    "attempt working",
    "message assistant",
    "intent c2",
    "result c2 ok",
    "message assistant",
    "status completed",
]


def reported(event: Event) -> str:
    """A step in a few words, without ids and times."""
    parts = [message["role"] for message in event.messages]
    parts += [intent["id"] for intent in event.intents]
    parts += [f"{outcome['id']} {outcome['status']}" for outcome in event.outcomes]
    if event.status is not None:
        parts += [event.status["status"] + (f": {event.status['reason']}" if event.status["reason"] else "")]
    return " ".join([event.kind, *parts])


def history(rl: relight.Relight) -> list[str]:
    """What was told, without what only a slow machine has: the supervisor says that a program works before the program
    does, or how it ended before it is known that a person wanted it."""
    rows = [reported(event) for event in rl.history.events("live")]
    return [row for row in rows if row != "status working" and not row.startswith("status terminated: stopped (")]


@pytest.mark.crash
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
def test_a_program_is_run_killed_resumed_followed_and_stopped_alike(
    kind: str, address_of: Addresses, tmp_path: Path
) -> None:
    directory = tmp_path / "shop"
    directory.mkdir()
    (directory / "agent.py").write_text(AGENT)
    shell = Shell(address_of(kind, tmp_path), directory)
    died = shell.run("run", "--name", "live", "--retries", "0", "--", sys.executable, "agent.py")
    assert died.returncode == 137, died.stderr
    assert "1 in doubt: see relight can-resume live" in died.stderr
    resumed = shell.start("resume", "live")
    with relight.open(shell.address) as rl:
        eventually(
            lambda: rl.sessions.get("live").status == "working" and rl.sessions.get("live").in_doubt == 0,
            what="it is at work",
        )
        follower = shell.start("tail", "live", "-f", "--json", "--after", "0")
        assert follower.stdout is not None
        followed = [json.loads(follower.stdout.readline())["seq"] for _ in range(3)]
        busy = shell.run("resume", "live")
        assert (busy.returncode, "RL-4001" in busy.stderr) == (4, True), busy.stderr
        assert shell.run("stop", "live").returncode == 0
        said = resumed.communicate(timeout=30)
        assert resumed.returncode == 143, said
        followed += [json.loads(line)["seq"] for line in follower.stdout]
        follower.communicate(timeout=30)
        assert followed == list(range(1, len(followed) + 1))
        assert follower.returncode == 1  # it was stopped
        (directory / "go").touch()
        last = shell.run("resume", "live")
        assert (last.returncode, last.stdout) == (0, "All mails are out.\n"), last.stderr
        assert history(rl) == TOLD
        assert rl.history.verify().ok
    assert (directory / "mails").read_text().split() == ["bob-0", "bob-1", "bob-2"]
