"""History as rows: the journal's events told so that a person can follow them. Pure.

Intent and result of a call are one row, where the call was asked for; attempts are rules across the page. `Teller` is
fed events in order and remembers what later ones need. It reads conversations through the neutral view, so every
provider looks the same here. A window of a long journal begins with some steps before it, so that a result in it finds
its call; their rows are not shown.
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
_TOLD_APART: Final = frozenset(
    {"rewound", "operation", "operation_end", "files_not_captured", "started", "taken_up", "resume"}
)
_OPERATIONS: Final = {"restore": "files restored", "rewind": "put back", "undo": "undone", "redo": "done again"}
_TEXT: Final = 240
_DETAIL_LINES: Final = 6
_PATH: Final = 80


class Row(msgspec.Struct, kw_only=True):
    """One line of history; `calls` are the tools under a turn."""

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
    """drawn across the page: an attempt begins"""
    problem: bool = False
    effect: str = ""
    label: str | None = None
    left: bool = False
    """a rewind or a compaction took it out of the model's view"""
    call: str = ""
    waits: bool = False
    """it waits for a person"""
    calls: list[Row] = []


class Teller:
    """Tells one session, event by event, in order."""

    def __init__(self, provider: str | None = None, load: Callable[[], Loaded] | None = None) -> None:
        """`load`: the session, asked where a call was begun before the first event that is told."""
        self._provider = provider
        self._asked = CallNames(call_line, load)
        self._open: dict[tuple[int, str], Row] = {}
        self._told: set[str] = set()
        self._rows: list[Row] = []
        self._last_at: datetime | None = None
        self._attempt = 0
        self._rule: Row | None = None

    def tell(self, events: Iterable[Event], *, density: Density = "turns") -> list[Row]:
        """All rows of these events. What is still open afterwards stands there as begun."""
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
        said = one_line(" ".join(block.text for block in view.blocks if isinstance(block, Text)))
        calls = [block for block in view.blocks if isinstance(block, Call)]
        results = [block for block in view.blocks if isinstance(block, Result)]
        if view.role == "assistant":
            seconds = (event.at - self._last_at).total_seconds() if self._last_at is not None else None
            if said or calls:
                text = f"“{shortened(said, _TEXT)}”" if said else f"asks for {', '.join(one.name for one in calls)}"
                self._rows.append(Row(seq=event.seq, at=event.at, word="model", text=text, seconds=seconds))
            for one in calls:
                self._asked.learn(one.id, one.name, one.arguments)
            return
        for result in results:
            self._result(event, result)
        images = sum(isinstance(block, Image) for block in view.blocks)
        if (said or images) and not results:
            word = view.role if view.role in ("user", "system") else "user"
            told = filter(
                None, (f"“{shortened(said, _TEXT)}”" if said else "", count(images, "image") if images else "")
            )
            self._rows.append(Row(seq=event.seq, at=event.at, word=word, text=", ".join(told)))

    def _result(self, event: Event, result: Result) -> None:
        """A result that the conversation tells, and nobody told before."""
        if result.call in self._told:
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
                self._told.add(outcome["id"])
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
                row.detail = ["taken back: it may run again"]

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
            text=shortened(asks or f"{change['status']}{reason}", 2 * _TEXT),
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
        texts += [f"{one_line(key)}: {short(value)}" for key, value in note.items() if value and key not in _TOLD_APART]
        if event.state and event.kind == "state":
            texts.append("state: " + ", ".join(map(one_line, event.state)))
        if texts:
            row = Row(seq=event.seq, at=event.at, word=word, text="; ".join(texts), label=event.label)
            self._rows.append(row)


def fold_turns(rows: Sequence[Row]) -> list[Row]:
    """Tools go under the reply that asked for them; everything else stays a row of its own."""
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
    """A step as the event that programs get: its kind and the parts it holds."""
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
    """What the rows themselves cannot know: what left the model's view, which open call is in doubt, later labels."""
    for row in rows:
        row.left = view is not None and row.seq not in view and row.word not in ("attempt", "rewind", "undo", "redo")
        row.label = labels.get(row.seq, row.label)
        marked(row.calls, view=view, doubtful=doubtful, labels=labels)
        if row.word == "tool" and row.mark == "…":
            row.mark, row.role, row.problem = ("!", "warn", True) if doubtful else ("…", "ref", False)
            row.detail = ["in doubt: it began, and is not known to have ended"] if doubtful else ["running"]
    return rows


def is_problem(row: Row) -> bool:
    """The row, or a tool under it."""
    return row.problem or any(one.problem for one in row.calls)


def filtered(rows: Sequence[Row], kind: Filter) -> list[Row]:
    """Those of one kind; rules stay, because they say where one is."""
    tests: dict[Filter, Callable[[Row], bool]] = {
        "all": lambda row: True,
        "problems": is_problem,
        "model": lambda row: row.word in ("model", "user"),
        "tools": lambda row: row.word == "tool" or bool(row.calls),
        "marks": lambda row: row.word not in ("model", "user", "tool"),
    }
    return [row for row in rows if row.rule or tests[kind](row)]


def call_line(name: str, arguments: Any) -> str:
    """The tool and what it is about: its first short text argument."""
    values = list(arguments.values()) if isinstance(arguments, dict) else [arguments]
    about = next((one for one in values if isinstance(one, str) and 0 < len(one) <= 4000), "")
    return f"{one_line(name)} {shortened(one_line(about), _PATH)}".strip()


def _lines(content: Any) -> list[str]:
    text = content if isinstance(content, str) else short(content, most=2000)
    lines = [line for line in text.splitlines() if line.strip()]
    kept = [shortened(line, _TEXT) for line in lines[:_DETAIL_LINES]]
    return [*kept, f"… {len(lines) - _DETAIL_LINES} more lines"] if len(lines) > _DETAIL_LINES else kept


def short(value: Any, *, most: int = _TEXT) -> str:
    """Any JSON value on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shortened(one_line(text[: 4 * most]), most)
