"""Routes of the confirmation dialogs, e.g. `/sessions/{id}/do/{verb}`. They only read; the API does the change."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from relight.server.pages.dialog_values import Dialog
from relight.server.pages.dialogs import dialog, retention_dialog, sweep_dialog
from relight.server.pages.rendering import answer
from relight.server.pages.session_routes import found
from relight.server.pages.several import archive_dialog, resume_dialog
from relight.server.pages.site import Site
from relight.values.ref import parse_ref


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
        seq = seq if seq is not None else site.rl.checkpoint(ref).seq
        made = dialog(site.rl, info, verb, seq=seq, given=request.query_params, now=site.now())
        return _rendered(site, request, made, home=f"/checkpoints/{info.id}@{seq}")

    @router.get("/do/archive", response_class=HTMLResponse)
    def archive_finished(request: Request) -> Response:
        return _rendered(site, request, archive_dialog(site.rl, site.now()), home="/")

    @router.get("/do/resume", response_class=HTMLResponse)
    def resume_alike(request: Request, cause: str) -> Response:
        return _rendered(site, request, resume_dialog(site.rl, cause, site.now()), home="/")

    @router.get("/operations/do/sweep", response_class=HTMLResponse)
    def sweep(request: Request) -> Response:
        return _rendered(site, request, sweep_dialog(site.rl), home="/operations")

    @router.get("/operations/do/retention", response_class=HTMLResponse)
    def retention(request: Request) -> Response:
        return _rendered(site, request, retention_dialog(site.rl), home="/operations")


def _rendered(site: Site, request: Request, made: Dialog, *, home: str) -> Response:
    """The form alone for our script, a whole page for a browser without scripts."""
    query = f"?{request.url.query}" if request.url.query else ""
    again = request.url.path + query
    values: dict[str, Any] = {"d": made, "body": json.dumps(made.body), "again": again}
    if request.headers.get("x-relight-part"):
        return answer("dialog.html", **values)
    return site.page(request, "dialog_page.html", nav="sessions", home=home, **values)
