"""Routes of the confirmation dialogs, e.g. `/sessions/{id}/do/{verb}`. They only read; the API does the change."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from relight.errors import NotFound
from relight.server.api.several import MAX, finished, stopped_alike
from relight.server.pages.dialog_values import Dialog, Field, Option
from relight.server.pages.dialogs import dialog, retention_dialog, sweep_dialog
from relight.server.pages.rendering import answer
from relight.server.pages.session_routes import found
from relight.server.pages.site import Site
from relight.text import format as words
from relight.text.safe import one_line, shortened
from relight.values.info import SessionInfo
from relight.values.ref import parse_ref

if TYPE_CHECKING:
    from relight.library.facade import Relight


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


def archive_dialog(rl: Relight, now: datetime) -> Dialog:
    """The dialog that archives completed sessions."""
    found, more = finished(rl)
    rest = f" {more:,} more are finished: repeat it for them." if more else ""
    return Dialog(
        title="Archive finished sessions",
        confirm="Archive them",
        happens=f"Archive {words.count(len(found), 'completed session')}; they cannot be resumed afterwards.{rest}",
        kept="Each can be read, forked and exported, until the retention policy removes it.",
        back="Fork the head of one to continue it.",
        command=_for_each(found, "archive"),
        path="/api/archive",
        body={"plans": {info.id: rl.runs.plan_hash(info.id) for info in found}},
        fields=[_boxes("Finished sessions", found, now)],
        why_not="" if found else "nothing is finished",
        done="archived",
        goes="/",
    )


def resume_dialog(rl: Relight, cause: str, now: datetime) -> Dialog:
    """The dialog that resumes sessions that stopped for one cause. NotFound if there are fewer than two now."""
    group = next((one.sessions for one in stopped_alike(rl) if one.cause == cause), None)
    if group is None:
        raise NotFound(cause[:100], what="group of sessions that stopped for the same reason:")
    shown = group[:MAX]
    rest = f" {len(group) - MAX:,} more stopped for this reason: repeat it for them." if len(group) > MAX else ""
    doubt = sum(1 for info in shown if info.in_doubt)
    calls = f"{words.count(doubt, 'session')} with calls in doubt: the model is told that their outcome is unknown"
    return Dialog(
        title=f"Resume what stopped: {cause}",
        confirm="Resume them",
        happens=f"Start {words.count(len(shown), 'session')} again, one after the other, each at its head.{rest}",
        kept="No finished step runs again; a session that cannot start is not changed, and the reason is shown.",
        back="Stop any of them at any time.",
        command=_for_each(shown, "resume", "--detach"),
        path="/api/resume",
        body={"plans": {info.id: rl.runs.plan_hash(info.id) for info in shown}},
        fields=[_boxes("Sessions", shown, now)],
        lines=[("calls", calls, "warn")] if doubt else [],
        done="resumed",
        goes="/",
    )


def _boxes(label: str, infos: Sequence[SessionInfo], now: datetime) -> Field:
    return Field(
        kind="boxes",
        name="sessions",
        label=label,
        required=True,
        options=[
            Option(value=info.id, label=words.title(info), note=_note(info, now), on=True, risky=False)
            for info in infos
        ],
    )


def _note(info: SessionInfo, now: datetime) -> str:
    ago = f"{words.age(words.seconds_between(info.updated_at, now))} ago"
    said = info.reason if info.status != "completed" else info.said
    return ", ".join(filter(None, (f"@{info.head}", ago, shortened(one_line(said or ""), 70))))


def _for_each(infos: Sequence[SessionInfo], verb: str, *flags: str) -> str:
    names = " ".join(shlex.quote(words.ref(info)) for info in infos)
    return f'for s in {names}; do {" ".join(("relight", verb, *flags))} "$s"; done'
