"""What stands around every page: what needs a person, the store's promise, and who one is."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

import msgspec

from relight.journal.bulk_resume import group_by_failure
from relight.text import format as words
from relight.text.safe import one_line, shortened
from relight.values.info import SessionInfo

if TYPE_CHECKING:
    from relight.library.facade import Relight
    from relight.ports.store import Store

STRIP: Final = 5
_NEEDS: Final = 70
_LOOKED: Final = 200
"""failed and stopped sessions among which those that stopped alike are looked for"""


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that wants a person."""

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
    """somebody has its lease"""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """The strip above and the line below."""

    needs: list[Need]
    more: int
    total: int
    store: str
    durable: bool
    why_not: str
    cures: list[str]
    alike: list[tuple[str, int]]
    """why several of those stopped, and how many"""

    @property
    def needing(self) -> int:
        """How many there are in all."""
        return len(self.needs) + self.more


def need_of(info: SessionInfo, now: datetime) -> Need:
    """A session of the strip."""
    assert info.attention is not None
    glyph, role = words.ATTENTION[info.attention.kind]
    return Need(
        id=info.id,
        href=f"/sessions/{info.id}",
        name=shortened(words.title(info), 32),
        glyph=glyph,
        role=role,
        kind=info.attention.kind.replace("_", " "),
        text=shortened(one_line(info.attention.text), _NEEDS),
        since=words.age(words.seconds_between(info.attention.since, now)),
        cure=info.attention.cure,
        held=bool(info.evidence),
    )


def frame_of(rl: Relight, now: datetime) -> Frame:
    """For one answer."""
    found = rl.needing(most=_LOOKED)
    needing, store = found.sessions, rl.store
    url = store.url
    kind = url.partition(":")[0]
    return Frame(
        needs=[need_of(info, now) for info in needing[:STRIP]],
        more=max(0, found.total - STRIP),
        total=sum(rl.counts().values()),
        store=kind,
        durable=store.durability == "power-loss",
        why_not=promise(store),
        cures=list(getattr(store, "durability_cures", ()) or ()),
        alike=[(one.cause, len(one.sessions)) for one in group_by_failure(needing)],
    )


def promise(store: Store) -> str:
    """What an acknowledged step survives, or why it does not, in words."""
    return getattr(store, "durability_reason", "") or words.DURABILITY.get(store.durability, store.durability)
