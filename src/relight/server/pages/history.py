"""The rows of the history tab: a journal's narration (history/narration.py), folded, marked and filtered. Pure.

The intent and the outcome of a tool call are one row, at the intent; attempts are rules across the page. The events of
a window begin some steps before it, so that an outcome in it finds its call; the rows of those steps are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

from relight.history.events import Event
from relight.history.narration import Narrator, Row
from relight.text.safe import one_line

Density = Literal["turns", "steps", "events"]
DENSITIES: Final[tuple[Density, ...]] = ("turns", "steps", "events")
Filter = Literal["all", "problems", "model", "tools", "marks"]
FILTERS: Final[tuple[Filter, ...]] = ("all", "problems", "model", "tools", "marks")


def history_rows(
    events: Iterable[Event],
    provider: str | None = None,
    load: Callable[[], Any] | None = None,
    *,
    density: Density = "turns",
) -> list[Row]:
    """The rows of a session's events, in order. A call without outcome stays marked as open."""
    if density == "events":
        return [_as_event(event) for event in events]
    narrator, rows, rule = Narrator(provider, load), list[Row](), None
    for event in events:
        for row in narrator.rows(event):
            if row.begun is not None:
                row.begun.mark, row.begun.seconds, row.begun.detail = row.mark, row.seconds, row.detail
                row.begun.problem = row.problem
            elif row.word == "agent" and rule is not None:
                _complete_rule(rule, event)
            else:
                rule = row if row.rule else rule
                rows.append(row)
    return fold_turns(rows) if density == "turns" else rows


def _complete_rule(rule: Row, event: Event) -> None:
    """Add how the attempt was started, and whether it went on, to its rule."""
    for key in ("started", "taken_up"):
        note = event.note.get(key)
        if isinstance(note, dict) and note.get("rung") and str(note["rung"]) not in rule.text:
            rule.text += f", {one_line(str(note['rung']))}"
    verdict = event.note.get("resume")
    if isinstance(verdict, dict) and verdict.get("verdict"):
        rule.text += f" · {one_line(str(verdict['verdict']))}"
        rule.mark = "✓" if verdict["verdict"] == "progressed" else "!"


def fold_turns(rows: Sequence[Row]) -> list[Row]:
    """Move the tool rows under the reply that requested them; other rows stay as they are."""
    folded: list[Row] = []
    turn: Row | None = None
    for row in rows:
        if row.word == "model":
            turn = row
            folded.append(row)
        elif row.word == "tool" and turn is not None:
            turn.calls = [*turn.calls, row]
        else:
            turn = None if row.rule or row.word in ("user", "reset", "rewind") else turn
            folded.append(row)
    return folded


def _as_event(event: Event) -> Row:
    """A step as one row: its kind and the parts it has."""
    parts = {
        "messages": len(event.messages),
        "intents": len(event.intents),
        "outcomes": len(event.outcomes),
        "state": ", ".join(event.state),
        "status": (event.status or {}).get("status"),
        "attempt": (event.started or {}).get("number"),
        "note": ", ".join(event.note),
        "usage": "yes" if event.usage else "",
        "label": event.label,
    }
    text = " · ".join(f"{name} {one_line(str(value))}" for name, value in parts.items() if value)
    return Row(seq=event.seq, at=event.at, word=event.kind, text=text or "-", label=event.label)


def marked(rows: list[Row], *, view: frozenset[int] | None, doubtful: bool, labels: dict[int, str]) -> list[Row]:
    """Mark what single events cannot tell: rows outside the model's view, calls in doubt, labels given later."""
    for row in rows:
        stays = row.rule or row.word in ("rewind", "undo", "redo")
        row.left = view is not None and row.seq not in view and not stays
        row.label = labels.get(row.seq, row.label)
        marked(row.calls, view=view, doubtful=doubtful, labels=labels)
        if row.word == "tool" and row.mark == "…":
            row.mark, row.problem = ("!", True) if doubtful else ("…", False)
            row.detail = ["in doubt: it began, and is not known to have ended"] if doubtful else ["running"]
    return rows


def is_problem(row: Row) -> bool:
    """Whether the row, or a tool call under it, is a problem."""
    return row.problem or any(one.problem for one in row.calls)


def filtered(rows: Sequence[Row], kind: Filter) -> list[Row]:
    """The rows of one kind; the rules of attempts always stay."""
    tests: dict[Filter, Callable[[Row], bool]] = {
        "all": lambda row: True,
        "problems": is_problem,
        "model": lambda row: row.word in ("model", "user"),
        "tools": lambda row: row.word == "tool" or bool(row.calls),
        "marks": lambda row: row.word not in ("model", "user", "tool"),
    }
    return [row for row in rows if row.rule or tests[kind](row)]
