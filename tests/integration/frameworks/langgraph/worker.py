"""A worker on the thread `t`: runs a graph of so many steps, each with an effect; says how it ended."""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import relight
from relight.errors import ThreadBusy
from relight.frameworks.langgraph import RelightSaver
from tests.integration.frameworks.langgraph.graphs import config, counting

BOUND_SECONDS = 90.0


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("store")
    options.add_argument("effects", type=Path)
    options.add_argument("steps", type=int)
    options.add_argument("--pause-at", type=int)
    options.add_argument("--lease", type=float, default=5.0)
    options.add_argument("--busy", default="refuse")
    options.add_argument("--resume", action="store_true")
    options.add_argument("--stopped", action="store_true", help="it will be stopped where it pauses")
    given = options.parse_args()

    def between(number: int) -> None:
        if number == given.pause_at:
            if given.stopped:  # whoever is stopped in the middle of a write holds SQLite's lock; not what is tried here
                heartbeat = rl._context.heartbeat
                heartbeat._leaving.clear()
                heartbeat.stop()
                with saver._thread("t").lock:
                    pass
            given.effects.with_suffix(".paused").touch()
            deadline = time.monotonic() + BOUND_SECONDS
            while not given.effects.with_suffix(".go").exists():
                assert time.monotonic() < deadline, "nobody says that it may go on"
                threading.Event().wait(0.02)

    with relight.open(given.store) as rl:
        saver = RelightSaver(rl, lease_seconds=given.lease, busy=given.busy)
        graph = counting(given.steps, given.effects, between).compile(checkpointer=saver)
        begin = None if given.resume and saver.get_tuple(config("t")) is not None else {"messages": ["go"]}
        try:
            graph.invoke(
                begin, {**config("t"), "recursion_limit": 1000}, durability="sync" if given.stopped else "async"
            )
        except ThreadBusy:
            print("ThreadBusy")
        else:
            print("done")


if __name__ == "__main__":
    main()
