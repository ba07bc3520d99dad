"""An agent whose tool counts outside of it: `TURNS` turns, a call each, and a line appended for each effect.

Run by a worker: `python counted.py EFFECTS TURNS SECONDS`. What a crash leaves in doubt the model is told, and goes on.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import relight


def main(effects: str, turns: int, seconds: float) -> None:
    """Run, or go on."""

    @relight.tool
    def count(call: str) -> str:
        line = f"{os.environ['RELIGHT_PARENT']} {call} {os.environ.get('RELIGHT_WORKER', '-')}\n"
        out = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(out, line.encode())
        os.close(out)
        time.sleep(seconds)
        return f"counted {call}"

    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        turn = sum(message["role"] == "assistant" for message in messages)
        if turn == turns:
            return {"role": "assistant", "content": "done"}
        function = {"name": "count", "arguments": f'{{"call": "c{turn}"}}'}
        call = {"id": f"c{turn}", "type": "function", "function": function}
        return {"role": "assistant", "content": f"turn {turn}", "tool_calls": [call]}

    with relight.open() as rl, rl.session("counted") as s:
        s.run(model, tools=[count], prompt="count")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
