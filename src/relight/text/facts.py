"""Facts: a name, a text and a colour, as the command line and the pages show them. What a resume would do, as facts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

from relight.text import format as words
from relight.text.safe import one_line
from relight.values.call import PlannedCall
from relight.values.info import Differing, FilesState, ResumePlan

_LATER: Final = {"changed": "changed", "added": "added later", "deleted": "deleted since"}


class Fact(NamedTuple):
    """One line about something; without a name it belongs to the line before."""

    name: str
    text: str
    role: Literal["", "ok", "bad", "warn", "waiting", "ref", "dim", "bold"] = ""


def plan_facts(plan: ResumePlan, now: datetime) -> list[Fact]:
    """What a resume would do. The reasons against it are in `plan.reasons`."""
    told = f"the model will be told: {plan.told}" if plan.told else ""
    cold = plan.first_reply is not None and plan.first_reply.cold
    entries = [
        Fact("conversation", words.conversation(plan)),
        *hand_over_facts(plan),
        Fact("files", words.files_put(plan)) if words.files_put(plan) else files_met(plan.files),
        Fact("calls", calls_in_doubt(plan), "warn" if plan.in_doubt else ""),
        *call_facts(plan.calls),
        Fact("", told, "warn"),
        Fact("first reply", words.first_reply(plan, now), "warn" if cold else ""),
        Fact("environment", words.environment(plan)),
        Fact("command", words.started_with(plan)),
        Fact("orphans", words.ended_first(plan), "warn"),
        Fact("cannot", "; ".join(plan.agent.cannot) if plan.agent is not None else ""),
    ]
    return [one for one in entries if one.text]  # a fact without a text does not apply to this plan


def hand_over_facts(plan: ResumePlan) -> list[Fact]:
    """What another agent is given of the conversation: the loss report, one line each."""
    handed = plan.hand_over
    if handed is None:
        return []
    title = f"from {one_line(handed.source)} to {one_line(handed.target)}; not carried over:"
    lines = [Fact("", one_line(loss), "warn") for loss in handed.losses]
    wrong = [Fact("", f"a provider would refuse it: {one_line(fault)}", "warn") for fault in handed.faults]
    return [Fact("handed over", title), *lines, *wrong]


def calls_in_doubt(plan: ResumePlan) -> str:
    """The calls in doubt with their effects, in one line."""
    if not plan.in_doubt:
        return "none in doubt"
    return f"{len(plan.in_doubt)} in doubt: " + ", ".join(f"{one.name} ({one.effect})" for one in plan.in_doubt)


def call_facts(calls: Sequence[PlannedCall], title: str = "") -> list[Fact]:
    """Open calls that are not simply run, one line each."""
    return [Fact(title if number == 0 else "", line, "warn") for number, line in enumerate(words.planned_calls(calls))]


def files_met(state: FilesState | None) -> Fact:
    """What a resume meets: files as they were captured, or not; the text is empty without a workspace."""
    if state is None:
        return Fact("files", "")
    if state.captured_at is None:
        return Fact("files", "; ".join(filter(None, ("nothing captured", one_line(state.trouble or "")))), "warn")
    text = f"as of @{state.captured_at}{'; not on disk' if state.missing else ''}"
    if state.differ is not None:
        kinds = f"; {differences(state.differ, 'from disk')}; they stay as they are" if state.differ else ""
        text += kinds or "; nothing to restore"
    role: Literal["warn", ""] = "warn" if state.trouble or state.missing or state.differ else ""
    return Fact("files", f"{text}; {one_line(state.trouble)}" if state.trouble else text, role)


def differences(differ: Sequence[Differing], what: str) -> str:
    """How many files differ, and how."""
    kinds = [one.what for one in differ]
    parts = [f"{kinds.count(kind)} {word}" for kind, word in _LATER.items() if kind in kinds]
    return f"{len(kinds)} differ{'s' if len(kinds) == 1 else ''} {what}: {', '.join(parts)}"
