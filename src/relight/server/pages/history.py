"""The rows of the history tab: a journal's narration (history/narration.py), folded, marked and filtered. Pure.

The intent and the outcome of a tool call are one row, at the intent; attempts are rules across the page. The events of
a window come with those around it, and with every other step of a call in it; the rows of those steps are not shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from relight.errors import Corrupt, NotFound
from relight.history.events import Event
from relight.history.narration import EARLIER, Narrator, Row
from relight.journal.lineage import visible
from relight.server.pages.session import answer_verb
from relight.server.pages.timeline.far_steps import Unpaired, read_around
from relight.server.pages.timeline.outline import checkpoint_rows, outline_of
from relight.text.safe import one_line
from relight.values.info import SessionInfo

if TYPE_CHECKING:
    from relight.library.facade import Relight


Density = Literal["turns", "steps", "events"]
DENSITIES: Final[tuple[Density, ...]] = ("turns", "steps", "events")
Filter = Literal["all", "problems", "model", "tools", "marks"]
FILTERS: Final[tuple[Filter, ...]] = ("all", "problems", "model", "tools", "marks")


def history_rows(
    events: Iterable[Event],
    provider: str | None = None,
    *,
    density: Density = "turns",
) -> list[Row]:
    """The rows of a session's events, in order. A call without outcome stays marked as open."""
    if density == "events":
        return [_as_event(event) for event in events]
    narrator, rows, rule = Narrator(provider), list[Row](), None
    for event in events:
        for row in narrator.rows(event):
            if row.begun is not None:
                row.begun.mark, row.begun.seconds, row.begun.detail = row.mark, row.seconds, row.detail
                row.begun.problem, row.begun.until = row.problem, row.seq
            elif row.word == "agent" and rule is not None:
                _complete_rule(rule, event)
            else:
                rule = row if row.rule else rule
                rows.append(row)
    return fold_turns(rows) if density == "turns" else rows


def _complete_rule(rule: Row, event: Event) -> None:
    """Add how the attempt was started, and whether it went on, to its rule."""
    rule.until = event.seq
    for key in ("started", "taken_up"):
        note = event.note.get(key)
        if isinstance(note, dict) and note.get("rung") and str(note["rung"]) not in rule.text:
            rule.text += f", {one_line(str(note['rung']))}"
    verdict = event.note.get("resume")
    if isinstance(verdict, dict) and verdict.get("verdict"):
        rule.text += f" · {one_line(str(verdict['verdict']))}"
        rule.mark = "✓" if verdict["verdict"] == "progressed" else "!"


def fold_turns(rows: Sequence[Row]) -> list[Row]:
    """Put each tool row under the reply that requested the call; other rows stay as they are.

    By the call's id: a hook may report a call before the transcript has the reply that requests it. A reply of several
    messages in one step (Claude Code writes text and call as two) is one row.
    """
    folded: list[Row] = []
    for row in rows:
        last = folded[-1] if folded else None
        if row.silent and last is not None and (last.word, last.seq) == ("model", row.seq):
            last.asks = last.asks | row.asks
        else:
            folded.append(row)
    asking: dict[str, list[Row]] = {}
    for row in folded:
        for call in row.asks:
            asking.setdefault(call, []).append(row)
    kept = []
    for row in folded:
        replies = asking.get(row.call, []) if row.word == "tool" else []
        if not replies:
            kept.append(row)
            continue
        # Providers use ids again: the last reply before the call, else the first one after it.
        reply = next((one for one in reversed(replies) if one.seq <= row.seq), replies[0])
        reply.calls = [*reply.calls, row]
    for row in folded:
        _complete_calls(row)
    return kept


def _complete_calls(reply: Row) -> None:
    """Put the calls of a reply in the order in which it requests them, with those that have not begun."""
    begun: dict[str, list[Row]] = {}
    for one in reply.calls:
        begun.setdefault(one.call, []).append(one)
    reply.calls = []
    for number, (call, line) in enumerate(reply.asks.items()):
        idle = Row(seq=reply.seq, at=reply.at, word="tool", text=f"{line} (not begun)", call=call, part=f"ask{number}")
        reply.calls += begun.get(call) or [idle]


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
    return Row(seq=event.seq, at=event.at, word=event.kind, text=text or "-", label=event.label, part="step")


def marked(rows: list[Row], *, view: frozenset[int] | None, doubtful: bool, labels: dict[int, str]) -> list[Row]:
    """Mark what single events do not show: rows outside the model's view, calls in doubt, labels given later."""
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


STEPS: Final = 200
ALL: Final = 5000
_POSITION: Final = re.compile(r"@?(\d{1,12})")


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The steps with after < seq <= upto."""

    after: int
    upto: int
    newest: int
    at: int | None = None
    """the step to show first"""
    whole: bool = False

    @property
    def earlier(self) -> int | None:
        """`upto` of the window before it; None at the beginning."""
        return self.after if self.after > 0 else None

    @property
    def later(self) -> int | None:
        """`after` of the window after it; None at the end."""
        return self.upto if self.upto < self.newest else None


class WindowRows(msgspec.Struct, kw_only=True):
    """The history rows of a window."""

    window: Window
    rows: list[Row]
    problems: int
    damage: str | None = None
    damaged_at: int | None = None
    hidden: int = 0
    """number of rows that the filter leaves out"""
    here: str = ""
    """id of the row that shows the step of the window's `at`"""


def position(text: str | None) -> int | None:
    """The seq in a query value, `@198` or `198`; None if it is not one."""
    found = _POSITION.fullmatch(text or "")
    return int(found[1]) if found else None


def window_of(newest: int, *, at: int | None, upto: int | None, after: int | None, whole: bool = False) -> Window:
    """The window that a query string asks for, else the newest steps."""
    if whole and newest <= ALL:
        return Window(after=0, upto=newest, newest=newest, at=at, whole=True)
    if after is not None:
        low = min(max(0, after), newest)
        return Window(after=low, upto=min(newest, low + STEPS), newest=newest, at=at)
    if upto is not None:
        high = min(max(0, upto), newest)
        return Window(after=max(0, high - STEPS), upto=high, newest=newest, at=at)
    if at is not None and at < newest - STEPS // 2:
        low = max(0, at - STEPS // 2)
        return Window(after=low, upto=min(newest, low + STEPS), newest=newest, at=at)
    return Window(after=max(0, newest - STEPS), upto=newest, newest=newest, at=at)


def events_of(rl: Relight, session: str, after: int, upto: int) -> list[Event]:
    """The events with after < seq <= upto. Corrupt if one of them is damaged."""
    return list(rl.history.events(session, after=after, upto=upto))


def window_rows(rl: Relight, info: SessionInfo, window: Window, *, density: Density, kind: Filter) -> WindowRows:
    """The rows of a window, up to the first damaged step, which is reported in the result.

    The row of a call that began before the window and ends in it is the first of them: no outcome has a
    row of its own, and no call is shown as open that ended after the window."""
    rows, damage = _narrated(rl, info, window, density)
    marked(rows, view=view_of(rl, info), doubtful=info.in_doubt > 0, labels=_labels(rl, info, window))
    for row in [one for one in rows if one.waits][-1:] if window.upto >= info.seq else ():
        row.answer = answer_verb(info)
    kept = filtered(rows, kind)
    return WindowRows(
        window=window,
        rows=kept,
        problems=sum(1 for row in kept if is_problem(row)),
        damage=damage.what if damage is not None else None,
        damaged_at=damage.seq if damage is not None else None,
        hidden=len(rows) - len(kept),
        here=row_at(kept, window.at) if window.at is not None else "",
    )


def _narrated(rl: Relight, info: SessionInfo, window: Window, density: Density) -> tuple[list[Row], Corrupt | None]:
    """The rows of a window, and the damage that ends them."""

    def read(events: Iterable[Event]) -> list[Row]:
        rows = history_rows(events, info.provider, density=density)
        return [row for row in rows if row.last > window.after and row.seq <= window.upto]

    unpaired = partial(_unpaired, folded=density == "turns")
    return read_around(rl, info, (window.after, window.upto), read, unpaired)


def _unpaired(rows: Sequence[Row], *, folded: bool) -> Unpaired:
    """The calls among these rows that are not whole, or whose request is not among them: whose other half may be before
    them, and whose after them."""
    alone = {row.call for row in rows if folded and row.word == "tool"}
    lone = {one.call for one in _each(rows) if one.part.startswith("outcome") or one.text == EARLIER}
    is_open = {one.call for one in _each(rows) if one.begins and one.mark == "…"}
    for row in rows:  # the result may be in a message too, but for a call that a hook reported
        ended = (one for one in row.calls if one.part.startswith("message") or (one.begins and not one.asked))
        is_open |= row.asks.keys() - {one.call for one in ended if one.mark != "…"} if folded else set()
    return alone | lone, alone | is_open


def _each(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows and the calls under them."""
    for row in rows:
        yield row
        yield from row.calls


def row_at(rows: Sequence[Row], seq: int) -> str:
    """The id of the row that shows a step: its own, that of the call which it ends, else the last one before it."""
    own = [one for one in _each(rows) if one.seq == seq] or [one for one in _each(rows) if one.until == seq]
    before = [row for row in rows if row.seq <= seq]
    return own[0].id if own else before[-1].id if before else ""


def view_of(rl: Relight, info: SessionInfo) -> frozenset[int] | None:
    """The seqs in the model's view; None: all."""
    try:
        outline = outline_of(rl, info)
    except (Corrupt, NotFound):
        return None
    if info.head == info.seq and not outline.turned:
        return None
    since = max((seq for seq in outline.resets if seq <= info.head), default=0)
    bases = {seq: outline.bases.get(seq, seq - 1) for seq in range(1, info.seq + 1)}
    return frozenset(visible(bases, head=info.head, since=since))


def _labels(rl: Relight, info: SessionInfo, window: Window) -> dict[int, str]:
    """The labels of a window's steps. They are given later, so that no outline knows them."""
    try:
        rows = checkpoint_rows(rl, info, after=window.after, upto=window.upto)
    except (Corrupt, NotFound):
        return {}
    return {row.seq: row.label for row in rows if row.label}


def opens_at(rl: Relight, info: SessionInfo) -> int | None:
    """The step to open a failed session at: the first problem of its last attempt; None: the end."""
    if info.status not in ("failed", "terminated") or info.seq == 0:
        return None
    begins = outline_of(rl, info).attempted
    after = max(begins - 1, info.seq - STEPS)
    try:
        events = events_of(rl, info.id, after, info.seq)
        rows = history_rows(events, info.provider, density="steps")
    except Corrupt:
        return None
    failing = [row.seq for row in rows if row.problem]
    return failing[0] if failing else None
