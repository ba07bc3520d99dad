"""`--detach`: started in the background, and told."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from relight.background import start_in_background
from relight.cli.door import Door
from relight.cli.look import Span
from relight.model.policy import NO_ALLOWANCE, Allowance

if TYPE_CHECKING:
    from relight.engine.library import Relight


def start_detached(
    door: Door,
    rl: Relight,
    session: str,
    *,
    retries: int | None,
    prompt: str | None = None,
    without_secrets: bool = False,
    now: bool = False,
    limits: Allowance = NO_ALLOWANCE,
) -> int:
    """Leave when the supervisor owns the session. A prompt that is in the journal already is not said again."""
    said = prompt if prompt is not None and rl.speaks(session) else None
    info, pid, child = start_in_background(
        rl, session, prompt=said, retries=retries, without_secrets=without_secrets, now=now, limits=limits
    )
    child.returncode = child.returncode or 0  # it lives on without us
    if door.console.out.terminal:
        door.console.write([[Span("✓ ", "ok"), Span(info.title, "bold"), f"  runs in the background, pid {pid}"]])
    else:
        door.console.row((info.id, info.name, pid))
    joined = [("join its terminal", shlex.join(info.attach))] if info.attach else []
    door.console.next(*joined, ("watch", f"relight tail {info.title} -f"), ("stop", f"relight stop {info.title}"))
    return 0
