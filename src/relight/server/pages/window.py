"""A window of a session's journal: 200 steps that a page shows, and where the windows before and after it are."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from relight.errors import Corrupt, NotFound
from relight.history.events import Event
from relight.history.loading import chain_of
from relight.journal.lineage import stretches, visible
from relight.ports.store import CheckpointRow
from relight.server.pages.history import Density, Filter, Row, Teller, filtered, is_problem, marked
from relight.values.info import SessionInfo

if TYPE_CHECKING:
    from relight.library.facade import Relight

STEPS: Final = 200
ALL: Final = 5000
_SEED: Final = 40
"""steps before the window that are read so that a result in it finds its call"""
_POSITION: Final = re.compile(r"@?(\d{1,12})")


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The steps after < seq <= upto."""

    after: int
    upto: int
    newest: int
    at: int | None = None
    """the step to show first"""
    whole: bool = False

    @property
    def earlier(self) -> int | None:
        """Where the window before it ends."""
        return self.after if self.after > 0 else None

    @property
    def later(self) -> int | None:
        """Where the window after it begins."""
        return self.upto if self.upto < self.newest else None


class Told(msgspec.Struct, kw_only=True):
    """A window's rows."""

    window: Window
    rows: list[Row]
    problems: int
    damage: str | None = None
    damaged_at: int | None = None
    hidden: int = 0
    """rows that the filter leaves out"""


def position(text: str | None) -> int | None:
    """`@198` or `198` from the address."""
    found = _POSITION.fullmatch(text or "")
    return int(found[1]) if found else None


def window_of(newest: int, *, at: int | None, upto: int | None, after: int | None, whole: bool = False) -> Window:
    """Which steps a page shows: those the address asks for, else the newest."""
    if whole and newest <= ALL:
        return Window(after=0, upto=newest, newest=newest, at=at, whole=True)
    if after is not None:
        low = min(max(0, after), newest)
        return Window(after=low, upto=min(newest, low + STEPS), newest=newest, at=at)
    if upto is not None:
        high = min(max(0, upto), newest)
        return Window(after=max(0, high - STEPS), upto=high, newest=newest, at=at)
    if at is not None and at < newest - STEPS // 2:
        low = max(0, at - STEPS // 2)
        return Window(after=low, upto=min(newest, low + STEPS), newest=newest, at=at)
    return Window(after=max(0, newest - STEPS), upto=newest, newest=newest, at=at)


def events_of(rl: Relight, session: str, after: int, upto: int) -> list[Event]:
    """The events after < seq <= upto, as far as they can be read; Corrupt where one cannot."""
    return list(rl.steps(session, after=after, upto=upto))


def told(rl: Relight, info: SessionInfo, window: Window, *, density: Density, kind: Filter, seed: int = _SEED) -> Told:
    """The rows of a window. Damage is part of what is shown, not an obstacle to it."""
    events: list[Event] = []
    damage: Corrupt | None = None
    try:
        for event in rl.steps(info.id, after=max(0, window.after - seed), upto=window.upto):
            events.append(event)
    except Corrupt as error:
        damage = error
    rows = Teller(info.provider, partial(rl.load, info.id)).tell(events, density=density)
    rows = [row for row in rows if row.seq > window.after]
    path, labels = view_of(rl, info)
    marked(rows, view=path, doubtful=info.in_doubt > 0, labels=labels)
    kept = filtered(rows, kind)
    return Told(
        window=window,
        rows=kept,
        problems=sum(1 for row in kept if is_problem(row)),
        damage=damage.what if damage is not None else None,
        damaged_at=damage.seq if damage is not None else None,
        hidden=len(rows) - len(kept),
    )


def view_of(rl: Relight, info: SessionInfo) -> tuple[frozenset[int] | None, dict[int, str]]:
    """The seqs the model sees (None: all of them), and the labels given to steps."""
    try:
        rows = checkpoint_rows(rl, info)
    except (Corrupt, NotFound):
        return None, {}
    labels = {row.seq: row.label for row in rows if row.label}
    if info.head == info.seq and not any(row.kind in ("rewind", "reset") for row in rows):
        return None, labels
    since = max((row.seq for row in rows if row.kind == "reset" and row.seq <= info.head), default=0)
    bases = {row.seq: row.base for row in rows}
    return frozenset(visible(bases, head=info.head, since=since)), labels


def checkpoint_rows(rl: Relight, info: SessionInfo) -> list[CheckpointRow]:
    """The session's steps without bodies, its ancestors' included."""
    record = rl.store.find(info.id)
    if record is None:
        raise NotFound(info.id)
    return [
        row
        for stretch in stretches(chain_of(rl.store, record.identity), after=0, upto=info.seq)
        for row in rl.store.checkpoints(stretch.session, after=stretch.after, upto=stretch.upto)
    ]


def opens_at(rl: Relight, info: SessionInfo) -> int | None:
    """The step that matters: the first failing one of the last attempt where it failed; else the end."""
    if info.status not in ("failed", "terminated") or info.seq == 0:
        return None
    begins = max((row.seq for row in checkpoint_rows(rl, info) if row.kind == "attempt"), default=0)
    after = max(begins - 1, info.seq - STEPS)
    try:
        rows = Teller(info.provider, partial(rl.load, info.id)).tell(
            events_of(rl, info.id, after, info.seq), density="steps"
        )
    except Corrupt:
        return None
    failing = [row.seq for row in rows if row.problem]
    return failing[0] if failing else None
