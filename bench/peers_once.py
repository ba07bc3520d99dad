"""In a new process: list every checkpoint of the thread, load the head, load the middle. Milliseconds, as JSON."""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import relight
from bench.peers import config
from relight.frameworks.langgraph import RelightSaver


def main() -> None:
    """Measure once."""
    with relight.open(sys.argv[1]) as rl:
        listed, list_ms = _timed(lambda: list(RelightSaver(rl).list(config())))
        saver = RelightSaver(rl)
        _, head_ms = _timed(lambda: saver.get_tuple(config()))
        middle = listed[len(listed) // 2].config["configurable"]["checkpoint_id"]
        _, middle_ms = _timed(lambda: saver.get_tuple(config(middle)))
    print(json.dumps({"fresh_list_ms": list_ms, "fresh_head_ms": head_ms, "middle_ms": middle_ms}))


def _timed(function: Any) -> tuple[Any, float]:
    gc.collect()
    started = time.perf_counter()
    found = function()
    return found, (time.perf_counter() - started) * 1e3


if __name__ == "__main__":
    main()
