"""As much of Codex as a hand-over needs, for tests that start no real one: it continues the thread it is asked for."""

from __future__ import annotations

import sys
from pathlib import Path

_SCRIPT = f"""#!{sys.executable} -IS
import json, os, pathlib, sys
words = sys.argv[1:]
at = words.index("--")
thread, prompt = words[at + 1], words[at + 2]
[rollout] = pathlib.Path(os.environ["HOME"], ".codex", "sessions").rglob(f"rollout-*-{{thread}}.jsonl")
before = [json.loads(line) for line in rollout.read_text().splitlines()]
print(json.dumps({{"type": "thread.started", "thread_id": thread}}), flush=True)
said = [("user", "input_text", prompt), ("assistant", "output_text", "codex went on")]
items = [{{"type": "message", "role": r, "content": [{{"type": k, "text": t}}]}} for r, k, t in said]
lines = [("response_item", item) for item in items] + [("event_msg", {{"type": "task_complete", "turn_id": "t"}})]
with rollout.open("a") as file:
    for number, (kind, payload) in enumerate(lines, len(before)):
        stamp = f"2026-11-16T12:00:0{{number % 10}}.{{number:03d}}Z"
        file.write(json.dumps({{"timestamp": stamp, "ordinal": number, "type": kind, "payload": payload}}) + "\\n")
print(json.dumps({{"type": "turn.completed", "usage": {{}}}}), flush=True)
"""


def install(directory: Path) -> Path:
    """Write it as `codex` into a directory of the search path."""
    path = directory / "codex"
    path.write_text(_SCRIPT)
    path.chmod(0o755)
    return path
