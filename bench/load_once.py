"""Load the benchmark's conversation once with ours and once raw, in this fresh process; prints both times."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import relight
from bench.floor import RawInsert


def main(directory: Path) -> None:
    """Both are opened before the clock starts: opening is measured elsewhere."""
    raw = RawInsert(directory / "raw.db")
    rl = relight.open(directory / "ours.db")
    rl.sessions.find("grow")
    started = time.perf_counter()
    raw_messages = raw.load()
    middle = time.perf_counter()
    messages = rl.history.load("grow").messages
    ended = time.perf_counter()
    assert messages[1:] == raw_messages
    print(json.dumps([ended - middle, middle - started]))


main(Path(sys.argv[1]))
