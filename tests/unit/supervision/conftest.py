"""A directory with programs in it, and a shell whose store is beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shell import Shell

AGENT = """
import json, os, pathlib, signal, sys
import relight

here = pathlib.Path.cwd()
deaths = int(sys.argv[1]) if len(sys.argv) > 1 else 0


def died() -> int:
    return len((here / "deaths").read_text()) if (here / "deaths").exists() else 0


def maybe_die() -> None:
    if died() < deaths:
        with (here / "deaths").open("a") as file:
            file.write("x")
        print("about to die", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


@relight.tool
def send_mail(to: str) -> str:
    with (here / "mails").open("a") as file:
        file.write(to + "\\n")
    maybe_die()
    return "sent"


def ask(number: int) -> dict:
    function = {"name": "send_mail", "arguments": json.dumps({"to": f"bob-{number}"})}
    return {"role": "assistant", "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]}


def model(messages: list) -> relight.Reply:
    turn = sum(message["role"] == "assistant" for message in messages)
    with (here / "asked").open("a") as file:
        file.write(f"{turn}\\n")
    reply = ask(turn) if turn < 4 else {"role": "assistant", "content": "All mails are out."}
    return relight.Reply(reply, {"input_tokens": 100, "cost": 0.01})


with relight.open() as rl, rl.session("any-name") as s:
    print(s.run(model, tools=[send_mail], prompt="mail four people"))
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    directory = tmp_path / "shop"
    directory.mkdir()
    (directory / "agent.py").write_text(AGENT)
    return Shell(tmp_path / "store" / "p.db", directory)
