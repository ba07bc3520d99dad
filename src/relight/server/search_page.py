"""View of `/search`: what any session said, by session, each hit with its step; names, tasks and labels too."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from relight.errors import RelightError, StoreError
from relight.history.search import SearchHit
from relight.journal.search.query import Query, marked, parse
from relight.server.pages.sessions import SINCE
from relight.text import format as words
from relight.values.info import SessionInfo

if TYPE_CHECKING:
    from relight.library.facade import Relight
    from relight.server.pages.site import Site

PAGE: Final = 20
_SECONDS: Final = 0.1
"""how long a page adds steps to the index; housekeeping adds the rest"""


class FoundStep(msgspec.Struct, frozen=True, kw_only=True):
    """A hit with a link to its step, and its excerpt in pieces."""

    href: str
    at: datetime
    seq: int | None
    kind: str
    abandoned: bool
    pieces: list[tuple[str, bool]]
    """text, and whether it was asked for"""


class FoundSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session with its hits that follow each other."""

    id: str
    href: str
    title: str
    glyph: str
    role: str
    status: str
    agent: str
    steps: list[FoundStep]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A page of results, or why there are none."""

    q: str = ""
    session: str = ""
    since: str = ""
    sessions: list[FoundSession] = []
    hits: int = 0
    total: int = 0
    """sessions of the store"""
    note: str = ""
    """what was not searched"""
    refused: str = ""
    """why it was not searched at all"""
    wider: list[tuple[str, str]] = []
    """links to searches that may find more, with their text"""
    following: str | None = None
    first: str | None = None
    """the first page, on a later one"""

    @property
    def command(self) -> str:
        """The same in a terminal."""
        given = {"--session": self.session, "--since": self.since}
        return shlex.join(["relight", "search", self.q, *(word for pair in given.items() if pair[1] for word in pair)])


def results(rl: Relight, given: Mapping[str, str], now: datetime) -> Results:
    """Search by the values of a query string. What is refused is said on the page, where it can be corrected."""

    def text(name: str, size: int) -> str:
        return given.get(name, "").replace("\0", "")[:size].strip()

    q, session = text("q", 1000), text("session", 250)
    since = text("since", 10) if text("since", 10) in SINCE else ""
    before = int(text("before", 18)) if text("before", 18).isdecimal() and text("before", 18).isascii() else None
    asked = {"q": q, "session": session, "since": since}
    page = Results(q=q, session=session, since=since, total=sum(rl.sessions.counts().values()))
    if not q:
        return page
    hours = SINCE.get(since)
    try:
        query = parse(q)
        found = rl.sessions.search(
            q,
            session=session or None,
            since_us=round((now - timedelta(hours=hours)).timestamp() * 1e6) if hours is not None else None,
            most=PAGE,
            before=before,
            seconds=_SECONDS,
        )
    except StoreError:
        raise
    except RelightError as error:
        return msgspec.structs.replace(page, refused=str(error), wider=_wider(asked))
    return msgspec.structs.replace(
        page,
        sessions=_by_session(rl, query, found.hits),
        hits=len(found.hits),
        note=found.note,
        wider=[] if found.hits else _wider(asked),
        following=_address(asked | {"before": str(found.next)}) if found.next is not None else None,
        first=_address(asked) if before is not None else None,
    )


def _by_session(rl: Relight, query: Query, hits: list[SearchHit]) -> list[FoundSession]:
    found: list[FoundSession] = []
    for hit in hits:
        if not found or found[-1].id != hit.session:
            found.append(_session(hit, rl.sessions.find(hit.session)))
        at = f"?at=@{hit.seq}" if hit.seq is not None else ""
        found[-1].steps.append(
            FoundStep(
                href=f"/sessions/{hit.session}{at}",
                at=hit.at,
                seq=hit.seq,
                kind=hit.kind,
                abandoned=hit.abandoned,
                pieces=marked(query, hit.text),
            )
        )
    return found


def _session(hit: SearchHit, info: SessionInfo | None) -> FoundSession:
    glyph, role = words.GLYPHS[info.status] if info is not None else ("-", "dim")
    return FoundSession(
        id=hit.session,
        href=f"/sessions/{hit.session}",
        title=words.title(info) if info is not None else hit.name or hit.session[:8],
        glyph=glyph,
        role=role,
        status=info.status if info is not None else "removed",
        agent=(info.agent or "") if info is not None else "",
        steps=[],
    )


def _wider(asked: Mapping[str, str]) -> list[tuple[str, str]]:
    """Searches that find more than this one: without its filters, and by beginnings of words."""
    q = asked["q"]
    offers = []
    if asked["session"] or asked["since"]:
        offers.append((_address({"q": q}), "in all sessions, at any time"))
    begun = " ".join(word if word.endswith(("*", '"')) or '"' in word else f"{word}*" for word in q.split())
    if begun != q:
        offers.append((_address({**asked, "q": begun}), f"words that begin so: {begun}"))
    return offers


def _address(asked: Mapping[str, str]) -> str:
    return f"/search?{urlencode({name: value for name, value in asked.items() if value})}"


def add(router: APIRouter, site: Site) -> None:
    """Add the route of the page."""

    @router.get("/search", response_class=HTMLResponse)
    def search(request: Request) -> Response:
        found = results(site.rl, request.query_params, site.now())
        return site.page(request, "search.html", nav="search", q=found.q, found=found)
