"""`relight verify`: read everything and check every digest; changes nothing."""

from __future__ import annotations

import msgspec

from relight.cli.app.context import CliContext, pass_context
from relight.cli.app.verb import json_flag, ref_argument, verb
from relight.cli.render.style import Line, Span
from relight.cli.render.table import facts
from relight.errors import Corrupt
from relight.history.verify import Problem, Report
from relight.text.facts import Fact
from relight.text.format import count
from relight.text.safe import one_line


@verb("verify", ("verify", "the whole store"), ("verify fix-login --json", "one session, for a program"))
@ref_argument(required=False)
@json_flag
@pass_context
def verify(cli: CliContext, ref: str | None, as_json: bool) -> int:
    """Check one session, or all of them and the store itself. The exit code is 5 if something is damaged."""
    console = cli.console
    with cli.opened() as rl:
        report = rl.history.verify(ref)
    if as_json:
        console.document({"ok": report.ok, **msgspec.to_builtins(report)})
    elif console.out.terminal:
        console.write(_lines(report, cli))
    else:
        for one in report.problems:
            console.row((one.session, one.seq, one.what, "abandoned" if one.abandoned else "needed", one.offered))
        console.say(_summary(report))
    if not report.ok:
        # Steps that a rewind left behind may be damaged without harm; the hint is about the first that is needed.
        first = next(one for one in report.problems if not one.abandoned)
        if first.session and first.offered:
            console.next(("continue before it", f"relight resume {first.session} --from-last-good"))
    return 0 if report.ok else Corrupt.exit_code


def _lines(report: Report, cli: CliContext) -> list[Line]:
    lines: list[Line] = [[Span("✓ " if report.ok else "✗ ", "ok" if report.ok else "bad"), _summary(report)]]
    return lines + facts([_fact(one) for one in report.problems], cli.console.out)


def _summary(report: Report) -> str:
    broken = count(len(report.problems), "problem") if report.problems else "no damage"
    return f"{count(report.sessions, 'session')}, {count(report.steps, 'step')} read: {broken}"


def _fact(problem: Problem) -> Fact:
    where = (problem.session or "the store") + (f"@{problem.seq}" if problem.seq is not None else "")
    offered = f"; intact: {problem.offered}" if problem.offered else ""
    left = " (left behind by a rewind; not needed)" if problem.abandoned else ""
    return Fact(where, f"{one_line(problem.what)}{left}{offered}", "warn" if problem.abandoned else "bad")
