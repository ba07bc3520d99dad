"""`/checkpoints/{ref}`: a checkpoint, what a resume from it would do, its files; and the routes of it."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from relight.errors import RelightError
from relight.server.pages.files import Files, body_of, files_of
from relight.server.pages.history import position
from relight.server.pages.rendering import answer
from relight.server.pages.session import Action
from relight.server.pages.site import Site
from relight.text import format as words
from relight.text.facts import plan_facts
from relight.values.checkpoint import Checkpoint
from relight.values.info import ResumePlan, SessionInfo
from relight.values.status import LIVE

if TYPE_CHECKING:
    from relight.files.diff import FileDiff
    from relight.library.facade import Relight


Compare = Literal["disk", "previous", "head", "other"]
COMPARES: Final[tuple[Compare, ...]] = ("disk", "previous", "head", "other")
_MAX_EFFECTS: Final = 20


class CheckpointView(msgspec.Struct, frozen=True, kw_only=True):
    """The upper part of a checkpoint's page, above the files."""

    id: str
    session: str
    title: str
    ref: str
    seq: int
    label: str | None
    at: datetime | None
    age: str
    kind: str
    parent: int | None
    behind: int
    ok: bool
    verdict: str
    lines: list[tuple[str, str, str]]
    reasons: list[tuple[str, str, bool]]
    """text, cure, whether it prevents a resume"""
    previous: int | None
    next: int | None
    head: int
    live: bool
    archived: bool
    has_files: bool


def checkpoint_view(rl: Relight, ref: str, now: datetime) -> tuple[CheckpointView, SessionInfo, ResumePlan]:
    """The view of a checkpoint with its session and resume plan. NotFound."""
    plan = rl.runs.plan(ref)
    info = rl.sessions.get(plan.session)
    seq = position(plan.checkpoint.rpartition("@")[2]) or info.head
    rows = rl.history.checkpoints(info.id, after=max(0, seq - 2), upto=seq + 1)
    mine = next((one for one in rows if one.seq == seq), None)
    effects = effects_line(rl, info, seq)
    lines: list[tuple[str, str, str]] = [*plan_facts(plan, now)]
    behind = max(0, info.head - seq)
    if behind:
        lines.insert(1, ("", f"{words.count(behind, 'step')} would leave the model's view; none is deleted", ""))
    lines.append(("effects since", *effects))
    if mine is not None and mine.snapshot is None and plan.files is not None and plan.files.captured_at is None:
        lines.append(("", "no files were captured up to here: only the conversation can be rewound", "dim"))
    before, after = _neighbours(rows, seq)
    sheet = CheckpointView(
        id=f"{info.id}@{seq}",
        session=info.id,
        title=words.title(info),
        ref=f"{words.ref(info)}@{seq}",
        seq=seq,
        label=mine.label if mine is not None else None,
        at=mine.created_at if mine is not None else None,
        age=words.duration(words.seconds_between(mine.created_at, now) or 0) if mine is not None else "",
        kind=mine.kind if mine is not None else "",
        parent=before,
        behind=behind,
        ok=plan.ok,
        verdict=_verdict(plan),
        lines=lines,
        reasons=[(reason.text, reason.cure or "", reason.blocks) for reason in plan.reasons],
        previous=before,
        next=after,
        head=info.head,
        live=info.status in LIVE,
        archived=info.status == "archived",
        has_files=plan.files is not None and plan.files.captured_at is not None,
    )
    return sheet, info, plan


def _verdict(plan: ResumePlan) -> str:
    if not plan.ok:
        return "Cannot resume now."
    return "Can resume." if plan.command else "Can be resumed by running your program again."


def _neighbours(rows: list[Checkpoint], seq: int) -> tuple[int | None, int | None]:
    seqs = [one.seq for one in rows]
    before = max((one for one in seqs if one < seq), default=None)
    return before, min((one for one in seqs if one > seq), default=None)


def effects_line(rl: Relight, info: SessionInfo, seq: int) -> tuple[str, str]:
    """The lasting effects after a checkpoint, which no rewind can undo: text and role."""
    if seq >= info.head:
        return "none", ""
    lasting = rl.history.effects_since(info.id, seq)
    if lasting is None:
        return "unknown: a newer step is damaged", "warn"
    if not lasting:
        return "none that would last", ""
    calls = ", ".join(f"{call.name} (once) at @{call.intent_seq}" for call in lasting[:_MAX_EFFECTS])
    more = f" and {len(lasting) - _MAX_EFFECTS} more" if len(lasting) > _MAX_EFFECTS else ""
    return f"{calls}{more} ran, and {'is' if len(lasting) == 1 else 'are'} NOT undone by a rewind", "warn"


def actions_of(sheet: CheckpointView, plan: ResumePlan) -> list[Action]:
    """The actions that are offered for a checkpoint; impossible ones with the reason."""
    at = f"/checkpoints/{sheet.id}/do"
    over = "the session is archived: it can only be forked" if sheet.archived else ""
    running = "the session is running: stop it first" if sheet.live else ""
    no_files = "" if sheet.has_files else "no files are captured at this checkpoint"
    why_resume = next((reason.text for reason in plan.reasons if reason.blocks), "")
    why_resume = why_resume or ("" if plan.command else "relight does not know how to start it: run your program again")
    here = "" if sheet.seq < sheet.head else "it is the head already"
    return [
        Action(verb="fork", label="Fork here…", href=f"{at}/fork", primary=not sheet.live),
        Action(verb="edit", label="Edit and fork…", href=f"{at}/edit"),
        Action(verb="resume", label="Resume from here…", href=f"{at}/resume", why_not=over or why_resume),
        Action(
            verb="rewind",
            label="Stop and rewind…" if sheet.live else "Rewind to here…",
            href=f"{at}/rewind",
            why_not=over or (here if not sheet.has_files else ""),
        ),
        Action(verb="restore", label="Restore files…", href=f"{at}/restore", why_not=over or running or no_files),
        Action(verb="label", label="Label…", href=f"{at}/label", why_not=over),
    ]


def compared(rl: Relight, sheet: CheckpointView, plan: ResumePlan, compare: Compare, other: int | None) -> Files:
    """The files that differ, or why they cannot be compared."""
    try:
        later = frozenset(
            (one.root, one.path) for one in (plan.files.differ if plan.files else None) or () if one.later
        )
        later = later if compare == "disk" else frozenset()
        is_after = compare in ("previous", "other")
        return files_of(differences(rl, sheet, compare, other), later=later, at=sheet.id, is_after=is_after)
    except RelightError as error:
        return Files(lines=[], left_out=[], total=0, added=0, removed=0, trouble=error.message)


def differences(rl: Relight, sheet: CheckpointView, compare: Compare, other: int | None) -> list[FileDiff]:
    """The differences from the checkpoint to the disk or head, or from another checkpoint to it."""
    if compare == "disk":
        return rl.files.diff(sheet.id)
    if compare == "head":
        return rl.files.diff(sheet.id, sheet.session)
    from_seq = sheet.previous if compare == "previous" else other
    if from_seq is None:
        return []
    return rl.files.diff(f"{sheet.session}@{from_seq}", sheet.id)


_COMPARES: Final = (("disk", "disk now"), ("previous", "previous checkpoint"), ("head", "head"), ("other", "other"))


def add(router: APIRouter, site: Site) -> None:
    """Add the routes to the router."""

    @router.get("/checkpoints/{ref}", response_class=HTMLResponse)
    def checkpoint(request: Request, ref: str) -> Response:
        sheet, info, plan = checkpoint_view(site.rl, ref, site.now())
        asked = request.query_params
        unreachable = plan.files is not None and bool(plan.files.missing)
        otherwise: Compare = "previous" if unreachable else "disk"
        compare: Compare = next((one for one in COMPARES if one == asked.get("compare")), otherwise)
        other = position(asked.get("other"))
        files = Files(lines=[], left_out=[], total=0, added=0, removed=0, trouble=_none(info.workspace))
        if sheet.has_files:
            files = compared(site.rl, sheet, plan, compare, other)
        return site.page(
            request,
            "checkpoint.html",
            nav="sessions",
            sheet=sheet,
            actions=actions_of(sheet, plan),
            compare=compare,
            compares=_COMPARES,
            other=other,
            files=files,
        )

    @router.get("/checkpoints/{ref}/difference", response_class=HTMLResponse)
    def difference(ref: str, root: str, path: str, compare: str = "disk", other: str = "") -> Response:
        sheet, _, _ = checkpoint_view(site.rl, ref, site.now())
        which: Compare = next((one for one in COMPARES if one == compare), "disk")
        text = body_of(differences(site.rl, sheet, which, position(other)), root, path)
        if text is None:
            raise HTTPException(404)
        return answer("difference.html", text=text)


def _none(workspace: dict[str, str]) -> str:
    if not workspace:
        return "The session has no workspace, so no files are captured; the conversation can still be rewound."
    return "No files were captured up to this checkpoint; the conversation can still be rewound."
