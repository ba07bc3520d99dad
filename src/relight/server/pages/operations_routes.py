"""Routes of `/operations`. The resume plot is loaded separately, because it reads journals."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from relight.errors import Corrupt, StoreError
from relight.journal.retention import days_text
from relight.server.api.actions import action_document
from relight.server.api.statistics import statistics
from relight.server.pages import operations
from relight.server.pages.rendering import answer
from relight.server.pages.site import Site
from relight.server.pages.window import position
from relight.text import format as words
from relight.values.policy import Retention

_MAX_ACTIONS: Final = 20
_DAYS: Final = 30.0
_MAX_RESUMED: Final = 200
_COLUMNS: Final = "id, at_us, who, scope, verb, session, name, why, asked, before, after, outcome, undo"


def add(router: APIRouter, site: Site) -> None:
    """Add the routes to the router."""

    @router.get("/operations", response_class=HTMLResponse)
    def page(request: Request) -> Response:
        actions, older = _actions(site, position(request.query_params.get("before")))
        values: dict[str, Any] = {"actions": actions, "older": older, "outcomes": None, "stats": None}
        values |= _now(site)
        if request.query_params.get("resumes"):
            values |= _resumes(site)
        return site.page(request, "operations.html", nav="operations", **values)

    @router.get("/operations/sweep", response_class=HTMLResponse)
    def sweep() -> Response:
        text, due = _sweep(site)
        return answer("sweep.html", text=text, due=due)

    @router.get("/operations/resumes", response_class=HTMLResponse)
    def resumes() -> Response:
        return answer("resumes.html", **_resumes(site))


def _now(site: Site) -> dict[str, Any]:
    rl, now = site.rl, site.now()
    found = rl.needing(most=operations.MAX_NEEDS, every_halted=True)  # which are in quarantine is in their heads
    needing, needs = found.sessions, operations.needs_by_kind(found, now)
    leases = operations.lease_rows(rl.leases(most=operations.LEASES), now)
    shown, rest = operations.shown_leases(leases)
    workers = operations.worker_rows(rl.workers())
    queued = list(islice(rl.sessions(status="queued"), 1000))
    oldest = max((words.seconds_between(info.updated_at, now) or 0.0 for info in queued), default=None)
    sentence, well = operations.summary(rl.counts(), needs, len(workers), oldest)
    facts = operations.store_facts(rl)
    saves = operations.save_fact(site.service.metrics.saves)
    return {
        "sentence": sentence,
        "well": well,
        "needs": needs,
        "leases": shown,
        "lease_count": len(leases),
        "lease_rest": rest,
        "workers": workers,
        "queues": operations.queue_rows(rl.queues(), now),
        "facts": facts + operations.upkeep_facts(site.service.upkeep, now) + ([saves] if saves is not None else []),
        "clock": _clock(needing, now),
        "retention": words.policy_text(rl.retention),
    }


def _clock(needing: list[Any], now: Any) -> str:
    """A warning if a step lies in the future: the clock of a machine is wrong."""
    ahead = max(((info.updated_at - now).total_seconds() for info in needing), default=0.0)
    return f"a step was saved {words.duration(ahead)} in the future: set the clock of the machine" if ahead > 60 else ""


def _sweep(site: Site) -> tuple[str, bool]:
    try:
        going = site.rl.sweep(dry_run=True)
    except StoreError as error:
        return error.message, False
    freed = words.size(going.size_bytes + going.file_bytes)
    if not len(going):
        return "nothing is due", False
    days = site.rl.retention.finished_days
    ago = days_text(Retention().finished_days if days is None else days)
    return f"would free {freed}: {words.count(len(going), 'session')} that finished over {ago} ago", True


def _actions(site: Site, before: int | None) -> tuple[list[operations.ActionRow], int | None]:
    rows = site.service.state.rows(
        f"SELECT {_COLUMNS} FROM actions WHERE id < ? ORDER BY id DESC LIMIT ?",
        (before if before is not None else 2**62, _MAX_ACTIONS + 1),
    )
    made = operations.action_rows([action_document(row) for row in rows[:_MAX_ACTIONS]])
    return made, made[-1].id if len(rows) > _MAX_ACTIONS else None


def _resumes(site: Site) -> dict[str, Any]:
    """Verdicts of resumes and failures of the last 30 days."""
    stats = statistics(site.service, _DAYS)
    since = site.now() - timedelta(days=_DAYS)
    resumes = []
    resumed = (info for info in site.rl.sessions(since_us=round(since.timestamp() * 1e6)) if info.attempt > 1)
    for info in islice(resumed, _MAX_RESUMED):
        try:
            resumes += site.service.resume_stats.of(info)
        except Corrupt:
            continue  # the page of the damaged session reports it
    drawn = operations.outcomes_of(resumes, tokens=stats["tokens_saved"], minutes=stats["minutes_saved"])
    return {"outcomes": drawn, "stats": stats}
