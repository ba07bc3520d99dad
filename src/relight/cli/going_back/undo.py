"""`relight undo`: undo the last rewind or restore; repeat it for the ones before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.going_back.restore import choice_options
from relight.cli.render.file_lines import outcome_text, plan_lines
from relight.cli.render.style import Line, Span
from relight.errors import UsageError
from relight.history.documents import restore_document
from relight.text.format import count
from relight.values.snapshot import Choice

if TYPE_CHECKING:
    from relight.journal.files.undo_log import Operation


@verb("undo", ("undo fix-login", "undo the last rewind or restore"), ("undo fix-login --list", "the log"))
@ref_argument()
@click.option("--list", "listed", is_flag=True, help="Print the undo log, oldest first.")
@click.option("--redo", is_flag=True, help="Redo the last undo.")
@choice_options
@json_flag
@pass_context
def undo(cli: CliContext, ref: str, listed: bool, redo: bool, choice: Choice | None, as_json: bool) -> int:
    """Undo the last rewind or restore. Repeat it for the one before."""
    console = cli.console
    if listed:
        if redo or choice:
            raise UsageError("--list cannot be combined with --redo or a choice")
        return _show_log(cli, ref, as_json=as_json)
    with cli.opened() as rl:
        report = (rl.history.redo if redo else rl.history.undo)(ref, choice=choice or "stop")
        info = rl.sessions.get(ref)
    step = report.checkpoint.id if report.checkpoint is not None else None
    if as_json:
        console.document(
            {"session": info.id, "step": step, "head": info.head, "plans": restore_document(report.plans)},
        )
        return 0
    if report.plans:
        console.write(plan_lines(report.plans, console.out))
    done = outcome_text(report.outcomes) if report.outcomes else "no file touched"
    console.say(Span("✓ ", "ok"), f"{'redone' if redo else 'undone'}: head is @{info.head}, {done}")
    then = ("undo", f"relight undo {info.title}") if redo else ("redo", f"relight undo {info.title} --redo")
    console.next(then)
    return 0


def _show_log(cli: CliContext, ref: str, *, as_json: bool) -> int:
    console = cli.console
    with cli.opened() as rl:
        log, name = rl.history.operations(ref), rl.sessions.get(ref).title
    if as_json:
        console.document([msgspec.to_builtins(one) for one in log])
    elif console.out.terminal:
        console.write(_line(one) for one in log)
    else:
        for one in log:
            console.row((one.id, one.verb, _what(one), "done" if one.done else "interrupted"))
    if not log:
        console.say(f"{name}: nothing was rewound or restored yet")
    return 0


def _line(one: Operation) -> Line:
    line: Line = [Span(f"@{one.id:<6}", "dim"), f"{one.verb:<8} {_what(one)}"]
    return line if one.done else [*line, Span("  interrupted", "warn")]


def _what(one: Operation) -> str:
    parts = [f"of @{one.of}"] if one.of is not None else []
    if one.heads is not None:
        parts.append(f"head @{one.heads[0]} -> @{one.heads[1]}")
    if one.files:
        parts.append("files" if len(one.files) == 1 else f"files of {count(len(one.files), 'root')}")
    return ", ".join(parts)
