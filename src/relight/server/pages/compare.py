"""View of `/compare`: two forks, attempts or checkpoints side by side, and the graph of forks to choose them from."""

from __future__ import annotations

import json
from datetime import datetime
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from relight.errors import RelightError
from relight.journal.formats.registry import detect
from relight.server.pages.files import Files, body_of, files_of
from relight.server.pages.rendering import answer
from relight.server.pages.session_routes import found
from relight.server.pages.site import Site
from relight.text import format as words
from relight.text.safe import shortened
from relight.values.status import first_line
from relight.values.view import Call, Image, Message, Reason, Result, Text

if TYPE_CHECKING:
    from relight.history.compare import Comparison, Side
    from relight.history.queries import Branch
    from relight.library.facade import Relight
    from relight.values.info import SessionInfo

MAX_MESSAGES: Final = 300
"""messages of each side that are aligned; the alignment is quadratic in the worst case"""
_MAX_TEXT: Final = 4000
_COMMON: Final = 2
"""messages before the parting that are shown"""
_MAX_BRANCHES: Final = 60
_LANE: Final = 34
_LEFT: Final = 20
_WIDTH: Final = 900


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One message as text."""

    role: str
    text: str


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the comparison: the same message on both sides, or what only one has."""

    a: Said | None
    b: Said | None
    same: bool


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A session in the graph of forks: a line from where it began to its head."""

    id: str
    title: str
    ref: str
    x: float
    end: float
    y: int
    up: int | None
    """y of the session it was forked from; None: the first"""
    role: str
    text: str


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """The forks of a family of sessions, drawn by step."""

    nodes: list[Node]
    height: int
    more: int
    width: int = _WIDTH


def said_of(messages: list[dict[str, Any]], provider: str | None) -> list[Said]:
    """Messages as plain text, for reading side by side."""
    return [Said(role=one.role, text=_text(one)) for one in detect(messages, provider).read(messages)]


def _text(message: Message) -> str:
    parts = []
    for block in message.blocks:
        match block:
            case Text():
                parts.append(block.text)
            case Reason():
                parts.append(f"[reasoning] {block.text}" if block.text else "")
            case Call():
                arguments = block.arguments
                shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
                parts.append(f"{block.name} {shown}")
            case Result():
                parts.append(f"{'' if block.status == 'ok' else f'[{block.status}] '}{block.text}")
            case Image():
                parts.append("[image]")
    return shortened("\n".join(filter(None, parts)), _MAX_TEXT)


def aligned(a: list[Said], b: list[Said]) -> list[Pair]:
    """Both sides in order; equal messages stand in one row, whatever was inserted or left out between them."""
    rows: list[Pair] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        left, right = a[i1:i2], b[j1:j2]
        for number in range(max(len(left), len(right))):
            one = left[number] if number < len(left) else None
            other = right[number] if number < len(right) else None
            rows.append(Pair(a=one, b=other, same=tag == "equal"))
    return rows


def graph_of(tree: list[Branch], a: str, b: str, now: datetime) -> Graph:
    """The graph of a family of sessions: x is the step, each session has a line of its own."""
    shown = tree[:_MAX_BRANCHES]
    last = max((one.session.head for one in shown), default=1) or 1
    scale = (_WIDTH - 2 * _LEFT - 220) / last
    rows = {one.session.id: number * _LANE + 20 for number, one in enumerate(shown)}
    nodes = []
    for one in shown:
        info = one.session
        above = (info.parent or "").rpartition("@")[0]
        glyph, role = words.GLYPHS[info.status]
        nodes.append(
            Node(
                id=info.id,
                title=words.title(info),
                ref=f"{info.id}@{info.head}",
                x=round(_LEFT + scale * (one.forked_at or 0), 1),
                end=round(_LEFT + scale * info.head, 1),
                y=rows[info.id],
                up=rows.get(above),
                role="here" if info.id in (a, b) else role,
                text=f"{glyph} {info.status} @{info.head} {words.money(info.cost)}"
                f" {words.age(words.seconds_between(info.updated_at, now))} ago",
            )
        )
    return Graph(nodes=nodes, height=len(shown) * _LANE + 20, more=len(tree) - len(shown))


def facts_of(side: Side) -> list[tuple[str, str]]:
    """Verdict, time and cost of one side."""
    info = side.session
    result = side.result if side.result is not None else info.said
    verdict = info.status + (f": {shortened(first_line(info.reason), 200)}" if info.reason else "")
    return [
        ("verdict", verdict),
        ("result", shortened(str(result), 300) if result is not None else "-"),
        ("cost", f"{words.money(info.cost)} (the whole session)"),
        ("tokens", f"{info.usage.tokens:,}"),
        ("time", f"{words.duration(info.worked_seconds)} of work, {words.count(info.attempt, 'attempt')}"),
        ("turns", str(side.turns)),
    ]


def add(router: APIRouter, site: Site) -> None:
    """Add the routes to the router."""

    @router.get("/compare", response_class=HTMLResponse)
    def compare(request: Request, a: str, b: str = "") -> Response:
        one = found(site, a)
        tree = site.rl.sessions.tree(one.id)
        other = found(site, b) if b else _sibling(tree, one)
        values: dict[str, Any] = {"a": a, "b": b or (other.id if other is not None else "")}
        graph = graph_of(tree, one.id, other.id if other is not None else "", site.now())
        values |= {"one": one, "other": other, "graph": graph, "swap": _address(values["b"], a)}
        values |= {"named_a": _named(a, one), "named_b": _named(values["b"], other) if other is not None else ""}
        values |= {"points": [_points(site.rl, info) for info in (one, other) if info is not None]}
        if other is not None:
            values |= _compared(site, values["a"], values["b"])
        return site.page(request, "compare.html", nav="sessions", address=_address, **values)

    @router.get("/compare/difference", response_class=HTMLResponse)
    def difference(a: str, b: str, root: str, path: str) -> Response:
        text = body_of(site.rl.files.diff(a, b), root, path)
        if text is None:
            raise HTTPException(404)
        return answer("difference.html", text=text)


def _named(ref: str, info: SessionInfo) -> str:
    """A ref as people write it: by the session's name."""
    at = ref.rpartition("@")
    return words.ref(info) + (f"@{at[2]}" if at[1] else "")


def _address(a: str, b: str) -> str:
    return f"/compare?{urlencode({'a': a, 'b': b})}"


def _sibling(tree: list[Branch], one: SessionInfo) -> SessionInfo | None:
    """What one would compare a session with: its origin, else its newest fork."""
    above = (one.parent or "").rpartition("@")[0]
    others = [branch.session for branch in tree if branch.session.id != one.id]
    return next((info for info in others if info.id == above), others[-1] if others else None)


def _points(rl: Relight, info: SessionInfo) -> list[tuple[str, str]]:
    """Checkpoints of a session worth comparing: the ends of its attempts, its labels, its head. (text, ref)."""
    rows = rl.history.checkpoints(info.id)
    begins = [row.seq for row in rows if row.kind == "attempt"]
    ends = [(f"end of attempt {number}", seq - 1) for number, seq in enumerate(begins[1:], start=1) if seq > 1]
    labels = [(f"“{row.label}”", row.seq) for row in rows if row.label]
    head = [(f"head @{info.head}", info.head)]
    return [
        (f"{text} @{seq}" if "@" not in text else text, f"{info.id}@{seq}")
        for text, seq in (ends + labels)[-20:] + head
    ]


def _compared(site: Site, a: str, b: str) -> dict[str, Any]:
    made: Comparison = site.rl.history.compare(a, b)
    sides = [said_of(side.messages[:MAX_MESSAGES], side.session.provider) for side in (made.a, made.b)]
    before = site.rl.history.load(a).messages[max(0, made.common - _COMMON) : made.common]
    cut = max(0, len(made.a.messages) - MAX_MESSAGES) + max(0, len(made.b.messages) - MAX_MESSAGES)
    return {
        "made": made,
        "common": said_of(before, made.a.session.provider) if before else [],
        "pairs": aligned(*sides),
        "cut": cut,
        "facts": [
            (name, left, right) for (name, left), (_, right) in zip(facts_of(made.a), facts_of(made.b), strict=True)
        ],
        "files": _files(site, a, b, made),
        "body_href": f"/compare/difference?{urlencode({'a': a, 'b': b})}&",
    }


def _files(site: Site, a: str, b: str, made: Comparison) -> Files | None:
    if not made.a.session.workspace or not made.b.session.workspace:
        return None
    try:
        return files_of(site.rl.files.diff(a, b), at=b)
    except RelightError as error:
        return Files(lines=[], left_out=[], total=0, added=0, removed=0, trouble=error.message)
