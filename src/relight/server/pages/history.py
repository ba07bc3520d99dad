"""Rows of the history tab, built from a journal's events. Pure.

The intent and the outcome of a tool call are one row, at the intent; attempts are rules across the page. Conversations
are read through the neutral view, so all providers look the same. The events of a window begin some steps before it, so
that an outcome in it finds its call; the rows of those steps are not shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from relight.history.events import Event
from relight.journal.effects.approvals import as_asked
from relight.journal.formats.registry import detect
from relight.library.facade import Loaded
from relight.text.call_names import CallNames
from relight.text.format import count
from relight.text.safe import one_line, shortened
from relight.values.view import Call, Image, Message, Result, Text

Density = Literal["turns", "steps", "events"]
DENSITIES: Final[tuple[Density, ...]] = ("turns", "steps", "events")
Filter = Literal["all", "problems", "model", "tools", "marks"]
FILTERS: Final[tuple[Filter, ...]] = ("all", "problems", "model", "tools", "marks")

_MARKS: Final = {"ok": ("✓", "ok"), "error": ("✗", "bad"), "unknown": ("!", "warn"), "void": ("…", "dim")}
_VERDICTS: Final = {
    "completed": ("✓", "ok"),
    "failed": ("✗", "bad"),
    "halted": ("=", "warn"),
    "terminated": ("†", "warn"),
    "waiting": ("?", "waiting"),
    "queued": ("…", "dim"),
    "archived": ("-", "dim"),
}
_NOTES_SHOWN_ELSEWHERE: Final = frozenset(
    {"rewound", "operation", "operation_end", "files_not_captured", "started", "taken_up", "resume"}
)
_OPERATIONS: Final = {"restore": "files restored", "rewind": "rewound", "undo": "undone", "redo": "redone"}
_MAX_TEXT: Final = 240
_MAX_DETAIL_LINES: Final = 6
_MAX_ARGUMENT: Final = 80


class Row(msgspec.Struct, kw_only=True):
    """One row of the history; `calls` are the tool calls of a model's reply."""

    seq: int
    at: datetime
    word: str
    """model, user, tool, attempt, status, mark, ..."""
    text: str
    mark: str = ""
    role: str = ""
    seconds: float | None = None
    cost: float | None = None
    detail: list[str] = []
    rule: bool = False
    """drawn across the page, where an attempt begins"""
    problem: bool = False
    effect: str = ""
    label: str | None = None
    left: bool = False
    """no longer in the model's view, after a rewind or a compaction"""
    call: str = ""
    waits: bool = False
    """the session waits for a person here"""
    calls: list[Row] = []


class HistoryBuilder:
    """Builds the rows of one session from its events, in order."""

    def __init__(self, provider: str | None = None, load: Callable[[], Loaded] | None = None) -> None:
        """`load` reads the session, for the name of a call that began before the first event."""
        self._provider = provider
        self._asked = CallNames(call_line, load)
        self._open: dict[tuple[int, str], Row] = {}
        self._with_outcome: set[str] = set()
        """ids of calls whose outcome was recorded, so that a result message adds no second row"""
        self._rows: list[Row] = []
        self._last_at: datetime | None = None
        self._attempt = 0
        self._rule: Row | None = None

    def build(self, events: Iterable[Event], *, density: Density = "turns") -> list[Row]:
        """The rows of these events. A call without outcome stays marked as open."""
        for event in events:
            if density == "events":
                self._rows.append(_as_event(event))
                continue
            self._attempts(event)
            self._messages(event)
            self._intents(event)
            self._outcomes(event)
            self._status(event)
            self._notes(event)
            self._last_at = event.at
        return fold_turns(self._rows) if density == "turns" else self._rows

    def _attempts(self, event: Event) -> None:
        started = event.started
        if started is not None and started["number"] != self._attempt:
            self._attempt = started["number"]
            why = started.get("reason")
            came = f"resumed from @{started.get('resumed_from') or 0}" if self._attempt > 1 else "began"
            text = ", ".join(filter(None, (f"attempt {self._attempt}", came, started.get("rung"))))
            text += f" after {one_line(str(why))}" if why else ""
            self._rule = Row(seq=event.seq, at=event.at, word="attempt", text=text, rule=True)
            self._rows.append(self._rule)
        if self._rule is None:
            return
        for key in ("started", "taken_up"):
            note = event.note.get(key)
            if isinstance(note, dict) and note.get("rung") and str(note["rung"]) not in self._rule.text:
                self._rule.text += f", {one_line(str(note['rung']))}"
        verdict = event.note.get("resume")
        if isinstance(verdict, dict) and verdict.get("verdict"):
            self._rule.text += f" · {one_line(str(verdict['verdict']))}"
            self._rule.role = "ok" if verdict["verdict"] == "progressed" else "warn"

    def _messages(self, event: Event) -> None:
        if event.kind == "reset" and event.messages:
            text = f"the conversation was replaced by {len(event.messages)} messages"
            self._rows.append(Row(seq=event.seq, at=event.at, word="reset", text=text, mark="…", role="dim"))
            return
        if not event.messages:
            return
        before = len(self._rows)
        for view in detect(event.messages, self._provider).read(event.messages):
            self._message(event, view)
        cost = (event.usage or {}).get("cost")
        if cost is not None and len(self._rows) > before:
            self._rows[before].cost = cost

    def _message(self, event: Event, view: Message) -> None:
        text = one_line(" ".join(block.text for block in view.blocks if isinstance(block, Text)))
        calls = [block for block in view.blocks if isinstance(block, Call)]
        results = [block for block in view.blocks if isinstance(block, Result)]
        if view.role == "assistant":
            seconds = (event.at - self._last_at).total_seconds() if self._last_at is not None else None
            if text or calls:
                line = f"“{shortened(text, _MAX_TEXT)}”" if text else f"calls {', '.join(one.name for one in calls)}"
                self._rows.append(Row(seq=event.seq, at=event.at, word="model", text=line, seconds=seconds))
            for one in calls:
                self._asked.learn(one.id, one.name, one.arguments)
            return
        for result in results:
            self._result(event, result)
        images = sum(isinstance(block, Image) for block in view.blocks)
        if (text or images) and not results:
            word = view.role if view.role in ("user", "system") else "user"
            parts = [f"“{shortened(text, _MAX_TEXT)}”"] if text else []
            parts += [count(images, "image")] if images else []
            self._rows.append(Row(seq=event.seq, at=event.at, word=word, text=", ".join(parts)))

    def _result(self, event: Event, result: Result) -> None:
        """A result in a message, unless the call has a recorded outcome."""
        if result.call in self._with_outcome:
            return
        mark, role = _MARKS.get(result.status, ("✓", "ok"))
        row = self._open.pop((0, result.call), None)
        if row is None:
            line = self._asked.of(result.call)
            row = Row(seq=event.seq, at=event.at, word="tool", text=line, call=result.call)
            self._rows.append(row)
        else:
            row.seconds = (event.at - row.at).total_seconds()
        row.mark, row.role, row.problem = mark, role, mark != "✓"
        row.detail = _lines(result.text) if mark != "✓" else []

    def _intents(self, event: Event) -> None:
        for intent in event.intents:
            line = self._asked.known(intent["id"]) or call_line(intent["name"], intent.get("arguments"))
            row = Row(
                seq=event.seq,
                at=event.at,
                word="tool",
                text=line,
                mark="…",
                role="dim",
                effect=str(intent.get("effect") or ""),
                call=intent["id"],
            )
            self._open[intent.get("asked_seq", 0), intent["id"]] = row
            self._rows.append(row)

    def _outcomes(self, event: Event) -> None:
        for outcome in event.outcomes:
            if outcome["asked_seq"] == 0:
                self._with_outcome.add(outcome["id"])
            row = self._open.pop((outcome["asked_seq"], outcome["id"]), None)
            if row is None:
                line = self._asked.of(outcome["id"])
                row = Row(seq=event.seq, at=event.at, word="tool", text=line, call=outcome["id"])
                self._rows.append(row)
            elif not outcome["synthetic"]:
                row.seconds = (event.at - row.at).total_seconds()
            row.mark, row.role = _MARKS[outcome["status"]]
            row.problem = outcome["status"] in ("error", "unknown")
            row.detail = _lines(outcome["content"]) if row.problem else []
            if outcome["status"] == "void":
                row.detail = ["voided: it may run again"]

    def _status(self, event: Event) -> None:
        change = event.status
        if change is None or event.started is not None or change["status"] in ("spawning", "working"):
            return
        mark, role = _VERDICTS.get(change["status"], ("", ""))
        reason = f": {one_line(change['reason'])}" if change["reason"] else ""
        asks = f"asks: {one_line(as_asked(change['question']))}" if change["question"] else ""
        failure = change["failure"] or {}
        detail = _lines(failure.get("text")) if failure.get("text") else []
        row = Row(
            seq=event.seq,
            at=event.at,
            word="status",
            text=shortened(asks or f"{change['status']}{reason}", 2 * _MAX_TEXT),
            mark=mark,
            role=role,
            detail=detail,
            problem=change["status"] in ("failed", "terminated", "halted", "waiting"),
            waits=change["status"] == "waiting",
        )
        self._rows.append(row)

    def _notes(self, event: Event) -> None:
        note, texts, word = event.note, list[str](), "mark"
        if isinstance(ended := note.get("operation_end"), dict):
            word = str(ended.get("verb"))
            of = ended.get("of")
            texts.append(f"@{of} {_OPERATIONS.get(word, word)}" if of is not None else _OPERATIONS.get(word, word))
        if event.kind == "rewind":
            word = "rewind" if word == "mark" else word
            texts.append(f"back to @{event.base}")
        if event.label:
            texts.append(f"checkpoint “{one_line(event.label)}”")
        if event.partial is not None:
            texts.append(f"partial result {short(event.partial)}")
        if event.answer:
            texts.append(f"answered: {short(event.answer[-1])}")
        if why := note.get("files_not_captured"):
            row = Row(seq=event.seq, at=event.at, word="files", text=f"not captured: {short(why)}", mark="!")
            row.role, row.problem = "warn", True
            self._rows.append(row)
        rest = {key: value for key, value in note.items() if value and key not in _NOTES_SHOWN_ELSEWHERE}
        texts += [f"{one_line(key)}: {short(value)}" for key, value in rest.items()]
        if event.state and event.kind == "state":
            texts.append("state: " + ", ".join(map(one_line, event.state)))
        if texts:
            row = Row(seq=event.seq, at=event.at, word=word, text="; ".join(texts), label=event.label)
            self._rows.append(row)


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
        row.left = view is not None and row.seq not in view and row.word not in ("attempt", "rewind", "undo", "redo")
        row.label = labels.get(row.seq, row.label)
        marked(row.calls, view=view, doubtful=doubtful, labels=labels)
        if row.word == "tool" and row.mark == "…":
            row.mark, row.role, row.problem = ("!", "warn", True) if doubtful else ("…", "ref", False)
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


def call_line(name: str, arguments: Any) -> str:
    """The tool's name and its first short text argument."""
    values = list(arguments.values()) if isinstance(arguments, dict) else [arguments]
    about = next((one for one in values if isinstance(one, str) and 0 < len(one) <= 4000), "")
    return f"{one_line(name)} {shortened(one_line(about), _MAX_ARGUMENT)}".strip()


def _lines(content: Any) -> list[str]:
    text = content if isinstance(content, str) else short(content, width=2000)
    lines = [line for line in text.splitlines() if line.strip()]
    kept = [shortened(line, _MAX_TEXT) for line in lines[:_MAX_DETAIL_LINES]]
    return [*kept, f"… {len(lines) - _MAX_DETAIL_LINES} more lines"] if len(lines) > _MAX_DETAIL_LINES else kept


def short(value: Any, *, width: int = _MAX_TEXT) -> str:
    """Any JSON value on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shortened(one_line(text[: 4 * width]), width)
