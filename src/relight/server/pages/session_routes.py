"""Routes of `/sessions/{id}` and of the parts that it loads on demand: rows, news, peek, plots, whole values."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import suppress
from typing import Any, Final

import msgspec
from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from relight.errors import Corrupt, RelightError
from relight.history.documents import session_document
from relight.history.events import Event
from relight.journal.resume_plan import naming_hash
from relight.server.pages import conversation, plots
from relight.server.pages.files import Files, body_of, files_of
from relight.server.pages.history import (
    ALL,
    DENSITIES,
    FILTERS,
    Window,
    events_of,
    opens_at,
    position,
    view_of,
    window_of,
    window_rows,
)
from relight.server.pages.rendering import answer, render
from relight.server.pages.session import TABS, actions_of, call_rows, count_forks, forks_of, header_of
from relight.server.pages.site import Site, address
from relight.server.pages.step import step_values
from relight.server.pages.timeline.axis import Axis
from relight.server.pages.timeline.collapsed_attempts import Group, groups_of
from relight.server.pages.timeline.far_steps import Unpaired, read_around
from relight.server.pages.timeline.outline import Outline, outline_of
from relight.text import format as words
from relight.values.info import SessionInfo
from relight.values.ref import parse_ref
from relight.values.status import LIVE

PLOT_STEPS: Final = 5000
MAX_VERIFIED: Final = 5000
"""steps up to which a page folds a session to see that it is whole"""
_MAX_CALLS: Final = 200
_PEEK_ROWS: Final = 5
_MAX_HITS: Final = 5000
_MAX_MARKS: Final = 50
_OVERLAP: Final = 40
"""steps before the newest displayed one that are sent again: an outcome changes the row of its call"""
_MAX_BEHIND: Final = 500
"""a page that missed more steps than this reloads"""
_PHONE_ROWS: Final = 20
"""rows at the end that a narrow screen shows at first"""
_SINCES: Final = (("start", "since the start"), ("attempt", "since this attempt"), ("disk", "head to disk now"))


def add(router: APIRouter, site: Site) -> None:
    """Add the routes to the router."""

    @router.get("/sessions/{ref}", response_class=HTMLResponse)
    def session(request: Request, ref: str) -> Response:
        info = found(site, ref)
        tab = request.query_params.get("tab", TABS[0])
        tab = tab if tab in TABS else TABS[0]
        values = header_values(site, info) | {"tab": tab, "tabs": _tabs(site, info), "at_end": False, "plots": False}
        keep = ("tab", "density", "show", "since", "q", "zoom")
        values["here"] = address(f"/sessions/{info.id}", request.query_params, *keep)
        values |= _TAB[tab](site, info, request)
        if request.query_params.get("plots") and tab == "history":
            values |= _plots(site, info) | {"plots": True}
        return site.page(request, "session.html", nav="sessions", **values)

    @router.get("/sessions/{ref}/rows", response_class=HTMLResponse)
    def rows(request: Request, ref: str) -> Response:
        info = found(site, ref)
        asked = request.query_params
        window = window_of(info.seq, at=None, upto=position(asked.get("upto")), after=position(asked.get("after")))
        return HTMLResponse(_list(site, info, window, request))

    @router.get("/sessions/{ref}/news", response_class=HTMLResponse)
    def news(request: Request, ref: str) -> Response:
        info = found(site, ref)
        asked = request.query_params
        seen, begins = position(asked.get("after")) or 0, position(asked.get("from")) or 0
        # What leaves the model's view by a rewind is older than any overlap.
        news = site.rl.history.checkpoints(info.id, after=min(seen, info.seq), upto=info.seq)
        left = any(row.kind in ("rewind", "reset") for row in news)
        after = begins if left else max(begins, min(seen, info.seq) - _OVERLAP)
        rows = ""
        if info.seq - seen > _MAX_BEHIND or info.seq - after > ALL:
            rows = f'<ol data-upto="{info.seq}" data-after="{after}" data-skipped="{info.seq - seen}"></ol>'
        elif "density" in asked:
            rows = _list(site, info, Window(after=after, upto=info.seq, newest=info.seq), request, folded=False)
        named = render("tabs.html", head=info, tab="", tabs=_tabs(site, info))
        return HTMLResponse(render("head.html", **header_values(site, info)) + named + rows + site.strip())

    _add_parts(router, site)


def _add_parts(router: APIRouter, site: Site) -> None:
    """Routes of the parts that a page loads on demand."""

    @router.get("/sessions/{ref}/peek", response_class=HTMLResponse)
    def peek(ref: str) -> Response:
        info = found(site, ref)
        window = Window(after=max(0, info.seq - 40), upto=info.seq, newest=info.seq)
        shown = window_rows(site.rl, info, window, density="steps", kind="all").rows[-_PEEK_ROWS:]
        files = site.rl.files.status(info.id, start=True) if info.workspace else None
        changed = files.changed if files is not None else None
        head, plan = header_of(info, site.now()), site.rl.runs.plan_hash(info.id)
        return answer("peek.html", head=head, plan=plan, rows=shown, files=changed)

    @router.get("/sessions/{ref}/output", response_class=HTMLResponse)
    def output(request: Request, ref: str) -> Response:
        info = found(site, ref)
        values: dict[str, Any] = {"parts": site.rl.runs.output(info.id), "session": info.id}
        if request.query_params.get("part"):
            return answer("output_body.html", **values)
        attach = shlex.join(info.attach) if info.attach else ""
        title = words.title(info)
        return site.page(request, "output.html", nav="sessions", title=title, attach=attach, **values)

    @router.get("/sessions/{ref}/spark", response_class=HTMLResponse)
    def spark(ref: str) -> Response:
        info = found(site, ref)
        measure = plots.Measure()
        try:
            measure.read(events_of(site.rl, info.id, max(0, info.seq - 240), info.seq))
        except Corrupt:
            return HTMLResponse("")
        points = plots.spark(measure.points)
        return answer("spark.html", points=points) if points else HTMLResponse("")

    @router.get("/sessions/{ref}/plots", response_class=HTMLResponse)
    def drawn(ref: str) -> Response:
        return answer("plots.html", **_plots(site, found(site, ref)))

    @router.get("/sessions/{ref}/difference", response_class=HTMLResponse)
    def difference(ref: str, root: str, path: str, since: str = "start") -> Response:
        text = body_of(_differences(site, found(site, ref), since), root, path)
        if text is None:
            raise HTTPException(404)
        return answer("difference.html", text=text)

    @router.get("/sessions/{ref}/picture")
    def picture(ref: str, seq: int, part: int) -> Response:
        info = found(site, ref)
        event = _step(site, info, seq)
        one = conversation.picture(event, info.provider, part) if event is not None and part >= 0 else None
        if one is None:
            raise HTTPException(404)
        return Response(one[0], media_type=one[1], headers={"Content-Security-Policy": "default-src 'none'; sandbox"})

    @router.get("/sessions/{ref}/value")
    def value(request: Request, ref: str, seq: int, part: int, download: bool = False) -> Response:
        info = found(site, ref)
        event = _step(site, info, seq)
        one = conversation.whole_part(event, info.provider, part) if event is not None and part >= 0 else None
        if one is None:
            raise HTTPException(404)
        if download:
            name = f"{info.id[:8]}-{seq}-{part}.txt"
            headers = {"Content-Disposition": f'attachment; filename="{name}"'}
            return PlainTextResponse(one.text.encode("utf-8", "replace"), headers=headers)
        title = words.title(info)
        return site.page(request, "value.html", nav="sessions", part=one, seq=seq, session=info.id, title=title)


def found(site: Site, ref: str) -> SessionInfo:
    """The session of a ref, also of a checkpoint's ref. NotFound, Ambiguous."""
    return site.rl.sessions.get(parse_ref(ref).session)


def _step(site: Site, info: SessionInfo, seq: int) -> Event | None:
    return next(iter(events_of(site.rl, info.id, seq - 1, seq)), None) if 0 < seq <= info.seq else None


def header_values(site: Site, info: SessionInfo) -> dict[str, Any]:
    """Template values of the header."""
    try:
        outline = outline_of(site.rl, info)
    except RelightError:
        outline = Outline()
    marks = list(outline.marks) if info.workspace else []
    restored = bool(marks) and site.cached(("restored", info.id, marks[-1]), lambda: _restored(site, info, marks))
    undoable = restored or outline.rewound
    captured = outline.captured
    return {
        "head": header_of(info, site.now(), site.rl.queues.unserved() if info.queue else ()),
        "naming": naming_hash(info.name, info.labels),
        "actions": actions_of(info, undoable=undoable),
        "changed": site.cached(("changed", info.id, captured), lambda: _changed(site, info)),
        "damage": _damage(site, info),
    }


def _restored(site: Site, info: SessionInfo, marks: list[int]) -> bool:
    """Whether one of these marks is a restore of files, which can be undone; the newest are looked at."""
    for seq in reversed(marks[-_MAX_MARKS:]):
        event = _step(site, info, seq)
        if event is not None and event.note.keys() & {"operation", "operation_end"}:
            return True
    return len(marks) > _MAX_MARKS


def _changed(site: Site, info: SessionInfo) -> dict[str, Any] | None:
    """Number of files and lines that differ from the first capture; changes only with a new capture."""
    if not info.workspace:
        return None
    files = site.rl.files.status(info.id, start=True)
    if files is None or files.changed is None:
        return None
    return {"count": files.changed, "added": files.lines_added, "removed": files.lines_removed}


def _damage(site: Site, info: SessionInfo) -> dict[str, Any] | None:
    """Damage of the newest step, with the last good step and the cure; None if there is none."""
    if info.seq == 0 and info.attention is None:
        return None
    if info.attention is not None and info.attention.kind == "corrupt":
        return {"seq": info.seq, "what": info.attention.text, "whole": None, "cure": info.attention.cure}
    # Verifying means folding the whole session. A running one is skipped: its writer would have failed to read it.
    # In a long session damage is shown by the rows of a page, and found by the daily check of the whole store.
    if info.status in LIVE or info.seq > MAX_VERIFIED:
        return None
    try:
        site.cached(("whole", info.id, info.seq), lambda: site.service.folds.load(info.id).seq)
    except Corrupt as error:
        cure = f"relight resume {words.ref(info)} --from-last-good"
        whole = (error.offered or "").rpartition("@")[2]
        return {"seq": error.seq or info.seq, "what": error.what, "whole": whole, "cure": cure}
    except RelightError:
        return None
    return None


def _tabs(site: Site, info: SessionInfo) -> list[tuple[str, str]]:
    doubt = f" ({info.in_doubt} in doubt)" if info.in_doubt else ""
    forks = count_forks(site.rl, info.id)
    names = ("History", "Conversation", f"Tool calls{doubt}", "Files", f"Tree {forks}" if forks else "Tree", "Raw")
    return list(zip(TABS, names, strict=True))


def _list(site: Site, info: SessionInfo, window: Window, request: Request, *, folded: bool = True) -> str:
    """Rows for a page that is open. News are not folded: each replaces a row."""
    density, show = _asked(request)
    shown = window_rows(site.rl, info, window, density=density, kind=show)
    axis = _axis(site, info, window, request)
    groups = groups_of(shown.rows) if folded and density != "events" else [Group(rows=shown.rows)]
    inner = render("rows.html", groups=groups, session=info.id, shown_at=None, axis=axis, earlier=0)
    edges = f'data-after="{window.after}" data-upto="{window.upto}" data-newest="{window.newest}"'
    edges += f' data-low="{axis.low:.3f}" data-high="{axis.high:.3f}"'
    return f"<ol {edges}>{inner}</ol>{render('axis.html', axis=axis) if 'from' in request.query_params else ''}"


def _asked(request: Request) -> tuple[Any, Any]:
    density = request.query_params.get("density", DENSITIES[0])
    show = request.query_params.get("show", FILTERS[0])
    return density if density in DENSITIES else DENSITIES[0], show if show in FILTERS else FILTERS[0]


def _axis(site: Site, info: SessionInfo, window: Window, request: Request) -> Axis:
    """The time axis of a window, with the origin and the zoom that the page has."""
    asked = request.query_params
    origin = position(asked.get("origin"))
    low, dash, high = asked.get("zoom", "").partition("-")
    try:
        zoom = (float(low), float(high)) if dash else None
    except ValueError:
        zoom = None
    after, upto = window.after, window.upto
    if origin is None:
        origin = after
    else:  # rows before or after those of the page are measured together with its origin
        after, upto = min(after, origin), min(max(upto, origin + 1), info.seq)
    shown = position(asked.get("from")) or 0
    return site.axes.of(site.rl, info, site.now(), after=after, upto=upto, origin=origin, shown=shown, zoom=zoom)


# -- tabs -------------------------------------------------------------------------------------------------------------


def _history(site: Site, info: SessionInfo, request: Request) -> dict[str, Any]:
    asked = request.query_params
    density, show = _asked(request)
    upto, after = position(asked.get("upto")), position(asked.get("after"))
    at = position(asked.get("at"))
    chosen = at is not None
    find = _find(site, info, asked.get("q", ""), at) if asked.get("q", "").strip() else None
    if find is not None and find["at"] is not None:
        at = find["at"]
    elif at is None and upto is None and after is None:
        at = opens_at(site.rl, info)
    window = window_of(info.seq, at=at, upto=upto, after=after, whole=bool(asked.get("all")))
    shown = window_rows(site.rl, info, window, density=density, kind=show)
    nothing = {"step": None, "session": info.id, "step_trouble": "", "step_ref": "", "step_files": None}
    step = step_values(site, info, at) if at is not None else nothing
    return {
        "history": shown,
        "density": density,
        "show": show,
        "at": at,
        "find": find,
        "at_end": window.later is None and at is None,
        "phone_rows": _PHONE_ROWS,
        "earlier": max(0, len(shown.rows) - _PHONE_ROWS) if window.later is None and at is None else 0,
        "chosen": chosen,
        "shown_at": shown.here or None,
        "axis": _axis(site, info, window, request),
        "groups": groups_of(shown.rows) if density != "events" else [Group(rows=shown.rows)],
        "back": address(f"/sessions/{info.id}", asked, "density", "show")(after=window.after if window.later else ""),
        **step,
    }


def _find(site: Site, info: SessionInfo, q: str, at: int | None) -> dict[str, Any]:
    """Hits of a search in the session: their number, the one to show, and links to its neighbours."""
    q = q.replace("\0", "")[:200].strip()
    hits = site.rl.history.search(info.id, q, most=_MAX_HITS)
    seqs = [hit.seq for hit in hits.hits]
    index = next((number for number, seq in enumerate(seqs) if at is None or seq >= at), max(0, len(seqs) - 1))
    here = address(f"/sessions/{info.id}", {"q": q}, "q")
    return {
        "q": q,
        "total": hits.count,
        "number": index + 1 if seqs else 0,
        "at": seqs[index] if seqs else None,
        "hit": _split(hits.hits[index].text, q) if seqs else None,
        "previous": here(at=seqs[index - 1]) if index > 0 else "",
        "next": here(at=seqs[index + 1]) if index + 1 < len(seqs) else "",
    }


def _split(text: str, q: str) -> tuple[str, str, str]:
    """An excerpt before, at and after the first place where it has the words."""
    found = re.search(re.escape(q), text, re.IGNORECASE)
    return (text[: found.start()], found[0], text[found.end() :]) if found else (text, "", "")


def _conversation(site: Site, info: SessionInfo, request: Request) -> dict[str, Any]:
    asked = request.query_params
    window = window_of(
        info.seq, at=position(asked.get("at")), upto=position(asked.get("upto")), after=position(asked.get("after"))
    )
    view, edges = view_of(site.rl, info), (window.after, window.upto)

    def read(events: list[Event]) -> list[conversation.Entry]:
        return conversation.conversation(events, info.provider, view, edges)

    def unpaired(entries: list[conversation.Entry]) -> Unpaired:
        return conversation.unpaired([part for one in entries for part in one.parts])

    entries, damage = read_around(site.rl, info, edges, read, unpaired)
    return {"window": window, "entries": entries, "damage_here": damage.message if damage is not None else ""}


def _calls(site: Site, info: SessionInfo, request: Request) -> dict[str, Any]:
    rows = call_rows(site.service.folds.load(info.id).calls)
    first = min(max(0, position(request.query_params.get("first")) or 0), max(0, len(rows) - 1))
    part = rows[first : first + _MAX_CALLS]
    return {"calls": part, "total": len(rows), "first": first, "last": first + len(part)}


def _files(site: Site, info: SessionInfo, request: Request) -> dict[str, Any]:
    values: dict[str, Any] = {"head_has_workspace": bool(info.workspace), "captured": False, "trouble": ""}
    if not info.workspace:
        return values
    state = site.rl.files.status(info.id)
    values["trouble"] = (state.trouble if state is not None else "") or ""
    record = site.rl.store.find(info.id)
    values["policy"] = record.identity.snapshot if record is not None else "step"
    if state is None or state.captured_at is None:
        return values
    since = request.query_params.get("since", "start")
    since = since if since in dict(_SINCES) else "start"
    try:
        head = f"{info.id}@{info.head}"
        files = files_of(_differences(site, info, since), at=head, is_after=since != "disk")
    except RelightError as error:
        files = Files(lines=[], left_out=[], total=0, added=0, removed=0, trouble=error.message)
    return values | {"captured": True, "files": files, "since": since, "sinces": _SINCES}


def _differences(site: Site, info: SessionInfo, since: str) -> Any:
    if since == "disk":
        return site.rl.files.diff(info.id)
    outline = outline_of(site.rl, info)
    begins = outline.captures[0] if outline.captures else 1
    if since == "attempt":
        begins = max((seq for seq in outline.captures if seq <= (outline.attempted or begins)), default=begins)
    return site.rl.files.diff(f"{info.id}@{begins}", info.id)


def _forks(site: Site, info: SessionInfo, request: Request) -> dict[str, Any]:
    forks, more = forks_of(site.rl, info, site.now())
    return {"forks": forks, "more": more}


def _raw(site: Site, info: SessionInfo, request: Request) -> dict[str, Any]:
    document = msgspec.to_builtins(session_document(info))
    return {"raw": json.dumps(document, indent=2, ensure_ascii=False, default=str)}


_TAB: Final[dict[str, Any]] = {
    "history": _history,
    "conversation": _conversation,
    "calls": _calls,
    "files": _files,
    "forks": _forks,
    "raw": _raw,
}


def _plots(site: Site, info: SessionInfo) -> dict[str, Any]:
    after = max(0, info.seq - PLOT_STEPS)
    measure = plots.Measure()
    with suppress(Corrupt):  # plot what can be read; the page reports the damage
        measure.read(site.rl.history.events(info.id, after=after, upto=info.seq))
    if info.status in LIVE or info.status in ("waiting", "queued"):
        measure.until(site.now(), info.seq)
    record = site.rl.store.find(info.id)
    burn = measure.burn(record.identity.policy.budget if record is not None else None)
    drawn = {"times": burn.times, "costs": burn.costs, "tokens": burn.tokens, "attempts": burn.attempts} if burn else {}
    return {
        "timeline": measure.timeline(),
        "activities": plots.ACTIVITIES,
        "burn": burn,
        "burn_json": json.dumps(drawn | {"budget": burn.budget if burn else None}),
        "session": info.id,
        "partly": PLOT_STEPS if after else 0,
    }
