"""One step of a session, to be read beside its history: what went in, what came out, what it took, what it changed.

`step_view` is pure: it reads the step among its neighbours, so that a call is shown with its result, and a reply with
what it answers. The plan of a resume and the raw step are loaded when they are opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from relight.errors import RelightError
from relight.history.events import Event
from relight.history.narration import Narrator
from relight.server.pages.checkpoint import actions_of, checkpoint_view
from relight.server.pages.conversation import Entry, Part, conversation, unpaired
from relight.server.pages.files import Files, body_of, files_of
from relight.server.pages.rendering import answer
from relight.server.pages.site import Site
from relight.server.pages.timeline.far_steps import Unpaired, read_around
from relight.server.reading.inert import preview
from relight.text import format as words
from relight.values.info import SessionInfo
from relight.values.status import first_line

if TYPE_CHECKING:
    from relight.files.diff import FileDiff

AROUND: Final = 60
"""steps before and after it that are read too"""
_RAW: Final = 256 * 1024
_TOKENS: Final = (
    ("input_tokens", "in"),
    ("cache_read_tokens", "from the cache"),
    ("cache_write_tokens", "into the cache"),
    ("output_tokens", "out"),
    ("reasoning_tokens", "of them reasoning"),
)
_OWN: Final = frozenset({"session", "seq", "kind", "at", "attempt", "label", "base", "messages", "intents", "outcomes"})
"""parts of an event that have a place of their own in the view"""


class StepView(msgspec.Struct, kw_only=True):
    """A step as it is read."""

    seq: int
    at: datetime
    kind: str
    attempt: int
    label: str | None
    title: str
    mark: str
    role: str
    facts: list[tuple[str, str]]
    given: list[Entry]
    """what a reply answers: messages and results since the reply before it"""
    parts: list[Part]
    """what the step says, and the calls that it begins or ends"""
    error: str
    also: str
    """everything else that the step has, as JSON"""
    also_cut: bool
    until: int
    """the last step of what is shown: that of a call's result"""
    previous: int | None
    next: int | None


def step_view(events: Sequence[Event], seq: int, provider: str | None) -> StepView | None:
    """The view of a step among its neighbours; None if it is not among these events."""
    event = next((one for one in events if one.seq == seq), None)
    if event is None:
        return None
    entries = conversation(events, provider, None)
    parts = [part for entry in entries for part in entry.parts if seq in part.steps]
    calls = [part for part in parts if part.kind == "call"]
    narrator = Narrator(provider)
    rows = [row for one in events for row in narrator.rows(one) if row.seq == seq]
    row = rows[0] if rows else None
    seqs = [one.seq for one in events]
    also, also_cut = preview(*_also(event))
    return StepView(
        seq=seq,
        at=event.at,
        kind=event.kind,
        attempt=event.attempt,
        label=event.label,
        title=row.text if row is not None else event.kind,
        mark=row.mark if row is not None else "",
        role=row.role if row is not None else "",
        facts=_facts(event, calls, events),
        given=_given(entries, seq, parts),
        parts=parts,
        error=_error(event),
        also=also,
        also_cut=also_cut,
        until=max([seq, *(step for part in calls for step in part.steps)]),
        previous=max((one for one in seqs if one < seq), default=None),
        next=min((one for one in seqs if one > seq), default=None),
    )


def _unpaired(step: StepView | None) -> Unpaired:
    return unpaired(step.parts) if step is not None else ((), ())


def _given(entries: Sequence[Entry], seq: int, shown: Sequence[Part]) -> list[Entry]:
    """What the model was given since its reply before this one, without what the step shows itself; empty if the step
    is no reply."""
    mine = next((n for n, one in enumerate(entries) if one.speaker == "assistant" and _says(one, seq)), None)
    if mine is None:
        return []
    before = next((n for n in range(mine - 1, -1, -1) if entries[n].speaker == "assistant"), None)
    given = [one for one in entries[(before if before is not None else -1) + 1 : mine] if one.parts]
    if before is not None:
        results = [part for part in entries[before].parts if part.kind == "call" and part.results]
        results = [part for part in results if not any(part is one for one in shown)]
        given = [msgspec.structs.replace(entries[before], speaker="tool", parts=results), *given] if results else given
    return given


def _says(entry: Entry, seq: int) -> bool:
    return any(part.seq == seq for part in entry.parts)


def _facts(event: Event, calls: Iterable[Part], events: Sequence[Event]) -> list[tuple[str, str]]:
    """How long it took, tokens and cost."""
    times = {one.seq: one.at for one in events}
    facts: list[tuple[str, str]] = []
    parts = list(calls)
    for part in parts:
        begun = part.begun or part.seq
        ended = max((min(one.seq, one.also or one.seq) for one in part.results), default=0)
        if begun in times and ended in times and event.seq in part.steps - {part.seq} | {part.begun}:
            name = f"{part.title} took" if event.messages or len(parts) > 1 else "took"
            facts.append((name, words.duration(max(0.0, (times[ended] - times[begun]).total_seconds()))))
    before = max((one.at for one in events if one.seq < event.seq), default=None)
    if event.messages and event.usage and before is not None:
        facts.append(("reply took", words.duration(max(0.0, (event.at - before).total_seconds()))))
    usage = event.usage or {}
    tokens = [f"{words.tokens(usage[name])} {what}" for name, what in _TOKENS if usage.get(name)]
    facts += [("tokens", ", ".join(tokens))] if tokens else []
    facts += [("cost", words.money(usage["cost"]))] if usage.get("cost") is not None else []
    return facts


def _error(event: Event) -> str:
    """Why the session failed or stopped at this step."""
    change = event.status or {}
    failure = (change.get("failure") or {}).get("text")
    reason = change.get("reason") if change.get("status") in ("failed", "terminated", "halted") else None
    reason = first_line(reason) if reason and "\n" not in reason else reason
    return "\n".join(dict.fromkeys(str(one) for one in (reason, failure) if one))


def _also(event: Event) -> tuple[str]:
    fields = {name: value for name, value in msgspec.to_builtins(event).items() if name not in _OWN and value}
    return (json.dumps(fields, indent=2, ensure_ascii=False, default=str) if fields else "",)


# -- reading ----------------------------------------------------------------------------------------------------------


def step_values(site: Site, info: SessionInfo, seq: int) -> dict[str, Any]:
    """Template values of a step; `step` is None if it cannot be read."""
    found, trouble = None, "" if 0 < seq <= info.seq else f"There is no step @{seq}."
    if not trouble:
        read = partial(step_view, seq=seq, provider=info.provider)
        found, damage = read_around(site.rl, info, (seq - 1, seq), read, _unpaired, AROUND)
        trouble = damage.message if damage is not None else ""  # of a neighbour, or of the step itself
    values: dict[str, Any] = {
        "step": found,
        "session": info.id,
        "step_trouble": trouble,
        "step_ref": f"{words.ref(info)}@{seq}",
    }
    values["newest"] = info.seq
    return values | {"step_files": _files(site, info, found) if found is not None else None}


def _files(site: Site, info: SessionInfo, step: StepView) -> Files | None:
    """The files that it changed: between the captures before and after it; None if none was taken with it."""
    try:
        diffs = _differences(site, info, step.seq, step.until)
    except RelightError as error:
        return Files(lines=[], left_out=[], total=0, added=0, removed=0, trouble=error.message)
    return files_of(diffs, at=f"{info.id}@{step.until}") if diffs is not None else None


def _differences(site: Site, info: SessionInfo, seq: int, until: int) -> list[FileDiff] | None:
    if not info.workspace:
        return None
    rows = site.rl.history.checkpoints(info.id, after=max(0, seq - 10 * AROUND), upto=until)
    captured = [row.seq for row in rows if row.snapshot is not None]
    mine, before = [one for one in captured if one >= seq], [one for one in captured if one < seq]
    if not mine or not before:
        return None
    return site.rl.files.diff(f"{info.id}@{before[-1]}", f"{info.id}@{mine[-1]}")


def add(router: APIRouter, site: Site) -> None:
    """Add the routes to the router."""

    @router.get("/sessions/{ref}/step", response_class=HTMLResponse)
    def step(request: Request, ref: str, seq: int) -> Response:
        info = site.rl.sessions.get(ref)
        if "x-relight-part" not in request.headers:
            return RedirectResponse(f"/sessions/{info.id}?at=@{seq}")
        return answer("step.html", **step_values(site, info, seq))

    @router.get("/sessions/{ref}/step/files", response_class=HTMLResponse)
    def difference(ref: str, seq: int, until: int, root: str, path: str) -> Response:
        info = site.rl.sessions.get(ref)
        text = body_of(_differences(site, info, seq, until) or [], root, path)
        if text is None:
            raise HTTPException(404)
        return answer("difference.html", text=text)

    @router.get("/sessions/{ref}/step/back", response_class=HTMLResponse)
    def back(request: Request, ref: str, seq: int) -> Response:
        info = site.rl.sessions.get(ref)
        if "x-relight-part" not in request.headers:
            return RedirectResponse(f"/checkpoints/{info.id}@{seq}")
        sheet, _, plan = checkpoint_view(site.rl, f"{info.id}@{seq}", site.now())
        return answer("sheet.html", sheet=sheet, actions=actions_of(sheet, plan))

    @router.get("/sessions/{ref}/step/raw", response_class=HTMLResponse)
    def raw(request: Request, ref: str, seq: int) -> Response:
        info = site.rl.sessions.get(ref)
        events = list(site.rl.history.events(info.id, after=seq - 1, upto=seq)) if 0 < seq <= info.seq else []
        if not events:
            raise HTTPException(404)
        text = json.dumps(msgspec.to_builtins(events[0]), indent=2, ensure_ascii=False, default=str)
        return answer("raw.html", text=text[:_RAW], cut=len(text) > _RAW)
