"""A small agent: a scripted model, two calls a turn, a tool that appends a line to a file and must not do so twice.

What it costs and what it does is counted outside of it, in files of one appended line each.
"""

from __future__ import annotations

import os
from typing import Any

import relight

TURNS = 2
CALLS = 2


def write_line(path: str, line: str) -> None:
    """One line, in one write."""
    out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(out, f"{line}\n".encode())
    os.close(out)


def reply(turn: int) -> dict[str, Any]:
    """The model's answer when it has answered so many times before."""
    if turn == TURNS:
        return {"role": "assistant", "content": "done"}
    calls = [
        {
            "id": f"t{turn}c{n}",
            "type": "function",
            "function": {"name": "send", "arguments": f'{{"to": "t{turn}c{n}"}}'},
        }
        for n in range(CALLS)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def main(store: str, session: str, effects: str, asked: str) -> None:
    """Run, or go on."""

    @relight.tool
    def send(to: str) -> str:
        write_line(effects, to)
        return f"sent {to}"

    def model(messages: list[dict[str, Any]]) -> relight.Reply:
        turn = sum(message["role"] == "assistant" for message in messages)
        write_line(asked, str(turn))
        return relight.Reply(reply(turn), {"input_tokens": 10, "output_tokens": 1})

    with relight.open(store) as rl, rl.session(session, lease_seconds=600) as s:
        s.run(model, tools=[send], prompt="send them")
