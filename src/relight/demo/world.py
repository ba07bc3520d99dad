"""The world outside the agent: the scripted model and the mail server, in a process of their own, which counts.

    python -m relight.demo.world --think SECONDS --transit SECONDS --hasty RUN --slow RUN,RUN

Every request is recorded in requests.jsonl before it is answered. A mail that has arrived is a line in RUN.outbox.
Requests are served one at a time and in order, so a check of the outbox sees every mail sent before. The first mail of
a run in `--slow` arrives, but its receipt is held back: at that moment the demo kills the agent.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

from relight.demo import script
from relight.demo.wire import end_with_parent, say_ready

REQUEST_SECONDS: Final = 10.0
HOLD_SECONDS: Final = 90.0
BACKLOG: Final = 16
INPUT_PRICE: Final = 3.0
OUTPUT_PRICE: Final = 15.0
"""price of a million tokens of the scripted model, so that pages have a cost to show"""


class World:
    """Answers requests and records them."""

    def __init__(self, *, think_seconds: float, transit_seconds: float, hasty: str, slow: set[str]) -> None:
        self._think_seconds = think_seconds
        self._transit_seconds = transit_seconds
        self._hasty = hasty
        self._slow = slow

    def serve(self, wire: socket.socket) -> None:
        """Serve one request. A caller that is gone before its request is complete is ignored."""
        wire.settimeout(REQUEST_SECONDS)
        with wire.makefile("rb") as requests:
            line = requests.readline()
        if not line.endswith(b"\n"):
            return
        request = json.loads(line)
        answer = {"model": self._model, "mail": self._mail, "outbox": self._outbox}[request["op"]](request)
        if request["op"] == "mail" and request["run"] in self._slow:
            self._slow.remove(request["run"])
            wire.settimeout(HOLD_SECONDS)
            wire.recv(1)  # returns when the caller is gone
            return
        wire.sendall(json.dumps(answer).encode() + b"\n")

    def _model(self, request: dict[str, Any]) -> dict[str, Any]:
        messages = request["messages"]
        _note("requests.jsonl", json.dumps({"run": request["run"], "turn": script.turns(messages) + 1}))
        if request["run"] != self._hasty:
            time.sleep(self._think_seconds)
        message = script.reply(messages)
        tokens = {"input_tokens": len(json.dumps(messages)) // 4, "output_tokens": len(json.dumps(message)) // 4}
        cost = (INPUT_PRICE * tokens["input_tokens"] + OUTPUT_PRICE * tokens["output_tokens"]) / 1e6
        return {"message": message, "usage": {**tokens, "cost": round(cost, 6)}}

    def _mail(self, request: dict[str, Any]) -> str:
        time.sleep(self._transit_seconds)
        _note(f"{request['run']}.outbox", json.dumps({"to": request["to"], "subject": request["subject"]}))
        time.sleep(self._transit_seconds)
        return "sent"

    def _outbox(self, request: dict[str, Any]) -> int:
        outbox = Path(f"{request['run']}.outbox")
        return len(outbox.read_bytes().splitlines()) if outbox.exists() else 0


def _note(name: str, line: str) -> None:
    with open(name, "ab") as file:
        file.write(line.encode() + b"\n")


def main() -> None:
    """Serve until the parent is gone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--think", type=float, default=0.0)
    parser.add_argument("--transit", type=float, default=0.0)
    parser.add_argument("--hasty", default="", help="the run whose model answers at once")
    parser.add_argument("--slow", default="", help="the runs whose first receipt is lost")
    options = parser.parse_args()
    slow = set(filter(None, options.slow.split(",")))
    world = World(think_seconds=options.think, transit_seconds=options.transit, hasty=options.hasty, slow=slow)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        listener.listen(BACKLOG)
        end_with_parent()
        say_ready()
        while True:
            wire, _ = listener.accept()
            # A caller that is killed in the middle of its request must not end the world.
            with wire:
                try:
                    world.serve(wire)
                except OSError as error:
                    print(f"a caller is gone: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
