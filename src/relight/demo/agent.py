"""The demo's agent: the program that is killed. Its working directory is the shop it works on, named as the run.

    python -m relight.demo.agent STORE      with relight: `durable` below
    python -m relight.demo.agent            without: `plain`, an ordinary loop in memory

Both have the same model, the same tools and the same prompt. Model and mail server are the process at the other end
of its standard input and output (stage.py): one request and one reply, a JSON line each.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import relight
from relight.demo import shop
from relight.ports import faults

MAX_TURNS: Final = 40
_BEFORE_READY: Final = ("relight.wiring", "relight.stores.sqlite.store", "relight.workspaces.home")
"""imported before the agent reports ready, so that a kill interrupts work and not an import"""


def tell(op: str, **fields: Any) -> None:
    """Send a line that needs no reply."""
    sys.stdout.buffer.write(json.dumps({"op": op, **fields}).encode() + b"\n")
    sys.stdout.buffer.flush()


def ask(op: str, **fields: Any) -> Any:
    """Send a request and wait for its reply. The end of the demo, however it died, ends this process."""
    tell(op, **fields)
    line = sys.stdin.buffer.readline()
    if not line:
        os._exit(3)
    return json.loads(line)


@relight.tool(effect="pure")
def read_file(path: str) -> str:
    """Read a text file of the shop."""
    return Path(path).read_text(encoding="utf-8")


def _find_edit(path: str, old: str, new: str) -> str | None:
    """The result of the edit if it was made already, else None."""
    return f"+{new.count(chr(10)) - old.count(chr(10))} -0" if new in read_file(path) else None


@relight.tool(effect="probe", probe=_find_edit)
def edit_file(path: str, old: str, new: str) -> str | None:
    """Replace a text in a file, all or nothing."""
    beside = Path(f"{path}.new")
    beside.write_text(read_file(path).replace(old, new), encoding="utf-8")
    os.replace(beside, path)
    return _find_edit(path, old, new)


@relight.tool(effect="pure")
def run_tests() -> str:
    """Run the tests that are here."""
    passed, ran = shop.run_tests(Path.cwd())
    return f"{passed} passed" if passed == ran > 0 else f"{ran - passed} of {ran} failed"


@relight.tool(effect="once")
def send_mail(subject: str, to: str) -> str:
    """Send a mail through the mail server."""
    return str(ask("mail", to=to, subject=subject))


@relight.tool(effect="pure")
def check_outbox() -> str:
    """How many mails went out?"""
    found = int(ask("outbox"))
    return f"{found} mail{'s' if found > 1 else ''} found" if found else shop.NO_MAIL


TOOLS: Final = (read_file, edit_file, run_tests, send_mail, check_outbox)


def model(messages: list[dict[str, Any]]) -> relight.Reply:
    """Ask the scripted model."""
    answer = ask("model", messages=messages)
    return relight.Reply(answer["message"], answer["usage"])


def durable(store: str) -> None:
    """Open the session, new or where it stopped, and run the loop; every step captures the files."""
    here = Path.cwd()
    with (
        relight.open(store) as rl,
        rl.session(here.name, agent="demo", provider="anthropic", model="scripted", workspace=here) as s,
    ):
        s.run(model, tools=TOOLS, prompt=shop.PROMPT, max_turns=MAX_TURNS)


def plain() -> None:
    """The same loop without relight: its state is in memory only."""
    tools: dict[str, Any] = {tool.__name__: tool for tool in TOOLS}
    messages: list[dict[str, Any]] = [{"role": "user", "content": shop.PROMPT}]
    for _ in range(MAX_TURNS):
        message = ask("model", messages=messages)["message"]
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        if not calls:
            return
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": tools[call["name"]](**call["input"])}
            for call in calls
        ]
        messages += [message, {"role": "user", "content": results}]


def time_saves() -> None:
    """Report how long every save takes, in microseconds, from the call of the store to its acknowledgement."""
    begun = [0]
    faults.arm("commit.enter", lambda _: begun.__setitem__(0, time.perf_counter_ns()))
    faults.arm("commit.told", lambda _: tell("saved", us=(time.perf_counter_ns() - begun[0]) // 1000))


def main(store: str | None = None) -> None:
    """Run the agent once, until it ends or is killed."""
    for part in _BEFORE_READY:
        importlib.import_module(part)
    time_saves()
    tell("ready")
    durable(store) if store else plain()


if __name__ == "__main__":
    main(*sys.argv[1:])
