"""`python -m tests.support.fake_model --script FILE`: the server as a process of its own, for any language.

It prints one line of JSON with its url when it is ready, and serves until it is interrupted.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.fake_model.script import ScriptError, parse
from tests.support.fake_model.server import FakeModel


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.fake_model", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--script", type=Path, help="a JSON file of slots; without it the model says done")
    parser.add_argument("--log", type=Path, help="append one line of JSON a request")
    parser.add_argument("--mode", choices=["turns", "requests"], default="turns")
    parser.add_argument("--strict", action="store_true", help="answer 400 as providers do")
    parser.add_argument("--no-sides", action="store_true", help="play the script to requests without tools too")
    given = parser.parse_args(arguments)
    try:
        script = parse(given.script.read_text() if given.script else [], given.mode)
    except (OSError, ScriptError, json.JSONDecodeError) as error:
        print(f"{given.script}: {error}", file=sys.stderr)
        return 2
    stop = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)  # before a thread exists, so that only sigwait takes them
    with FakeModel(script, strict=given.strict, sides=not given.no_sides, log=given.log, port=given.port) as model:
        print(json.dumps({"url": model.url, "port": model.port}), flush=True)
        signal.sigwait(stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
