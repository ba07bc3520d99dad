"""`--detach`: a supervisor of its own in the background, and the proof that it began before we leave."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from relight.cli.door import Door
from relight.cli.look import Span
from relight.errors import AgentFailed
from relight.ports.runtime import STORE_VARIABLE

if TYPE_CHECKING:
    from relight.engine.library import Relight

_START_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 0.05


def start_detached(door: Door, rl: Relight, session: str, *, retries: int | None, prompt: str | None = None) -> int:
    """Start `relight resume` in a session of its own and wait until it owns ours. What it prints goes to a file."""
    before = rl.get(session)
    command = [
        sys.executable,
        "-P",
        "-m",
        "relight.cli",
        "resume",
        "--yes",
        "--quiet",
    ]
    command += ["--retries", str(retries)] if retries is not None else []
    if prompt is not None and rl.speaks(session):
        command += ["--", session, prompt]
    else:
        command += ["--", session]
    environment = {**os.environ, STORE_VARIABLE: rl.store.url}  # not an argument: an address may hold a password
    log = rl.run_directory(session) / "supervisor.log"
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as kept:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=kept, stderr=kept, start_new_session=True, env=environment
        )
    deadline = time.monotonic() + _START_SECONDS
    while rl.get(session).attempt == before.attempt and child.poll() is None and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    info = rl.get(session)
    if info.attempt == before.attempt:
        hints = [f"see what stands against it: relight resume {info.title}"]
        raise AgentFailed(f"{info.title}: it did not start in the background", hints=hints)
    child.returncode = child.returncode or 0  # it lives on without us
    if door.console.out.terminal:
        door.console.write([[Span("✓ ", "ok"), Span(info.title, "bold"), f"  runs in the background, pid {child.pid}"]])
    else:
        door.console.row((info.id, info.name, child.pid))
    door.console.next(("watch", f"relight tail {info.title} -f"), ("stop", f"relight stop {info.title}"))
    return 0
