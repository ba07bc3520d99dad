"""What a session's program printed: the screen of its terminal, or the end of its logs. Redacted, bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from relight.history.loading import Found
from relight.journal.status import derived_status
from relight.sessions.context import Context
from relight.sessions.opening import evidence_of
from relight.system.environment_secrets import redactor
from relight.system.output_log import last_lines
from relight.values.status import LIVE

MAX_BYTES: Final = 64 * 1024
"""read from the end of a log"""
LOGS: Final = ("output.log", "supervisor.log")


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The newest output of a session's program."""

    source: str
    """`terminal`, the name of a log, or empty if nothing is known"""
    lines: list[str]
    cut: bool
    """older lines are not included"""


def output_of(context: Context, found: Found) -> list[Output]:
    """The terminal's screen if it runs in one, and the end of each log. Empty if it prints to a terminal of its own."""
    head = found.whole_head()
    parts: list[Output] = []
    live = derived_status(head, evidence_of(context, head))[0] in LIVE
    if live and head.handle:
        screen = context.runtime(found.identity).screen(head.handle)
        if screen is not None:
            parts.append(Output(source="terminal", lines=_clean(screen), cut=True))
    directory = context.run_directory(found.identity.id)
    return parts + [one for name in LOGS if (one := _tail(directory / name)) is not None]


def _tail(path: Path) -> Output | None:
    """The end of a log; None if there is none."""
    found = last_lines(path, MAX_BYTES)
    return Output(source=path.name, lines=_clean(found[0]), cut=found[1]) if found is not None and found[0] else None


def _clean(lines: list[str]) -> list[str]:
    # As one text: a secret may span lines.
    return redactor().text("\n".join(lines)).splitlines()
