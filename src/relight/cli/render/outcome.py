"""Outcomes as printed: of a committed change, of a start, and of a run that ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relight.cli.app.context import CliContext
from relight.cli.render.console import Console
from relight.cli.render.file_facts import changed_fact
from relight.cli.render.style import Span
from relight.cli.render.table import facts
from relight.history.documents import checkpoint_document
from relight.journal.effects.approvals import as_asked, cure_of
from relight.journal.limits import is_limit, more_for
from relight.text.facts import Fact
from relight.text.format import GLYPHS, count, display_path, duration, moment, money, tokens
from relight.text.safe import one_line
from relight.values.checkpoint import Checkpoint
from relight.values.info import FilesState, SessionInfo
from relight.values.outcome import StartOutcome
from relight.values.status import headline

if TYPE_CHECKING:
    from relight.supervision.program import Ended


def print_checkpoint(
    cli: CliContext, made: Checkpoint, name: str, done: str, then: tuple[str, str] | None = None, *, as_json: bool
) -> int:
    """Print as JSON, as a record for a pipe, or as a sentence."""
    console = cli.console
    if as_json:
        console.document(checkpoint_document(made))
    elif console.out.terminal:
        console.write([[Span("✓ ", "ok"), Span(name, "bold"), f"  {done}  (@{made.seq})"]])
    else:
        console.row((made.id, done))
    if then is not None:
        console.next(then)
    return 0


def next_command(info: SessionInfo) -> str:
    """The command that continues an answered session: a resume if relight can start it, else its own program."""
    return f"relight resume {info.title}" if info.command else "run your program again"


def print_restored_files(cli: CliContext, outcome: StartOutcome) -> None:
    """Say where files were restored, if any were."""
    if outcome.put_back is not None:
        where = ", ".join(display_path(path) for path in outcome.workspace.values())
        cli.console.say(Span("✓", "ok"), f" workspace restored as of @{outcome.put_back}: {where}")


def print_waiting_start(cli: CliContext, outcome: StartOutcome) -> None:
    """Say until when the session waits, if it does not run yet."""
    if outcome.wake_at is not None:
        title = outcome.name or outcome.session[:8]
        why = f" ({one_line(outcome.reason)})" if outcome.reason else ""
        cli.console.say(
            Span("! ", "warn"), Span(title, "bold"), f" queued until {moment(outcome.wake_at, cli.now())}{why}"
        )


def print_end(console: Console, ended: Ended, *, seconds: float) -> None:
    """Print status, facts and remedy of a run that ended."""
    info = ended.session
    glyph, role = GLYPHS[info.status]
    survived = ""
    if ended.restarts:
        survived = f", {count(ended.restarts, 'restart')} survived ({duration(ended.lost_seconds)} lost)"
    length = f"{duration(seconds)}, {count(info.seq, 'step')}{survived}"
    why = f"  {one_line(headline(info.reason))}" if info.reason and info.status != "completed" else ""
    console.say(Span(f"{glyph} ", role), Span(info.title, "bold"), f" {info.status}{why}  {length}")
    console.lines(facts(_facts(info, ended.files), console.err))
    _cure(console, info)


def _facts(info: SessionInfo, files: FilesState | None) -> list[Fact]:
    entries = []
    if info.status not in ("completed", "archived"):
        entries.append(Fact("saved", f"up to @{info.head}; nothing is lost"))
    if info.in_doubt:
        entries.append(Fact("calls", f"{info.in_doubt} in doubt: see relight can-resume {info.title}", "warn"))
    if files is not None and files.changed:
        entries.append(changed_fact(files))
    usage = info.usage
    total = usage.tokens
    if info.cost is not None or total:
        entries.append(Fact("cost", ", ".join(filter(None, (money(info.cost), f"{tokens(total)} tokens")))))
    if info.said:
        entries.append(Fact("said", f'"{one_line(info.said)}"'))
    if info.question:
        entries.append(Fact("asks", one_line(as_asked(info.question)), "waiting"))
    failed = info.failure is not None and not is_limit(info.failure)
    for line in (info.failure.text if failed and info.failure is not None else "").splitlines()[-5:]:
        entries.append(Fact("stderr" if not any(one.name == "stderr" for one in entries) else "", one_line(line)))
    return entries


def _more(info: SessionInfo) -> str:
    """What one does about a halt: allow more, or look at the session."""
    more = more_for(info.failure, info.title, has_command=info.command is not None)
    return f"allow more: {more}" if more is not None else f"relight show {info.title}"


def _cure(console: Console, info: SessionInfo) -> None:
    if not console.hints:
        return
    cures = {
        "failed": f"relight resume {info.title}",
        "terminated": f"relight resume {info.title}",
        "halted": _more(info),
        "waiting": f"{cure_of(info.question, info.asking, info.title)}, then: relight resume {info.title}",
    }
    if info.status in cures:
        console.lines([[]])
        console.say(Span("hint:", "ref"), f" {cures[info.status]}")
