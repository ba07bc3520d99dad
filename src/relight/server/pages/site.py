"""What all page routes share: library, clock, cache, and the frame of every page.

The frame is the strip of sessions that need a person, and the store's durability in the footer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import msgspec
from fastapi import Request
from starlette.responses import HTMLResponse, Response

from relight.library.facade import Relight
from relight.server.pages.rendering import render
from relight.server.pages.timeline.axis_steps import Axes
from relight.server.service import Service
from relight.text import format as words
from relight.text.safe import one_line, shortened
from relight.values.checkpoint import at
from relight.values.info import SessionInfo
from relight.values.queues import Pause
from relight.values.status import Status

if TYPE_CHECKING:
    from relight.library.facade import Relight
    from relight.values.store import StoreInfo


_MAX_CACHED: Final = 1000


class Site:
    """The pages of one server."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.axes = Axes()
        self._cache: OrderedDict[tuple[str, str, int], Any] = OrderedDict()

    @property
    def rl(self) -> Relight:
        return self.service.rl

    def cached(self, key: tuple[str, str, int], make: Callable[[], Any]) -> Any:
        """The cached value of a key, computed at first use. Exceptions are not cached."""
        try:
            return self._cache[key]
        except KeyError:
            found = self._cache[key] = make()
        if len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        return found

    def now(self) -> datetime:
        """The time by the server's clock."""
        return at(self.service.clock.now_us())

    def page(self, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
        """Render a whole page with its frame."""
        frame = frame_of(self.rl, self.now())
        return HTMLResponse(render(template, frame=frame, **values), status_code=status)

    def strip(self) -> str:
        """Render the strip of sessions that need a person."""
        return render("strip.html", frame=frame_of(self.rl, self.now()))

    def strip_unless(self, digest: str) -> str:
        """The strip with its digest; empty if that is the given one: the client has it already."""
        strip = self.strip()
        now = sha256(strip.encode()).hexdigest()[:12]
        return "" if now == digest else f'{strip}<meta name="strip" content="{now}">'


def address(path: str, given: Mapping[str, str], *keep: str) -> Any:
    """A function that builds the URL of the same page with some query values changed."""
    kept = {name: given[name] for name in keep if given.get(name)}

    def here(**changes: object) -> str:
        asked = {**kept, **{name: str(value) for name, value in changes.items() if value not in (None, "")}}
        return path + (f"?{urlencode(asked)}" if asked else "")

    return here


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
    statuses: dict[Status, int]
    """number of sessions in each status"""
    store: str
    durable: bool
    why_not: str
    cures: list[str]
    paused: str = ""
    """since when and by whom everything is paused"""

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
    found = rl.sessions.needing(most=STRIP)
    needing, info = found.sessions, rl.store.info
    kind = rl.store.url.partition(":")[0]
    return Frame(
        needs=[need_of(info, now) for info in needing[:STRIP]],
        more=max(0, found.total - STRIP),
        total=sum(found.statuses.values()),
        statuses=found.statuses,
        store=kind,
        durable=info.durability == "power-loss",
        why_not=promise(info),
        cures=list(info.durability_cures),
        paused=pause_text(rl.admin.paused(), now),
    )


def pause_text(pause: Pause | None, now: datetime) -> str:
    """Who paused everything, when and why; empty if nothing is paused."""
    if pause is None:
        return ""
    ago = words.age(words.seconds_between(at(pause.at_us), now))
    return f"{ago} ago by {pause.by}" + (f": {shortened(one_line(pause.reason), _MAX_TEXT)}" if pause.reason else "")


def promise(info: StoreInfo) -> str:
    """What an acknowledged step survives, as text."""
    return info.durability_reason or words.DURABILITY.get(info.durability, info.durability)
