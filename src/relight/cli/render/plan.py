"""The resume plan as printed by `can-resume`, `resume --dry-run` and `resume`; effects after a checkpoint."""

from __future__ import annotations

from datetime import datetime

from relight.cli.render.console import wrapped
from relight.cli.render.style import Line, Span, Style
from relight.cli.render.table import facts
from relight.text.facts import Fact, plan_facts
from relight.text.format import duration, moment, seconds_between
from relight.text.safe import one_line
from relight.values.call import Call
from relight.values.info import ResumePlan
from relight.values.status import headline


def lines_of(plan: ResumePlan, *, now: datetime, style: Style) -> list[Line]:
    """What a resume would do, and the reasons against it."""
    entries = plan_facts(plan, now)
    for reason in plan.reasons:
        mark = "✗" if reason.blocks else "!"
        cure = f" ({reason.cure})" if reason.cure else ""
        entries.append(Fact("", f"{mark} {one_line(reason.text)}{cure}", "bad" if reason.blocks else "warn"))
    return [*wrapped(_title(plan, now), style), *facts(entries, style)]


def _title(plan: ResumePlan, now: datetime) -> Line:
    seq = plan.checkpoint.rpartition("@")[2] if "@" in plan.checkpoint else "?"
    name = plan.name or plan.session[:8]
    if plan.stopped_at is None:
        return [Span(f"{name} @{seq}", "bold"), f"  {plan.status}"]
    ago = duration(seconds_between(plan.stopped_at, now) or 0)
    why = f": {one_line(headline(plan.why_stopped))}" if plan.why_stopped else ""
    return [Span(f"{name} @{seq}", "bold"), f"  {plan.status} {moment(plan.stopped_at, now)}, {ago} ago{why}"]


def not_undone(effects: list[Call] | None) -> Fact:
    """Effects declared `once` that ran after a checkpoint, which a rewind does not undo; the text is empty if none."""
    if effects is None:
        return Fact("not undone", "unknown: a newer step is damaged", "warn")
    return Fact("not undone", ", ".join(f"{call.name} (once) at @{call.intent_seq}" for call in effects), "warn")
