"""`relight show`: print one session, or one checkpoint of it."""

from __future__ import annotations

import json
import shlex
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.cells import block, cells, cut
from relight.cli.render.console import printable
from relight.cli.render.file_facts import changed_fact, checkpoint_facts, left_out_fact, left_out_lines
from relight.cli.render.plan import not_undone
from relight.cli.render.steps import finished, open_rows
from relight.cli.render.steps import lines_of as step_lines
from relight.cli.render.style import Line, Span, Style, status_word
from relight.cli.render.table import facts
from relight.history.documents import call_document, checkpoint_document, plan_document, session_document
from relight.history.narration import Narrator, Row
from relight.journal.effects.approvals import as_asked
from relight.journal.formats.registry import detect
from relight.journal.limits import is_limit
from relight.text.facts import Fact, calls_in_doubt
from relight.text.format import (
    age,
    count,
    display_path,
    duration,
    moment,
    money,
    now_text,
    queued_text,
    seconds_between,
    short_id,
    tokens,
    working_directory,
)
from relight.text.safe import one_line
from relight.values.call import Call
from relight.values.info import FilesState, ResumePlan, SessionInfo
from relight.values.status import headline
from relight.values.view import Call as AskedCall
from relight.values.view import Reason, Result, Text

if TYPE_CHECKING:
    from relight.library.facade import Relight
    from relight.library.loaded import Loaded


_MAX_RECENT: Final = 6
_MAX_CHILDREN: Final = 20
"""newest children that are printed; `list --tree` has all"""
_RECENT_EVENTS: Final = 120
_BLOCK_LINES: Final = 8
_ATTEMPTS: Final = 3


class SessionView(NamedTuple):
    """Everything that `show` prints about a session."""

    info: SessionInfo
    plan: ResumePlan
    recent: list[Row]
    attempts: list[str]
    files: FilesState | None = None
    loaded: Loaded | None = None
    spawned_by: str = ""
    """its parent, by name"""
    children: list[SessionInfo] = []  # noqa: RUF012 - a default of a tuple, never changed


@verb(
    "show",
    ("show fix-login", "status, cost, steps"),
    ("show fix-login@206 --json", "one checkpoint, for a program"),
)
@ref_argument()
@click.option(
    "--verbose",
    is_flag=True,
    help="Also messages, reasoning and calls, 8 lines each; model, provider, key, metadata; files left out.",
)
@click.option("--short", is_flag=True, help="One line, for a status bar.")
@click.option("--watch", is_flag=True, help="Redraw until q is pressed.")
@json_flag
@pass_context
def show(cli: CliContext, ref: str, verbose: bool, short: bool, watch: bool, as_json: bool) -> int:
    """Show a session or a checkpoint. REF@SEQ also says what returning to that checkpoint means."""
    console = cli.console
    with cli.opened() as rl:
        if "@" in ref:
            return show_checkpoint(cli, rl, ref, as_json=as_json)
        if watch:
            from relight.cli.render.watch import watch as redraw

            return redraw(
                console, lambda: lines_of(read_session(rl, ref, verbose=verbose), now=cli.now(), style=console.out)
            )
        found = read_session(rl, ref, verbose=verbose)
    if as_json:
        console.document(_document(found, verbose=verbose))
    elif short:
        console.write([short_line(found.info, cli.now(), console.out)])
    else:
        console.write(_screen(cli, found))
        console.next(*_next_steps(found.info))
    return 0


def _screen(cli: CliContext, found: SessionView) -> list[Line]:
    return lines_of(found, now=cli.now(), style=cli.console.out)


def read_session(rl: Relight, ref: str, *, verbose: bool = False) -> SessionView:
    """Read what `show` prints. Damage becomes a row: a damaged session can still be shown."""
    from relight.errors import Corrupt

    info, plan = rl.sessions.get(ref), rl.runs.plan(ref, disk=False)
    files = rl.files.status(ref, start=True) if info.workspace else None
    rows: list[Row] = []
    attempts: list[str] = []
    loaded = None
    try:
        rows = _recent(rl, info)
        attempts = _attempts(rl, info)
        loaded = rl.history.load(ref) if verbose else None
    except Corrupt as damage:
        seq = damage.seq or info.seq
        rows.append(Row(seq=seq, at=info.updated_at, word="damage", text=damage.what, mark="✗", notable=True))
    notable = [row for row in rows if row.notable]
    above = rl.sessions.find(info.spawned_by) if info.spawned_by is not None else None
    return SessionView(
        info,
        plan,
        (notable or rows)[-_MAX_RECENT:],
        attempts,
        files,
        loaded,
        spawned_by=above.title if above is not None else info.spawned_by or "",
        children=list(islice(rl.sessions.list(spawned_by=info.id), _MAX_CHILDREN))[::-1],
    )


def _recent(rl: Relight, info: SessionInfo) -> list[Row]:
    narrator, rows = Narrator(info.provider, partial(rl.history.load, info.id)), []
    for event in rl.history.events(info.id, after=max(0, info.seq - _RECENT_EVENTS)):
        rows += finished(narrator.rows(event))
    return rows + open_rows(narrator, info.seq, doubtful=info.in_doubt > 0)


def _attempts(rl: Relight, info: SessionInfo) -> list[str]:
    """The reasons of the latest attempts, oldest first."""
    seqs = [one.seq for one in rl.history.checkpoints(info.id) if one.kind == "attempt"]
    reasons: dict[int, str] = {}
    for seq in seqs[-2 * _ATTEMPTS :]:
        event = next(iter(rl.history.events(info.id, after=seq - 1)), None)
        if event is not None and event.started is not None and event.started.get("reason"):
            reasons[event.started["number"]] = f"{event.started['reason']} {event.at.astimezone():%H:%M}"
    return list(reasons.values())[-_ATTEMPTS:]


def lines_of(found: SessionView, *, now: datetime, style: Style) -> list[Line]:
    """Header, facts and recent steps."""
    info = found.info
    lines = _header(info, now, style) + facts(_facts(found, now), style)
    if found.recent:
        lines += [[], [Span("recent", "dim")]]
        width = len(str(found.recent[-1].seq)) + 1
        for row in found.recent:
            inner = style._replace(width=style.width - 2)
            for line in step_lines(msgspec.structs.replace(row, rule=False), inner, seq_width=width, seconds=False):
                lines.append(["  ", *line])
    if found.loaded is not None:
        lines += _conversation(found.loaded, style) + left_out_lines(found.files, style)
    return lines


def _header(info: SessionInfo, now: datetime, style: Style) -> list[Line]:
    since = seconds_between(info.updated_at, now) or 0.0
    status = status_word(info.status, unicode=style.unicode)
    right = f"{status.text} for {duration(since)}"
    left = [info.title, short_id(info.id), info.agent or "", display_path(working_directory(info))]
    text = "  ".join(one_line(one) for one in left if one)
    room = style.width - cells(printable(right, style)) - 2
    if room < cells(info.title) + 10:
        return [
            [Span(cut(printable(text, style), style.width, ellipsis=style.ellipsis), "bold")],
            ["  ", Span(right, status.role)],
        ]
    text = cut(printable(text, style), room, ellipsis=style.ellipsis)
    name = text[: len(info.title)]
    space = " " * (style.width - cells(text) - cells(printable(right, style)))
    return [[Span(name, "bold"), text[len(name) :], space if style.table else "  ", Span(right, status.role)]]


def _facts(found: SessionView, now: datetime) -> list[Fact]:
    info, plan = found.info, found.plan
    saved = f"saved {duration(seconds_between(info.saved_at, now) or 0)} ago" if info.saved_at else "no step yet"
    entries = [
        Fact("asks", _asks(info, now), "waiting"),
        Fact("task", one_line(info.task or "")),
        Fact("doing", now_text(info, now) if info.doing is not None else ""),
        Fact("queue", _queue(info, now)),
        Fact("why", _why(info), "bad" if info.status == "failed" else ""),
        Fact("said", f'"{one_line(info.said)}"' if info.said else ""),
        Fact(
            "head",
            f"@{info.head}  {saved}  {count(info.message_count, 'message')}, {count(info.turns, 'turn')}, "
            f"{info.in_doubt} in doubt",
        ),
        Fact("attempts", "  ".join([str(info.attempt), " · ".join(found.attempts)]).strip() if info.attempt else ""),
        Fact("forked from", info.parent or ""),
        Fact("child of", found.spawned_by),
        *(
            Fact("" if number else "children", f"{one.title}  {one.status}  {money(one.cost)}".rstrip())
            for number, one in enumerate(found.children)
        ),
        Fact("attach", shlex.join(info.attach or [])),
        Fact("labels", ", ".join(f"{key}={value}" for key, value in sorted(info.labels.items()))),
        *(_identity_facts(info) if found.loaded is not None else ()),
        changed_fact(found.files),
        Fact("cost", _cost(info)),
        Fact("command", shlex.join(info.command or [])),
        Fact("process", ", ".join(info.evidence)),
    ]
    entries = [one for one in entries if one.text]
    failure = info.failure if not is_limit(info.failure) else None  # that is what "why" says
    for line in (failure.text if failure is not None else "").splitlines()[-_BLOCK_LINES:]:
        entries.append(Fact("stderr" if entries[-1].name not in ("stderr", "") else "", one_line(line)))
    entries.append(can_resume_fact(plan))
    return entries


def _identity_facts(info: SessionInfo) -> list[Fact]:
    """Facts that only `--verbose` prints."""
    return [
        Fact("model", one_line(info.model or "")),
        Fact("provider", one_line(info.provider or "")),
        Fact("key", one_line(info.key or "")),
        Fact("metadata", one_line(json.dumps(info.metadata, ensure_ascii=False, default=str)) if info.metadata else ""),
    ]


def _queue(info: SessionInfo, now: datetime) -> str:
    """What a queued session waits for; of one in a queue its priority, required labels and earliest start."""
    if info.status != "queued":
        return ""
    if info.queue is None:
        return queued_text(info, now)
    priority = f"priority {info.priority}" if info.priority else ""
    wants = f"for a worker with {', '.join(info.wants)}" if info.wants else ""
    wakes = f"not before {moment(info.wake_at, now)}" if info.wake_at is not None else ""
    return ", ".join(one for one in (info.queue, priority, wants, wakes) if one)


def _asks(info: SessionInfo, now: datetime) -> str:
    """The question, its choices and its deadline."""
    if not info.question:
        return ""
    choices = f"  ({' | '.join(info.asking.choices)})" if info.asking is not None and info.asking.choices else ""
    until = f"  until {moment(info.wake_at, now)}" if info.status == "waiting" and info.wake_at is not None else ""
    return one_line(f"{as_asked(info.question)}{choices}{until}")


def _why(info: SessionInfo) -> str:
    if info.status in ("completed", "working", "spawning", "waiting"):
        return ""
    kind = f"{info.failure.kind}: " if info.failure is not None and info.status == "failed" else ""
    return kind + one_line(headline(info.reason))


def _cost(info: SessionInfo) -> str:
    usage = info.usage
    total = usage.tokens
    parts = [money(info.cost)] if info.cost is not None else []
    if info.cost_tree is not None and info.cost_tree > (info.cost or 0):
        tree = f"its tree {money(info.cost_tree)}"
        parts.append(f"({tree})" if parts else tree)
    if total:
        read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        cached = f", {100 * usage.cache_read_tokens // read} % cached" if usage.cache_read_tokens and read else ""
        parts.append(f"{tokens(total)} tokens{cached}")
    if info.cost_rate is not None:
        parts.append(f"{money(info.cost_rate)} an hour")
    return "  ".join(parts)


def can_resume_fact(plan: ResumePlan) -> Fact:
    """Whether the session can be resumed, and why not."""
    blocking = [reason for reason in plan.reasons if reason.blocks]
    if blocking:
        return Fact("can resume", f"no: {one_line(blocking[0].text)}", "warn")
    notes = "; ".join(one_line(reason.text) for reason in plan.reasons)
    return Fact("can resume", f"yes{f'; {notes}' if notes else ''}", "ok")


def short_line(info: SessionInfo, now: datetime, style: Style) -> Line:
    """One line for a status bar: status, name, head, activity, age, cost."""
    what = now_text(info, now)
    parts = [f"@{info.head}", what, age(seconds_between(info.last_step_at, now)), money(info.cost)]
    rest = "  ".join(one for one in parts if one and one != "-")
    text = printable(f"{status_word(info.status, unicode=style.unicode).text} {info.title} {rest}", style)
    return [cut(text, style.width, ellipsis=style.ellipsis) if style.terminal else text]


def _next_steps(info: SessionInfo) -> list[tuple[str, str]]:
    if info.attention is not None and info.attention.cure.startswith("relight"):
        return [("next", info.attention.cure), ("steps", f"relight tail {info.title}")]
    if info.status in ("working", "spawning"):
        return [("watch", f"relight tail {info.title} -f")]
    return [("steps", f"relight tail {info.title}")]


def _conversation(loaded: Loaded, style: Style) -> list[Line]:
    lines: list[Line] = [[], [Span("messages", "dim")]]
    for view in detect(loaded.messages).read(loaded.messages):
        for text in filter(None, map(_block_text, view.blocks)):
            lines += _indented(f"{view.role}: {text}", style)
    lines += [[], [Span("calls", "dim")]]
    for call in loaded.calls:
        lines += _indented(_call_text(call), style)
    if loaded.state:
        lines += [[], [Span("state", "dim")], *_indented(json.dumps(loaded.state, indent=2, default=str), style)]
    return lines


def _block_text(part: Any) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, AskedCall):
        return f"asks for {part.name} {json.dumps(part.arguments, ensure_ascii=False, default=str)}"
    if isinstance(part, Result):
        return f"result ({part.status}): {part.text}"
    if isinstance(part, Reason):
        sealed = "sealed by the provider" if part.opaque else "empty"
        return f"(reasoning) {part.text}" if part.text else f"(reasoning, {sealed})"
    return f"({type(part).__name__.lower()})"


def _call_text(call: Call) -> str:
    state = "in doubt" if call.in_doubt else {True: "ok", False: "failed", None: "open"}[call.success]
    result = call.result if isinstance(call.result, str) else json.dumps(call.result, ensure_ascii=False, default=str)
    arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
    seqs = f"@{call.intent_seq or call.asked_seq}" + (f" to @{call.result_seq}" if call.result_seq else "")
    return f"{call.id}  {call.name} {arguments}\n{state}, {call.effect or 'not started'}, {seqs}: {result}"


def _indented(text: str, style: Style) -> list[Line]:
    room = style.width - 2 if style.terminal else 1_000_000
    lines = [printable(line, style) for line in block(text, max_lines=_BLOCK_LINES)]
    return [["  ", cut(line, room, ellipsis=style.ellipsis)] for line in lines]


def _document(found: SessionView, *, verbose: bool) -> dict[str, Any]:
    document = session_document(found.info)
    if not verbose or found.loaded is None:
        return document
    more = {
        key: getattr(found.info, key) for key in ("directory", "command", "question", "said", "message_count", "turns")
    }
    more["choices"] = found.info.asking.choices if found.info.asking is not None else []
    calls = [call_document(call) for call in found.loaded.calls]
    parts = {
        "messages": found.loaded.messages,
        "calls": calls,
        "state": found.loaded.state,
        "partials": found.loaded.partials,
    }
    return {**document, **more, **parts, "files": msgspec.to_builtins(found.files)}


def show_checkpoint(cli: CliContext, rl: Relight, ref: str, *, as_json: bool) -> int:
    """Print the checkpoint and what returning to it would and would not undo."""
    plan, now = rl.runs.plan(ref), cli.now()
    seq = int(plan.checkpoint.rpartition("@")[2])
    found = next(one for one in rl.history.checkpoints(plan.session) if one.seq == seq)
    info = rl.sessions.get(plan.session)
    since = rl.history.effects_since(plan.session, seq)
    held = rl.files.status(ref, start=True) if plan.files is not None and plan.files.captured_at is not None else None
    if as_json:
        effects = [call_document(call) for call in since] if since is not None else None
        left_out = msgspec.to_builtins(held.left_out) if held is not None else None
        facts_of_it = {"can_resume": plan_document(plan), "effects_since": effects, "left_out": left_out}
        cli.console.document({**checkpoint_document(found), **facts_of_it})
        return 0
    behind = f"{count(info.head - seq, 'step')} behind head" if info.head > seq else "the head"
    label = f'  "{found.label}"' if found.label else ""
    ago = duration(seconds_between(found.created_at, now) or 0)
    title = f"{info.title}@{seq}{label}  {moment(found.created_at, now)}, {ago} ago"
    entries = [
        Fact("step", f"{found.kind}, {behind}"),
        Fact("conversation", count(plan.message_count, "message")),
        *checkpoint_facts(plan.files),
        left_out_fact(held),
        Fact("calls", calls_in_doubt(plan)),
        not_undone(since),
        can_resume_fact(plan),
    ]
    style = cli.console.out
    header: list[Line] = [[Span(cut(printable(title, style), style.width), "bold")]]
    cli.console.write(header + facts([one for one in entries if one.text], style))
    cli.console.next(("fork here", f"relight fork {ref}"), ("go back here", f"relight rewind {ref}"))
    return 0
