"""Routes of the confirmation dialogs, e.g. `/sessions/{id}/do/{verb}`. They only read; the API does the change."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from relight.errors import RelightError
from relight.server.http.guard import principal_of
from relight.server.pages.dialogs.bulk import MAX_CHOSEN, archive_dialog, resume_dialog, several_dialog
from relight.server.pages.dialogs.session import dialog
from relight.server.pages.dialogs.starting import adopt_dialog, new_dialog
from relight.server.pages.dialogs.store import pause_dialog, retention_dialog, sweep_dialog
from relight.server.pages.dialogs.values import Dialog
from relight.server.pages.rendering import answer
from relight.server.pages.session_routes import found
from relight.server.pages.sessions import filters_of, matching
from relight.server.pages.site import Site
from relight.values.info import SessionInfo
from relight.values.ref import parse_ref

_MAX_NAMED: Final = 200
"""sessions that an address can name"""


def add(router: APIRouter, site: Site) -> None:
    """Add the routes to the router."""

    @router.get("/sessions/{ref}/do/{verb}", response_class=HTMLResponse)
    def of_session(request: Request, ref: str, verb: str) -> Response:
        info = found(site, ref)
        made = dialog(site.rl, info, verb, seq=None, given=request.query_params, now=site.now())
        return _rendered(site, request, made, home=f"/sessions/{info.id}")

    @router.get("/checkpoints/{ref}/do/{verb}", response_class=HTMLResponse)
    def of_checkpoint(request: Request, ref: str, verb: str) -> Response:
        info = found(site, ref)
        seq = parse_ref(ref).seq
        seq = seq if seq is not None else site.rl.history.checkpoint(ref).seq
        made = dialog(site.rl, info, verb, seq=seq, given=request.query_params, now=site.now())
        return _rendered(site, request, made, home=f"/checkpoints/{info.id}@{seq}")

    @router.get("/do/archive", response_class=HTMLResponse)
    def archive_finished(request: Request) -> Response:
        return _rendered(site, request, archive_dialog(site.rl, site.now()), home="/")

    @router.get("/do/resume", response_class=HTMLResponse)
    def resume_alike(request: Request, cause: str) -> Response:
        return _rendered(site, request, resume_dialog(site.rl, cause, site.now()), home="/")

    @router.get("/do/new", response_class=HTMLResponse)
    def new(request: Request) -> Response:
        return _rendered(site, request, new_dialog(site.rl, admin=principal_of(request).may("admin")), home="/")

    @router.get("/do/adopt", response_class=HTMLResponse)
    def adopt(request: Request) -> Response:
        admin = principal_of(request).may("admin")
        return _rendered(site, request, adopt_dialog(site.rl, site.now(), admin=admin), home="/")

    @router.get("/do/several/{verb}", response_class=HTMLResponse)
    def several(request: Request, verb: str) -> Response:
        infos, more = _chosen(site, request)
        return _rendered(site, request, several_dialog(site.rl, verb, infos, site.now(), more=more), home="/")

    @router.get("/operations/do/sweep", response_class=HTMLResponse)
    def sweep(request: Request) -> Response:
        return _rendered(site, request, sweep_dialog(site.rl), home="/operations")

    @router.get("/do/pause", response_class=HTMLResponse)
    def pause(request: Request) -> Response:
        return _rendered(site, request, pause_dialog(site.rl, site.now()), home="/")

    @router.get("/operations/do/retention", response_class=HTMLResponse)
    def retention(request: Request) -> Response:
        return _rendered(site, request, retention_dialog(site.rl), home="/operations")


def _chosen(site: Site, request: Request) -> tuple[list[SessionInfo], bool]:
    """The sessions that the address names by id, else all that match its filters; and whether there are more."""
    named = [one for one in request.query_params.get("ids", "").split(",") if one][:_MAX_NAMED]
    if not named:
        found = list(islice(matching(site.rl, filters_of(request.query_params), site.now()), MAX_CHOSEN + 1))
        return found[:MAX_CHOSEN], len(found) > MAX_CHOSEN
    infos = []
    for one in named:
        try:
            infos.append(site.rl.sessions.get(one))
        except RelightError:
            continue  # removed meanwhile: the dialog lists those that are there
    return infos, False


def _rendered(site: Site, request: Request, made: Dialog, *, home: str) -> Response:
    """The form alone for our script, a whole page for a browser without scripts."""
    query = f"?{request.url.query}" if request.url.query else ""
    again = request.url.path + query
    values: dict[str, Any] = {"d": made, "body": json.dumps(made.body), "again": again}
    if request.headers.get("x-relight-part"):
        return answer("dialog.html", **values)
    return site.page(request, "dialog_page.html", nav="sessions", home=home, **values)
