"""The "while you were away" digest: counts from the journals since a time. Bounded; says so when it is cut."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from relight.errors import Corrupt
from relight.text import format as words
from relight.values.info import SessionInfo

if TYPE_CHECKING:
    from relight.library.facade import Relight

MAX_SESSIONS: Final = 1000
MAX_STEPS: Final = 20_000
_DEATH: Final = re.compile(r"\bdied\b|stopped renewing|no owner")
"""reasons of a new attempt after its process ended without a word; an answer or a limit is none"""


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """The digest as short texts, and its period."""

    lasted: str
    parts: list[str]

    @property
    def anything(self) -> bool:
        return bool(self.parts)


class Tally(msgspec.Struct, kw_only=True):
    """Counters that are filled while reading."""

    finished: int = 0
    failed: int = 0
    waiting: int = 0
    """how many wait now, as every page says it"""
    limits: int = 0
    steps: int = 0
    crashes: int = 0
    captures: int = 0
    cost: float | None = None
    cut: bool = False
    """there are more steps than were counted"""
    fewer: bool = False
    """there are more sessions than were looked at"""


def digest(rl: Relight, since: datetime, now: datetime) -> Digest:
    """The digest of the newest sessions that changed since a time."""
    tally = Tally(waiting=rl.sessions.needing(most=1).counts.get("waiting", 0))
    for number, info in enumerate(islice(rl.sessions.list(), MAX_SESSIONS + 1)):
        tally.fewer = number == MAX_SESSIONS
        if tally.fewer:
            break
        if info.updated_at <= since:
            continue
        _status(tally, info)
        _steps(rl, tally, info, since)
    return Digest(lasted=words.duration((now - since).total_seconds()), parts=parts_of(tally))


def _status(tally: Tally, info: SessionInfo) -> None:
    tally.finished += info.status == "completed"
    tally.failed += info.status in ("failed", "terminated", "halted")


def _steps(rl: Relight, tally: Tally, info: SessionInfo, since: datetime) -> None:
    if tally.steps >= MAX_STEPS:
        tally.cut = True
        return
    try:
        # Rows without bodies first: most sessions have few steps in the period, and only those are decoded.
        rows = [row for row in rl.store.checkpoints(info.id) if row.at_us > since.timestamp() * 1e6]
        if not rows:
            return
        tally.steps += len(rows)
        tally.captures += sum(1 for row in rows if row.snapshots)
        for event in rl.history.events(info.id, after=rows[0].seq - 1, upto=rows[-1].seq):
            why = str((event.started or {}).get("reason") or "")
            tally.limits += "usage limit" in why
            tally.crashes += bool(_DEATH.search(why))
            cost = (event.usage or {}).get("cost")
            if cost is not None:
                tally.cost = (tally.cost or 0.0) + cost
    except Corrupt:
        return  # the page of the damaged session reports it


def parts_of(tally: Tally) -> list[str]:
    """The counters that are not zero, as texts."""
    newest = f" of the newest {MAX_SESSIONS:,}" if tally.fewer else ""
    texts = [
        (tally.finished, f"{tally.finished} finished{newest}"),
        (tally.failed, f"{tally.failed} failed or stopped{newest}"),
        (tally.waiting, f"{tally.waiting} waits for you" if tally.waiting == 1 else f"{tally.waiting} wait for you"),
        (tally.limits, f"{words.count(tally.limits, 'limit')} waited out"),
        (tally.steps, f"{words.count(tally.steps, 'step')} saved" + (" and more" if tally.cut else "")),
        (tally.crashes, f"{words.count(tally.crashes, 'crash', 'crashes')} survived"),
        (tally.captures, f"files captured {words.count(tally.captures, 'time')}"),
        (tally.cost is not None, words.money(tally.cost)),
    ]
    return [text for number, text in texts if number]
