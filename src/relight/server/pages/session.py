"""View of `/sessions/{id}`: header, actions, tool calls, children and forks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from relight.history.narration import call_line
from relight.journal.after_answer import after_answer
from relight.journal.effects.answers import answered_by
from relight.journal.effects.approvals import as_asked, asks_approval
from relight.ports.store import Query
from relight.server.pages.conversation import Part, shorten
from relight.server.pages.sessions import Line, line_of
from relight.server.reading.tools import shown_call, shown_result
from relight.text import format as words
from relight.text.safe import one_line, shortened
from relight.values.call import Call
from relight.values.info import SessionInfo
from relight.values.status import LIVE, allowed, headline

if TYPE_CHECKING:
    from relight.history.queries import Branch
    from relight.library.facade import Relight

TABS: Final = ("history", "conversation", "calls", "files", "forks", "raw")
_MAX_FORKS: Final = 200
_MAX_DEPTH: Final = 8
_MAX_ABOUT: Final = 90


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """A button. An impossible action stays visible, with the reason."""

    verb: str
    label: str
    href: str
    why_not: str = ""
    primary: bool = False
    opens: Literal["dialog", "page"] = "dialog"

    @property
    def possible(self) -> bool:
        return not self.why_not


class Header(Line, frozen=True, kw_only=True):
    """The header of a session's page: what its row in the list has, and more."""

    short: str
    asks: str
    approves: bool
    why: str
    stderr: list[str]
    model: str
    started_at: datetime
    lasted: str
    head: int
    messages: int
    turns: int
    in_doubt: int
    tokens: str
    evidence: list[str]
    labels: list[str]
    runtime: str
    live: bool
    starts: bool
    """an answer can start it again"""


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the tool calls tab."""

    id: str
    name: str
    effect: str
    mark: str
    role: str
    state: str
    seq: int
    result_seq: int | None
    seconds: str
    about: str
    """its first text argument"""
    given: Part
    result: Part | None
    cut: bool
    in_doubt: bool


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """A session in the tree of children and forks."""

    depth: int
    id: str
    here: bool
    """it is the session of this page"""
    title: str
    status: str
    glyph: str
    role: str
    head: int
    made_from: str
    """the checkpoint it was forked from, by id; empty for a child"""
    origin: str
    """the same by name"""
    how: str
    cost: str
    age: str


def header_of(info: SessionInfo, now: datetime, unserved: Collection[str] = ()) -> Header:
    """The header, from the same SessionInfo that the command line and the API show."""
    total = info.usage.tokens
    ends = now if info.status in LIVE or info.status in ("waiting", "queued") else info.updated_at
    stopped = info.status in ("failed", "terminated", "halted", "queued", "archived")
    line = msgspec.structs.asdict(line_of(info, now))
    line["now"] = shortened(words.now_text(info, now, unserved), 400)
    line["cure"] = info.attention.cure if info.attention is not None else ""
    line["rate"] = words.money(info.cost_rate) if info.cost_rate is not None else ""
    error = (info.failure.text if info.failure else "").splitlines()
    return Header(
        **line,
        short=info.id[:8],
        asks=shortened(as_asked(info.question), 2000) if info.status == "waiting" else "",
        approves=info.status == "waiting" and asks_approval(info.question, info.asking),
        why=one_line(headline(info.reason)) if stopped else "",
        stderr=[shortened(line, 300) for line in error[-20:] if error != [info.reason]],
        model=info.model or "",
        started_at=info.created_at,
        lasted=words.duration(words.seconds_between(info.created_at, ends) or 0.0),
        head=info.head,
        messages=info.message_count,
        turns=info.turns,
        in_doubt=info.in_doubt,
        tokens=words.tokens(total) if total else "",
        evidence=[one_line(line) for line in info.evidence],
        labels=[f"{key}={value}" for key, value in sorted(info.labels.items())],
        runtime=" ".join(filter(None, (info.runtime, info.handle))),
        live=info.status in LIVE,
        starts=after_answer(info) == "start",
    )


def actions_of(info: SessionInfo, *, undoable: bool) -> list[Action]:
    """All actions on a session, in the order of the menu."""
    at = f"/sessions/{info.id}/do"
    live, archived = info.status in LIVE, info.status == "archived"
    running = "it is running: stop it first" if live else ""
    over = "it is archived: it can only be forked and exported" if archived else ""
    no_step = "" if info.seq else "it has no step yet"
    resume = over or (f"it is running: {info.evidence[0]}" if live and info.evidence else running)
    resume = resume or ("" if info.command else "relight does not know how to start it: run your program again")
    return [
        *_answering(info, at, over),
        Action(
            verb="resume",
            label="Resume…",
            href=f"{at}/resume",
            why_not=resume,
            primary=info.status in ("failed", "terminated", "halted") and not resume,
        ),
        Action(verb="stop", label="Stop…", href=f"{at}/stop", why_not="" if live else "it is not running"),
        Action(verb="fork", label="Fork from head…", href=f"{at}/fork", why_not=no_step),
        Action(verb="rewind", label="Rewind…", href=f"{at}/rewind", why_not=over or no_step),
        Action(
            verb="undo", label="Undo…", href=f"{at}/undo", why_not="" if undoable else "no rewind or restore to undo"
        ),
        Action(verb="clear", label="Clear…", href=f"{at}/clear", why_not="" if info.evidence else "it has no owner"),
        Action(
            verb="acknowledge",
            label="Acknowledge…",
            href=f"{at}/acknowledge",
            why_not="" if info.attention is not None else "it does not need you",
        ),
        Action(
            verb="archive",
            label="Archive…",
            href=f"{at}/archive",
            why_not=over or running or ("" if allowed(info.status, "archived") else f"it is {info.status}"),
        ),
        Action(verb="output", label="Output", href=f"/sessions/{info.id}/output", opens="page"),
        Action(verb="export", label="Export…", href=f"{at}/export", why_not=no_step),
        Action(verb="remove", label="Remove…", href=f"{at}/remove", why_not=running),
    ]


def answer_verb(info: SessionInfo) -> str:
    """The dialog that answers a waiting session; empty if it does not wait, or if only its own program can answer."""
    return next((one.verb for one in _answering(info, "", "") if one.primary), "")


def _answering(info: SessionInfo, at: str, over: str) -> list[Action]:
    """The actions that answer it: approve and deny, settle, or send; if no process would read it, with the reason."""
    waiting, has_command = info.status == "waiting", info.command is not None
    approval = asks_approval(info.question, info.asking)
    how = answered_by(info.agent, info.question, approval=approval, has_command=has_command, open_calls=info.in_doubt)
    if waiting and how == "approval":
        approve = Action(verb="approve", label="Approve…", href=f"{at}/approve", primary=True)
        return [approve, Action(verb="deny", label="Refuse…", href=f"{at}/deny")]
    if waiting and how == "settling":
        return [Action(verb="settle", label="Settle…", href=f"{at}/settle", primary=True)]
    label = "Answer…" if waiting else "Send…"
    unread = words.send_refusal(info)
    return [Action(verb="send", label=label, href=f"{at}/send", why_not=over or unread, primary=waiting and not unread)]


def call_rows(calls: list[Call]) -> list[CallRow]:
    """Rows of tool calls: those in doubt first, then in order."""
    rows = [_call_row(call) for call in calls]
    return [row for row in rows if row.in_doubt] + [row for row in rows if not row.in_doubt]


def _call_row(call: Call) -> CallRow:
    state, mark, role = "open", "…", "dim"
    if call.in_doubt:
        state, mark, role = "in doubt", "!", "warn"
    elif call.success is not None:
        state, mark, role = ("ok", "✓", "ok") if call.success else ("failed", "✗", "bad")
    elif call.intent_seq is None:
        state = "not started"
    seconds = ""
    if call.started_at is not None and call.ended_at is not None:
        seconds = words.duration(max(0.0, (call.ended_at - call.started_at).total_seconds()))
    given = Part(kind="call", shown=shown_call(call.name, call.arguments))
    result = None
    if call.result is not None:
        result = Part(kind="result", shown=shown_result(call.name, call.result, failed=call.success is False))
    cut = [shorten(one.shown) for one in (given, result) if one is not None and one.shown is not None]
    return CallRow(
        id=call.id,
        name=call.name,
        effect=call.effect or "-",
        mark=mark,
        role=role,
        state=state,
        seq=call.intent_seq or call.asked_seq,
        result_seq=call.result_seq,
        seconds=seconds,
        about=shortened(call_line("", call.arguments).strip(), _MAX_ABOUT),
        given=given,
        result=result,
        cut=any(cut),
        in_doubt=call.in_doubt,
    )


def forks_of(rl: Relight, info: SessionInfo, now: datetime) -> tuple[list[Fork], bool]:
    """The tree of a session as lines, each child and fork below its origin; and whether it was cut."""
    tree = rl.sessions.tree(info.id)
    titles = {branch.session.id: words.title(branch.session) for branch in tree}
    return [_fork(branch, now, titles, here=info.id) for branch in tree[:_MAX_FORKS]], len(tree) > _MAX_FORKS


def _fork(branch: Branch, now: datetime, titles: Mapping[str, str], *, here: str) -> Fork:
    one = branch.session
    origin, _, seq = (one.parent or "").partition("@")
    glyph, role = words.GLYPHS[one.status]
    return Fork(
        depth=min(branch.depth, _MAX_DEPTH),
        id=one.id,
        here=one.id == here,
        title=words.title(one),
        status=one.status,
        glyph=glyph,
        role=role,
        head=one.head,
        made_from=one.parent or "",
        origin=f"{titles.get(origin, origin[:8])}@{seq}",
        how=branch.how or "",
        cost=words.money(one.cost),
        age=words.age(words.seconds_between(one.updated_at, now)),
    )


def count_forks(rl: Relight, session: str) -> int:
    """Number of direct children and forks, up to a limit."""
    below = Query(parent=session, limit=_MAX_FORKS), Query(spawned_by=session, limit=_MAX_FORKS)
    return sum(len(rl.store.list_sessions(query)) for query in below)
