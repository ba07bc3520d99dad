"""The frame of every page: the strip of sessions that need a person, and the store's durability in the footer."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from relight.text import format as words
from relight.text.safe import one_line, shortened
from relight.values.info import SessionInfo

if TYPE_CHECKING:
    from relight.library.facade import Relight
    from relight.values.store import StoreInfo

STRIP: Final = 5
_MAX_TEXT: Final = 70


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One session that needs a person."""

    id: str
    href: str
    name: str
    glyph: str
    role: str
    kind: str
    text: str
    since: str
    cure: str
    held: bool
    """it has an owner"""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the strip and the footer."""

    needs: list[Need]
    more: int
    total: int
    store: str
    durable: bool
    why_not: str
    cures: list[str]

    @property
    def needing(self) -> int:
        """Number of all sessions that need a person."""
        return len(self.needs) + self.more


def need_of(info: SessionInfo, now: datetime) -> Need:
    """A session as an item of the strip."""
    assert info.attention is not None
    glyph, role = words.ATTENTION[info.attention.kind]
    return Need(
        id=info.id,
        href=f"/sessions/{info.id}",
        name=shortened(words.title(info), 32),
        glyph=glyph,
        role=role,
        kind=info.attention.kind.replace("_", " "),
        text=shortened(one_line(info.attention.text), _MAX_TEXT),
        since=words.age(words.seconds_between(info.attention.since, now)),
        cure=info.attention.cure,
        held=bool(info.evidence),
    )


def frame_of(rl: Relight, now: datetime) -> Frame:
    """The frame at this moment."""
    found = rl.needing(most=STRIP)
    needing, info = found.sessions, rl.store.info
    kind = rl.store.url.partition(":")[0]
    return Frame(
        needs=[need_of(info, now) for info in needing[:STRIP]],
        more=max(0, found.total - STRIP),
        total=sum(rl.counts().values()),
        store=kind,
        durable=info.durability == "power-loss",
        why_not=promise(info),
        cures=list(info.durability_cures),
    )


def promise(info: StoreInfo) -> str:
    """What an acknowledged step survives, as text."""
    return info.durability_reason or words.DURABILITY.get(info.durability, info.durability)
