"""The demo's agent: the program that is killed.

    python -m relight.demo.agent --store FILE --saves FILE      with relight: ten lines, `durable` below
    python -m relight.demo.agent                                without: `plain`, an ordinary loop in memory

Both have the same model, the same tools and the same prompt. Its working directory is the shop it works on.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from pathlib import Path
from typing import Any, Final

import relight
from relight.demo.script import PROMPT, Message
from relight.demo.tools import TOOLS, run_name
from relight.demo.wire import ask, end_with_parent, say_ready
from relight.ports import faults

MAX_TURNS: Final = 40
_BEFORE_READY: Final = ("relight.wiring", "relight.stores.sqlite.store", "relight.workspaces.home")
"""imported before the agent reports ready, so that a kill interrupts work and not an import"""


def model(messages: list[Message]) -> relight.Reply:
    """Ask the scripted model, which is another process."""
    answer = ask("model", run_name(), messages=messages)
    return relight.Reply(answer["message"], answer["usage"])


def durable(store: str) -> None:
    """Open the session, new or where it stopped, and run the loop; every step captures the files."""
    with (
        relight.open(store) as rl,
        rl.session(run_name(), agent="demo", provider="anthropic", model="scripted", workspace=Path.cwd()) as s,
    ):
        relight.loop(s, model=model, tools=TOOLS, prompt=PROMPT, max_turns=MAX_TURNS)


def plain() -> None:
    """The same loop without relight: its state is in memory only."""
    tools: dict[str, Any] = {tool.__name__: tool for tool in TOOLS}
    messages: list[Message] = [{"role": "user", "content": PROMPT}]
    for _ in range(MAX_TURNS):
        message = ask("model", run_name(), messages=messages)["message"]
        messages.append(message)
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        if not calls:
            return
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": tools[call["name"]](**call["input"])}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})


def time_saves(path: str) -> None:
    """Record how long every save takes, in microseconds, from the call of the store to its acknowledgement."""
    # A bare descriptor with O_APPEND: a kill between two saves cannot lose or tear a line that was written.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    begun = 0

    def begin(_: str) -> None:
        nonlocal begun
        begun = time.perf_counter_ns()

    def end(_: str) -> None:
        os.write(file, b"%d\n" % ((time.perf_counter_ns() - begun) // 1000))

    faults.arm("commit.enter", begin)
    faults.arm("commit.told", end)


def main() -> None:
    """Run the agent once, until it ends or is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store")
    parser.add_argument("--saves")
    options = parser.parse_args()
    end_with_parent()
    if options.saves:
        time_saves(options.saves)
    for part in _BEFORE_READY:
        importlib.import_module(part)
    say_ready()
    if options.store:
        durable(options.store)
    else:
        plain()


if __name__ == "__main__":
    main()
