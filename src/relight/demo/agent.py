"""The agent: the program that is killed.

    python -m relight.demo.agent --store FILE --saves FILE      with relight: ten lines, `durable` below
    python -m relight.demo.agent                                without: `plain`, the loop that most people write

Both have the same model, the same tools and the same prompt. The directory it runs in is the shop it works on.
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
"""imported before we say that we are ready, so that a kill after it falls into work and not into an import"""


def model(messages: list[Message]) -> relight.Reply:
    """The scripted model, in another process."""
    said = ask("model", run_name(), messages=messages)
    return relight.Reply(said["message"], said["usage"])


def durable(store: str) -> None:
    """New, or exactly where it stopped; every step takes along what it did to the files."""
    with (
        relight.open(store) as rl,
        rl.session(run_name(), agent="demo", provider="anthropic", model="scripted", workspace=Path.cwd()) as s,
    ):
        relight.loop(s, model=model, tools=TOOLS, prompt=PROMPT, max_turns=MAX_TURNS)


def plain() -> None:
    """The same loop without relight: all it knows is in its memory."""
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
    """Write down, in microseconds, how long every save takes: from the store's door until it is durable and told."""
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
    """Run one life of the agent."""
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
