"""Statistics of resumes, from the journals: whether each made progress, and the work it saved.

A session is read again only when its seq has changed; sessions that were never resumed are not read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec

from relight.history.events import Event
from relight.library.facade import Relight
from relight.values.info import SessionInfo
from relight.values.status import LIVE

_MAX_CACHED: Final = 2000
_LONGEST_GAP_SECONDS: Final = 600.0
"""a longer pause within an attempt does not count as work"""
_PROGRESS: Final = frozenset({"message", "result", "state"})


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """One resume of a session, and what became of it."""

    at: str
    rung: str
    verdict: str
    """progressed, stranded or looped; open: not known yet"""
    reason: str
    tokens_saved: int
    """input and output tokens of the attempt before it, which were not spent again"""
    seconds_saved: float
    """working time of that attempt"""


def resumes_of(events: Iterable[Event]) -> list[Resumed]:
    """The resumes in a journal's events, oldest first. Pure.

    The work between two resumes is credited once, to the resume after it. Idle time (after an end, while a question is
    open, between two turns of the conversation) is not counted."""
    found: list[Resumed] = []
    tokens, seconds, last, works = 0, 0.0, None, False
    for event in events:
        if event.started is not None and event.started["number"] > 1 and event.started.get("reason"):
            found.append(
                Resumed(
                    at=event.at.isoformat(),
                    rung=event.started.get("rung") or "library",
                    verdict="open",
                    reason=event.started.get("reason") or "",
                    tokens_saved=tokens,
                    seconds_saved=round(seconds, 1),
                )
            )
            tokens, seconds = 0, 0.0
        elif last is not None and event.attempt == last.attempt and works:
            seconds += min((event.at - last.at).total_seconds(), _LONGEST_GAP_SECONDS)
        works = _works_after(event, works)
        if found:
            found[-1] = _judged(found[-1], event)
        usage = event.usage or {}
        tokens += usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
        last = event
    return found


def _works_after(event: Event, works: bool) -> bool:
    """Whether the agent is working between this step and the next one."""
    if event.status is not None:
        return event.status["status"] in LIVE
    if event.started is not None:
        return True
    if event.note.get("turn") == "ended":
        return False
    return works or event.kind in _PROGRESS


def _judged(resumed: Resumed, event: Event) -> Resumed:
    """The resume with the verdict that a later step implies; a recorded verdict takes precedence."""
    recorded = event.note.get("resume")
    if isinstance(recorded, dict) and recorded.get("verdict"):
        rung = str(recorded.get("rung") or resumed.rung)
        return msgspec.structs.replace(resumed, verdict=str(recorded["verdict"]), rung=rung)
    if resumed.verdict == "open" and event.kind in _PROGRESS:
        return msgspec.structs.replace(resumed, verdict="progressed")
    if resumed.verdict == "open" and event.status is not None and event.status["status"] in ("failed", "halted"):
        return msgspec.structs.replace(resumed, verdict="stranded")
    return resumed


class ResumeStats:
    """Resumes by session, cached under (session, seq)."""

    def __init__(self, rl: Relight) -> None:
        self._rl = rl
        self._known: OrderedDict[tuple[str, int], list[Resumed]] = OrderedDict()

    def of(self, info: SessionInfo) -> list[Resumed]:
        """The resumes of a session, oldest first."""
        if info.attempt < 2:
            return []
        key = (info.id, info.seq)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = resumes_of(self._rl.history.events(info.id))
            if len(self._known) > _MAX_CACHED:
                self._known.popitem(last=False)
        return found
