"""The resume plan as printed by `can-resume`, `resume --dry-run` and `resume`; calls and effects of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from relight.cli.render.console import wrapped
from relight.cli.render.file_facts import plan_fact
from relight.cli.render.style import Line, Span, Style
from relight.cli.render.table import Fact, facts
from relight.text.format import (
    conversation,
    duration,
    ended_first,
    environment,
    files_put,
    first_reply,
    moment,
    planned_calls,
    seconds_between,
    started_with,
)
from relight.text.safe import one_line
from relight.values.call import Call, PlannedCall
from relight.values.info import ResumePlan
from relight.values.status import headline


def lines_of(plan: ResumePlan, *, now: datetime, style: Style) -> list[Line]:
    """What a resume would do, and the reasons against it."""
    entries = [
        Fact("conversation", conversation(plan)),
        Fact("files", files_put(plan)) if files_put(plan) else plan_fact(plan.files),
        Fact("calls", calls_in_doubt(plan)),
        *call_facts(plan.calls),
        Fact("", f"the model will be told: {plan.told}" if plan.told else "", "warn"),
        Fact("first reply", first_reply(plan, now)),
        Fact("environment", environment(plan)),
        Fact("command", started_with(plan)),
        Fact("orphans", ended_first(plan), "warn"),
    ]
    # Facts without a text do not apply to this plan.
    entries = [one for one in entries if one.text]
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


def calls_in_doubt(plan: ResumePlan) -> str:
    """The calls in doubt with their effects, in one line."""
    if not plan.in_doubt:
        return "none in doubt"
    return f"{len(plan.in_doubt)} in doubt: " + ", ".join(f"{one.name} ({one.effect})" for one in plan.in_doubt)


def call_facts(calls: Sequence[PlannedCall], title: str = "") -> list[Fact]:
    """Open calls that are not simply run, one line each."""
    return [Fact(title if number == 0 else "", line, "warn") for number, line in enumerate(planned_calls(calls))]


def not_undone(effects: list[Call] | None) -> Fact:
    """Effects declared `once` that ran after a checkpoint, which a rewind does not undo; the text is empty if none."""
    if effects is None:
        return Fact("not undone", "unknown: a newer step is damaged", "warn")
    return Fact("not undone", ", ".join(f"{call.name} (once) at @{call.intent_seq}" for call in effects), "warn")
