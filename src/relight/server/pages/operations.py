"""View of `/operations`: what is wrong, the state of leases, workers, queues and store, and the audit log."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from relight.errors import StoreError
from relight.journal.limits import is_limit
from relight.journal.retention import days_text
from relight.server.api.actions import action_document
from relight.server.api.statistics import statistics_and_resumes
from relight.server.pages.history import position
from relight.server.pages.rendering import answer
from relight.server.pages.site import Need, Site, need_of, promise
from relight.text import format as words
from relight.text.safe import one_line, shortened
from relight.values.checkpoint import at
from relight.values.info import AttentionKind
from relight.values.policy import Retention

if TYPE_CHECKING:
    from relight.fleet.queues import QueueInfo, WorkerInfo
    from relight.history.attention import Needing
    from relight.history.queries import LeaseInfo
    from relight.library.facade import Relight
    from relight.server.jobs.upkeep import Upkeep
    from relight.server.resume_stats import Resumed


LEASES: Final = 1000
QUARANTINE: Final = "Quarantine"
_MAX_LEASES: Final = 100
MAX_NEEDS: Final = 50
"""sessions listed under one heading"""
_SOON_DAYS: Final = 30
_QUIET_SECONDS: Final = 300.0
BAR_WIDTH: Final = 900
BAR_HEIGHT: Final = 100
_VERDICTS: Final = ("progressed", "stranded", "looped")


class LeaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A lease: which process owns a session."""

    id: str
    title: str
    owner: str
    epoch: int
    attempt: int
    expires: str
    evidence: str
    role: str
    abnormal: bool


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A process that takes sessions from queues."""

    name: str
    process: str
    queues: str
    labels: str
    busy: str
    """running sessions of the concurrency limit"""
    finished: int
    seen: str
    role: str


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue with its limits and load."""

    name: str
    queued: int
    running: str
    rate: str
    workers: str
    oldest: str


class ActionRow(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the audit log."""

    id: int
    at: datetime
    verb: str
    session: str | None
    name: str
    text: str
    why: str
    who: str
    outcome: str
    role: str
    undo: str
    """address of the undo dialog, if it can be undone here"""
    command: str


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A rectangle of the resume plot."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    title: str


class Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """Verdicts of resumes by day."""

    bars: list[Bar]
    rows: list[tuple[str, int, int, int]]
    caption: str
    width: int = BAR_WIDTH
    height: int = BAR_HEIGHT


def lease_rows(held: list[LeaseInfo], now: datetime) -> list[LeaseRow]:
    """All leases, abnormal ones first."""
    rows = [_lease_row(one, now) for one in held]
    return [row for row in rows if row.abnormal] + [row for row in rows if not row.abnormal]


def _lease_row(one: LeaseInfo, now: datetime) -> LeaseRow:
    silent = words.seconds_between(one.last_step_at, now) or 0.0
    gone = one.owner_gone is True
    over = one.expires_at is None
    quiet = silent > _QUIET_SECONDS
    seen = {True: "process gone", False: "process alive", None: "process not visible from here"}[one.owner_gone]
    return LeaseRow(
        id=one.session,
        title=one.name or one.session[:8],
        owner=one.owner,
        epoch=one.epoch,
        attempt=one.attempt,
        expires="ended" if over else f"in {one.remaining_seconds:.0f} s",
        evidence=f"{seen}, step {words.duration(silent)} ago",
        role="bad" if gone or over else "warn" if quiet else "",
        abnormal=gone or over or quiet,
    )


def worker_rows(workers: list[WorkerInfo]) -> list[WorkerRow]:
    """The workers as they last reported; those without a recent report are marked."""
    return [
        WorkerRow(
            name=one.worker.name,
            process=f"pid {one.worker.pid} on {one.worker.host}",
            queues=", ".join(one.worker.queues),
            labels=", ".join(one.worker.labels) or "-",
            busy=f"{len(one.worker.running)} of {one.worker.concurrency}" + (", drains" if one.worker.draining else ""),
            finished=one.worker.finished,
            seen=_seen(one),
            role="" if one.alive else "bad",
        )
        for one in workers
    ]


def _seen(one: WorkerInfo) -> str:
    if one.silent_seconds == float("inf"):
        return "before the last restart of its machine, gone"
    return f"{words.duration(one.silent_seconds)} ago" + ("" if one.alive else ", gone")


def queue_rows(queues: list[QueueInfo], now: datetime) -> list[QueueRow]:
    """The queues with their limits."""
    return [
        QueueRow(
            name=one.name,
            queued=one.queued,
            running=f"{one.running} of {one.concurrency}" if one.concurrency is not None else str(one.running),
            rate=f"{one.rate.starts} in {words.duration(one.rate.seconds)}" if one.rate is not None else "-",
            workers=str(one.workers) if one.workers else "no worker serves it",
            oldest=words.age(words.seconds_between(one.oldest, now)),
        )
        for one in queues
    ]


def shown_leases(rows: list[LeaseRow]) -> tuple[list[LeaseRow], list[tuple[str, int]]]:
    """All leases if they are few; else the abnormal ones, and the others counted by owner."""
    if len(rows) <= _MAX_LEASES:
        return rows, []
    abnormal = [row for row in rows if row.abnormal]
    rest = Counter(row.owner for row in rows if not row.abnormal)
    return abnormal[:_MAX_LEASES], rest.most_common(20)


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions under one heading."""

    number: int
    """of all, listed or not"""
    listed: list[Need]


HEADS: Final[dict[AttentionKind, str]] = {
    "stuck": "Stuck or lost",
    "terminated": "Stuck or lost",
    "in_doubt": "In doubt",
    "waiting": "Waiting",
    "corrupt": "Damaged",
    "failed": "Failed",
    "halted": "Halted",
    "quiet": "Quiet",
}


def needs_by_kind(found: Needing, now: datetime) -> dict[str, Needs]:
    """Sessions that need a person, by heading. The totals agree with those of every other page."""
    listed: dict[str, list[Need]] = {}
    numbers: Counter[str] = Counter()
    for kind, number in found.counts.items():
        numbers[HEADS[kind]] += number
    for info in found.sessions:
        if info.attention is not None:
            # Halted with a failure: the same failure repeated until the retries were used up.
            failed = info.failure is not None and not is_limit(info.failure)
            quarantined = info.attention.kind == "halted" and failed
            head = QUARANTINE if quarantined else HEADS[info.attention.kind]
            if quarantined:
                numbers[QUARANTINE] += 1
                numbers[HEADS["halted"]] -= 1
            listed.setdefault(head, []).append(need_of(info, now))
    return {head: Needs(number=numbers[head], listed=needs[:MAX_NEEDS]) for head, needs in listed.items()}


def summary(counts: dict[Any, int], needs: dict[str, Needs], workers: int, oldest: float | None) -> tuple[str, bool]:
    """One sentence about all sessions, and whether nothing is stuck."""
    number = {head: one.number for head, one in needs.items()}
    stuck = number.get("Stuck or lost", 0) + number.get("Damaged", 0)
    well = not stuck
    sentence = "Nothing stuck." if well else f"{stuck:,} stuck, lost or damaged."
    parts = [words.count(workers, "worker")] if workers else []
    parts.append(f"{counts.get('working', 0) + counts.get('spawning', 0):,} working")
    queued = counts.get("queued", 0)
    parts.append(f"{queued:,} queued" + (f", oldest {words.duration(oldest)}" if queued and oldest is not None else ""))
    parts.append(f"{number.get('In doubt', 0):,} in doubt")
    return f"{sentence} {' · '.join(parts)}", well


def store_facts(rl: Relight) -> list[tuple[str, str, str]]:
    """Facts about the store: (name, text, role)."""
    store, info = rl.store, rl.store.info
    fine = info.durability == "power-loss"
    facts = [
        ("store", store.url.partition(":")[0], ""),
        ("durable", f"{'yes' if fine else info.durability}: {promise(info)}", "" if fine else "warn"),
    ]
    schema = info.schema_version
    facts += [("schema", f"version {schema}", "")] if schema is not None else []
    journal, files = store.size_bytes(), rl.files.size_bytes()
    facts.append(
        ("size", f"{words.size(journal + files)} (journal {words.size(journal)}, files {words.size(files)})", "")
    )
    return facts


def upkeep_facts(upkeep: Upkeep, now: datetime) -> list[tuple[str, str, str]]:
    """Results of the daily upkeep, and the store's growth: (name, text, role)."""
    verified, drilled, growth = upkeep.verified, upkeep.drilled, upkeep.growth
    facts = [("verified", "not yet: digests are verified once a day, first a minute after the server's start", "dim")]
    if verified is not None:
        broken = f"{verified.broken} broken: {', '.join(verified.names)}" if verified.broken else "0 broken"
        text = f"{words.moment(at(verified.at_us), now)}: {words.count(verified.sessions, 'session')}, {broken}"
        text += "" if verified.files else "; captured files were too large to verify daily"
        facts = [("verified", text, "bad" if verified.broken else "")]
    if drilled is not None:
        text = f"{words.moment(at(drilled.at_us), now)}: {drilled.restored} of {drilled.tried} restored"
        text += f", {words.count(drilled.files, 'file')}, {words.duration(drilled.seconds)}"
        text += f"; {drilled.trouble}" if drilled.trouble else ""
        none = "no session has captured files"
        facts.append(("restore drill", text if drilled.tried else none, "bad" if drilled.trouble else ""))
    if growth is not None:
        sign = "+" if growth.bytes_a_day >= 0 else "−"
        full = f", disk full in {growth.full_in_days:,.0f} days" if growth.full_in_days is not None else ""
        soon = growth.full_in_days is not None and growth.full_in_days < _SOON_DAYS
        facts.append(
            ("growth", f"{sign}{words.size(abs(round(growth.bytes_a_day)))} a day{full}", "warn" if soon else "")
        )
    return facts


def save_fact(saves: Any) -> tuple[str, str, str] | None:
    """p50 and p99 of this process's commits, from its histogram; None without any."""
    found = [(sample.labels["le"], sample.value) for metric in saves.collect() for sample in metric.samples
             if sample.name.endswith("_bucket")]  # fmt: skip
    bounds = sorted((float(bound), count) for bound, count in found)
    total = bounds[-1][1] if bounds else 0
    if not total:
        return None

    def quantile(share: float) -> str:
        bound = next(bound for bound, count in bounds if count >= share * total)
        return f"over {words.duration(bounds[-2][0])}" if bound == float("inf") else f"under {bound * 1000:.3g} ms"

    return "saves", f"p50 {quantile(0.5)}, p99 {quantile(0.99)} ({int(total):,} by this server since it started)", ""


def action_rows(documents: list[dict[str, Any]]) -> list[ActionRow]:
    """The entries of the audit log as rows."""
    return [_action_row(one) for one in documents]


def _action_row(one: dict[str, Any]) -> ActionRow:
    before, after = one["before"] or {}, one["after"] or {}
    moved = ""
    if before.get("head") is not None and after.get("head") is not None and before["head"] != after["head"]:
        moved = f"@{before['head']} → @{after['head']}"
    elif before.get("status") and after.get("status") and before["status"] != after["status"]:
        moved = f"{before['status']} → {after['status']}"
    asked = ", ".join(f"{name}: {one_line(str(value))}" for name, value in one["asked"].items() if name != "why")
    undoable = one["verb"] in ("rewind", "restore", "undo") and one["outcome"] == "done" and one["session"]
    refused = one["outcome"].startswith("refused")
    return ActionRow(
        id=one["id"],
        at=datetime.fromisoformat(one["at"]),
        verb=one["verb"],
        session=one["session"],
        name=one["name"] or (one["session"] or "")[:8],
        text=shortened("; ".join(filter(None, (moved, asked))), 160),
        why=shortened(one_line(one["why"] or ""), 120),
        who=one["who"],
        outcome=one["outcome"],
        role="bad" if refused else "warn" if one["outcome"] == "begun" else "ok",
        undo=f"/sessions/{one['session']}/do/undo" if undoable and one["verb"] != "undo" else "",
        command=one["undo"] or "",
    )


def outcomes_of(resumes: list[Resumed], *, tokens: int, minutes: float) -> Outcomes:
    """Bars by day, a table, and a caption with what resuming saved."""
    days: dict[str, Counter[str]] = {}
    for one in resumes:
        day = datetime.fromisoformat(one.at).astimezone().date().isoformat()
        days.setdefault(day, Counter())[one.verdict] += 1
    last_days = sorted(days)[-30:]
    highest = max((sum(days[day][verdict] for verdict in _VERDICTS) for day in last_days), default=1) or 1
    step = BAR_WIDTH / max(len(last_days), 10)
    bars: list[Bar] = []
    for column, day in enumerate(last_days):
        floor = float(BAR_HEIGHT)
        for verdict in _VERDICTS:
            number = days[day][verdict]
            height = round((BAR_HEIGHT - 4) * number / highest, 1)
            floor -= height
            if number:
                title = f"{day}: {number} {verdict}"
                x, width = round(column * step + step * 0.15, 1), round(step * 0.7, 1)
                bars.append(Bar(kind=verdict, x=x, y=round(floor, 1), width=width, height=height, title=title))
    rows = [(day, days[day]["progressed"], days[day]["stranded"], days[day]["looped"]) for day in last_days]
    whole = len(resumes)
    good = sum(one.verdict == "progressed" for one in resumes)
    caption = "No resume in this time."
    if whole:
        saved = f"; saved {words.tokens(tokens)} tokens and {words.duration(minutes * 60)}" if tokens or minutes else ""
        still = sum(one.verdict not in _VERDICTS for one in resumes)
        without = f"; {still:,} without an outcome so far" if still else ""
        caption = f"{good:,} of {words.count(whole, 'resume')} progressed{without}{saved}."
    return Outcomes(bars=bars, rows=rows, caption=caption)


_MAX_ACTIONS: Final = 20
_DAYS: Final = 30.0
_COLUMNS: Final = "id, at_us, who, scope, verb, session, name, why, asked, before, after, outcome, undo"


def add(router: APIRouter, site: Site) -> None:
    """Add the routes to the router."""

    @router.get("/operations", response_class=HTMLResponse)
    def page(request: Request) -> Response:
        events = site.service.hub.position()  # before anything is read: what changes from here on is sent to the page
        actions, older = _actions(site, position(request.query_params.get("before")))
        values: dict[str, Any] = {"actions": actions, "older": older, "outcomes": None, "stats": None}
        values |= {"events": events}
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
    found = rl.sessions.needing(most=MAX_NEEDS, every_halted=True)  # which are in quarantine is in their heads
    needing, needs = found.sessions, needs_by_kind(found, now)
    leases = lease_rows(rl.admin.leases(most=LEASES), now)
    shown, rest = shown_leases(leases)
    workers = worker_rows(rl.queues.workers())
    queued = list(islice(rl.sessions.list(status="queued"), 1000))
    oldest = max((words.seconds_between(info.updated_at, now) or 0.0 for info in queued), default=None)
    sentence, well = summary(found.statuses, needs, len(workers), oldest)
    facts = store_facts(rl)
    saves = save_fact(site.service.metrics.saves)
    return {
        "sentence": sentence,
        "well": well,
        "needs": needs,
        "leases": shown,
        "lease_count": len(leases),
        "lease_rest": rest,
        "workers": workers,
        "queues": queue_rows(rl.queues.list(), now),
        "facts": facts + upkeep_facts(site.service.upkeep, now) + ([saves] if saves is not None else []),
        "clock": _clock(needing, now),
        "retention": words.policy_text(rl.admin.retention()),
    }


def _clock(needing: list[Any], now: Any) -> str:
    """A warning if a step lies in the future: the clock of a machine is wrong."""
    ahead = max(((info.updated_at - now).total_seconds() for info in needing), default=0.0)
    return f"a step was saved {words.duration(ahead)} in the future: set the clock of the machine" if ahead > 60 else ""


def _sweep(site: Site) -> tuple[str, bool]:
    try:
        going = site.rl.admin.sweep(dry_run=True)
    except StoreError as error:
        return error.message, False
    freed = words.size(going.size_bytes + going.file_bytes)
    if not len(going):
        return "nothing is due", False
    days = site.rl.admin.retention().finished_days
    ago = days_text(Retention().finished_days if days is None else days)
    return f"would free {freed}: {words.count(len(going), 'session')} that finished over {ago} ago", True


def _actions(site: Site, before: int | None) -> tuple[list[ActionRow], int | None]:
    rows = site.service.state.rows(
        f"SELECT {_COLUMNS} FROM actions WHERE id < ? ORDER BY id DESC LIMIT ?",
        (before if before is not None else 2**62, _MAX_ACTIONS + 1),
    )
    made = action_rows([action_document(row) for row in rows[:_MAX_ACTIONS]])
    return made, made[-1].id if len(rows) > _MAX_ACTIONS else None


def _resumes(site: Site) -> dict[str, Any]:
    """Verdicts of resumes and failures of the last 30 days."""
    stats, resumes = statistics_and_resumes(site.service, _DAYS)
    drawn = outcomes_of(resumes, tokens=stats["tokens_saved"], minutes=stats["minutes_saved"])
    return {"outcomes": drawn, "stats": stats}
