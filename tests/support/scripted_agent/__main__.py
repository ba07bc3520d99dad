"""`python -m tests.support.scripted_agent -p PROMPT ...`: the agent itself.

Without `-p` it is interactive: it reads a prompt a line, answers, and ends when its input does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence

from tests.support.scripted_agent.agent import Agent, Interrupted, Refusal
from tests.support.scripted_agent.options import parse
from tests.support.scripted_agent.tools import end_all

TERMINATED = 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run once; the exit code."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    prompt = options.prompt
    if options.print and prompt is None and not sys.stdin.isatty():
        prompt = sys.stdin.read().strip() or None
    try:
        agent = Agent(options, os.environ)
    except Refusal as error:
        print(error, file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: _terminated(agent))
    signal.signal(signal.SIGINT, lambda *_: _interrupt(agent))
    return _headless(agent, prompt) if options.print else _interactive(agent, prompt)


def _headless(agent: Agent, prompt: str | None) -> int:
    try:
        agent.begin()
        if not agent.take_prompt(prompt):
            agent.printer.result("", turns=0, stop_reason="tool_deferred", terminal_reason="tool_deferred")
            code = 0
        else:
            code = agent.work()
    except Refusal as error:
        print(error, file=sys.stderr)
        return 1
    except Interrupted:
        agent.interrupted()
        code = 0
    agent.end()
    return code


def _interactive(agent: Agent, prompt: str | None) -> int:
    agent.begin()
    print("claude (scripted)", flush=True)
    for line in agent.lines:
        if isinstance(line["message"]["content"], str):
            print(f"> {line['message']['content']}", flush=True)
    while True:
        if prompt:
            agent.take_prompt(prompt)
            agent.work()
        print("> ", end="", flush=True)
        text = sys.stdin.readline()
        if not text:
            break
        prompt = text.strip()
    agent.end("prompt_input_exit")
    return 0


def _interrupt(agent: Agent) -> None:
    agent.stopped.set()
    end_all()
    raise Interrupted


def _terminated(agent: Agent) -> None:
    """On a thread of its own: the signal may have come while lines were being written."""

    def leave() -> None:
        agent.transcript.flush()
        os._exit(TERMINATED)

    threading.Thread(target=leave, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
