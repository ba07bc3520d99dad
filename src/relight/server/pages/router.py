"""The router of all pages. Page routes only read; changes go to the API (assets/dialogs.js).

A page requested with `part` answers with a fragment of itself, for live updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from relight.journal.resume_plan import naming_hash
from relight.server import search_page
from relight.server.api.bulk import stopped_alike
from relight.server.http.api_docs import operations_of
from relight.server.http.frame import PLAIN_STYLE
from relight.server.http.guard import needs
from relight.server.http.problems import Problem
from relight.server.pages import checkpoint, compare, costs, operations, session_routes, step
from relight.server.pages.dialogs import routes as dialogs
from relight.server.pages.digest import digest
from relight.server.pages.rendering import answer, asset_response, render
from relight.server.pages.sessions import PAGE, adoptable, filters_of, listing, rows
from relight.server.pages.site import Site
from relight.server.service import Service
from relight.values.checkpoint import at

_MAX_GROUPED: Final = 100
"""sessions of a status that are read to group those that stopped for the same reason"""


def pages(service: Service) -> APIRouter:
    """All page routes; they require the scope read."""
    site = Site(service)
    router = APIRouter(dependencies=[Depends(needs("read"))], include_in_schema=False)
    _first(router, site)
    for noun in (session_routes, step, checkpoint, compare, costs, operations, dialogs, search_page):
        noun.add(router, site)
    return router


def _first(router: APIRouter, site: Site) -> None:
    @router.get("/", response_class=HTMLResponse)
    def sessions(request: Request) -> Response:
        given = request.query_params
        filters = filters_of(given)
        if given.get("part") == "rows":
            changed = rows(site.rl, filters, _ids(given, "ids"), _ids(given, "new"), site.now())
            text = render("rows_changed.html", lines=changed) if changed else ""
            return HTMLResponse(text + site.strip_unless(given.get("strip", "")))
        # Before the sessions are read: what changes from here on is sent to the page, and nothing has to be read twice.
        events = site.service.hub.position()
        found = listing(site.rl, filters, site.now())
        if given.get("part") == "list":
            return HTMLResponse(render("list.html", listing=found, adoptable=[]) + site.strip_unless(""))
        offered = adoptable(site.rl) if found.total == 0 else []
        alike = stopped_alike(site.rl, most=_MAX_GROUPED)
        values: dict[str, Any] = {"listing": found, "adoptable": offered, "alike": alike}
        values |= {"events": events, "newest": next(site.rl.sessions.list(limit=1), None)}
        return site.page(request, "sessions.html", nav="sessions", **values)

    @router.get("/docs", response_class=HTMLResponse)
    def docs(request: Request) -> Response:
        document = request.app.openapi()
        made = site.cached(("docs", "", 0), lambda: operations_of(document))
        return site.page(request, "docs.html", nav="docs", tags=made, about=document["info"])

    @router.get("/strip", response_class=HTMLResponse)
    def needing(strip: str = "", of: str = "") -> Response:
        """The strip, and by which hash a page of this session knows whether its name and labels are the present ones:
        no step records them, so its stream does not report them."""
        info = site.rl.sessions.find(of) if of else None
        naming = f'<meta name="naming" content="{naming_hash(info.name, info.labels)}">' if info is not None else ""
        return HTMLResponse(site.strip_unless(strip) + naming)

    @router.get("/digest", response_class=HTMLResponse)
    def away(since: int = 0) -> Response:
        now = site.now()
        begins = at(min(max(since, 0), int(now.timestamp())) * 1_000_000)
        return answer("digest.html", digest=digest(site.rl, begins, now))

    @router.get("/push-worker.js")
    def push_worker(request: Request) -> Response:
        # At the root: a service worker may act for the pages beside and below it.
        return asset(request, "push-worker.js")

    @router.get("/assets/{name:path}")
    def asset(request: Request, name: str) -> Response:
        found = asset_response(request, name)
        if found is None:
            raise HTTPException(404)
        return found


def _ids(given: Mapping[str, str], name: str) -> list[str]:
    """Ids of sessions, separated by commas; at most a page of them."""
    return [one for one in given.get(name, "").split(",")[:PAGE] if one]


def error_page(request: Request, problem: Problem) -> Response | None:
    """A problem as an HTML page, with a style of its own for a client that is not logged in: assets need a login."""
    inside = getattr(request.state, "principal", None) is not None
    return answer("error.html", status=problem.status, problem=problem, inside=inside, plain_style=PLAIN_STYLE)
