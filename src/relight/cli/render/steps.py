"""Steps as rows for people. Intent and outcome of a call are one row.

`Narrator` turns events into rows and remembers what later rows need (which tool a result belongs to, when it began).
It may begin in the middle: the tool that a result belongs to is then looked up in the session, once.
It reads conversations through the neutral view, so every provider looks the same here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from relight.cli.render.cells import cells, cut, pad
from relight.cli.render.console import printable
from relight.cli.render.style import Line, Role, Span, Style
from relight.history.events import Event
from relight.journal.effects.approvals import as_asked
from relight.journal.formats.registry import detect
from relight.text.call_names import CallNames
from relight.text.format import clock, duration, money
from relight.text.safe import one_line
from relight.values.status import headline
from relight.values.view import Call, Message, Reason, Result, Text

if TYPE_CHECKING:
    from relight.library.reading import Loaded

_OUTCOME_MARKS: Final = {"ok": "✓", "error": "✗", "unknown": "!", "void": "…"}
_ROLES: Final[dict[str, Role]] = {
    "✓": "ok",
    "✗": "bad",
    "!": "warn",
    "?": "waiting",
    "†": "warn",
    "…": "dim",
    "=": "warn",
}
_VERDICT_MARKS: Final = {"completed": "✓", "failed": "✗", "halted": "=", "terminated": "†", "waiting": "?"}
_MAX_CHARACTERS: Final = 400
_DETAIL_LINES: Final = 2
_WORD: Final = 7
_OPERATIONS: Final = {"restore": "files restored", "rewind": "files restored", "undo": "undone", "redo": "redone"}
_OWN_ROWS: Final = frozenset({"rewound", "operation", "operation_end", "files_not_captured"})
"""notes that are printed as a row of their own"""


class Row(NamedTuple):
    """One line of a session's history."""

    seq: int
    at: datetime
    word: str
    text: str
    mark: str = ""
    seconds: float | None = None
    cost: float | None = None
    detail: tuple[str, ...] = ()
    """lines below it: the output of a failed tool"""
    rule: bool = False
    """printed as a separator: a new attempt"""
    notable: bool = False
    """part of a summary"""


class Narrator:
    """Turns the events of one session, in order, into rows."""

    def __init__(self, provider: str | None = None, load: Callable[[], Loaded] | None = None) -> None:
        """`load`: loads the session, to name a call that began before the first event."""
        self._provider = provider
        # By (seq of the request, call id): providers reuse call ids, and after a rewind the same id is asked for again.
        self._begun: dict[tuple[int, str], tuple[str, datetime]] = {}
        self._names = CallNames(_call_line, load)
        self._failing: set[str] = set()
        self._reported: set[str] = set()
        """call ids whose result a hook reported; the transcript repeats it later"""
        self._last_at: datetime | None = None
        self._attempt = 0

    def rows(self, event: Event, *, folded: bool = True) -> list[Row]:
        """The rows of one event. `folded`: a call gets its row when it ends, not when it begins."""
        rows = self._attempts(event) + self._messages(event)
        rows += self._intents(event, folded) + self._outcomes(event) + self._status(event)
        rows += _operation(event) + _not_captured(event) + self._rest(event)
        self._last_at = event.at
        return rows

    def open_rows(self, seq: int, *, doubtful: bool) -> list[Row]:
        """Calls that have begun and not ended."""
        mark, text = ("!", "in doubt") if doubtful else ("…", "running")
        return [Row(seq, at, "tool", f"{name}: {text}", mark, notable=doubtful) for name, at in self._begun.values()]

    def _attempts(self, event: Event) -> list[Row]:
        started = event.started
        if started is None or started["number"] == self._attempt:
            return []
        # A supervisor and its program may both record the start of one attempt; only a new number is a row.
        self._attempt = started["number"]
        if self._attempt == 1:
            return [Row(event.seq, event.at, "start", f"attempt 1, {started.get('owner') or 'unknown owner'}")]
        why = started.get("reason")
        text = f"attempt {self._attempt}, resumed {clock(event.at)}{f' after {why}' if why else ''}"
        return [Row(event.seq, event.at, "resume", text, rule=True, notable=True)]

    def _messages(self, event: Event) -> list[Row]:
        if not event.messages:
            return []
        if event.kind == "reset":
            return [Row(event.seq, event.at, "reset", f"conversation replaced by {len(event.messages)} messages")]
        views = detect(event.messages, self._provider).read(event.messages)
        rows = [row for view in views if (row := self._message(event, view)) is not None]
        cost = (event.usage or {}).get("cost")
        if rows and cost is not None:
            rows[-1] = rows[-1]._replace(cost=cost)
        return rows

    def _message(self, event: Event, view: Message) -> Row | None:
        for block in view.blocks:
            if isinstance(block, Call):
                self._names.learn(block.id, block.name, block.arguments)
        said = " ".join(block.text for block in view.blocks if isinstance(block, Text))
        text = f'"{one_line(said)[:_MAX_CHARACTERS]}"' if said.strip() else ""
        if view.role == "assistant":
            calls = [block.name for block in view.blocks if isinstance(block, Call)]
            asks = f"asks for {', '.join(calls)}" if calls and not text else ""
            if not text and not asks and view.blocks and all(isinstance(block, Reason) for block in view.blocks):
                return None  # reasoning only: what follows has a row of its own
            seconds = (event.at - self._last_at).total_seconds() if self._last_at is not None else None
            return Row(event.seq, event.at, "model", text or asks or "(no text)", seconds=seconds)
        if view.role == "tool" or any(isinstance(block, Result) for block in view.blocks):
            return self._given_results(event, view)
        if view.role == "system" and not view.blocks:
            return None  # bookkeeping of a coding agent
        return Row(event.seq, event.at, view.role, text or "(no text)")

    def _given_results(self, event: Event, view: Message) -> Row | None:
        given = [block for block in view.blocks if isinstance(block, Result)]
        results = [one for one in given if one.call not in self._reported]
        if given and not results:
            return None  # a hook reported it before
        for one in results:
            self._begun.pop((0, one.call), None)
        names = ", ".join(self._names.of(one.call) for one in results)
        statuses = {one.status for one in results}
        mark = "✗" if "error" in statuses else "!" if "unknown" in statuses else "✓"
        return Row(event.seq, event.at, "tool", names, mark, notable=mark != "✓")

    def _intents(self, event: Event, folded: bool) -> list[Row]:
        rows = []
        for intent in event.intents:
            name = self._names.known(intent["id"]) or _call_line(intent["name"], intent.get("arguments"))
            name = name if intent["effect"] != "once" else f"{name} (once)"
            self._begun[intent.get("asked_seq", 0), intent["id"]] = (name, event.at)
            rows.append(Row(event.seq, event.at, "tool", name, "…"))
        return [] if folded else rows

    def _outcomes(self, event: Event) -> list[Row]:
        rows = []
        for outcome in event.outcomes:
            # asked_seq is 0 where a hook reported the call before the transcript had the request for it.
            if outcome["asked_seq"] == 0:
                self._reported.add(outcome["id"])
            key = (outcome["asked_seq"], outcome["id"])
            name, begun = self._begun.pop(key, None) or (self._names.of(outcome["id"]), None)
            mark = _OUTCOME_MARKS[outcome["status"]]
            seconds = (event.at - begun).total_seconds() if begun is not None and not outcome["synthetic"] else None
            detail = () if mark == "✓" else _detail(outcome["content"])
            text = f"{name}: may run again" if outcome["status"] == "void" else name
            rows.append(
                Row(
                    event.seq, event.at, "tool", text, mark, seconds, None, detail, notable=self._is_notable(name, mark)
                )
            )
        return rows

    def _is_notable(self, name: str, mark: str) -> bool:
        """A failure is notable, and the first success after it."""
        tool = name.split(" ", maxsplit=1)[0]
        notable = mark != "✓" or tool in self._failing
        (self._failing.discard if mark == "✓" else self._failing.add)(tool)
        return notable

    def _status(self, event: Event) -> list[Row]:
        change = event.status
        ended = event.note.get("operation_end")
        if isinstance(ended, dict) and ended.get("verb") in ("undo", "redo"):
            return []  # status as before the operation, which has a row of its own
        if change is None or event.started is not None or change["status"] in ("spawning", "working"):
            return []
        status, reason = change["status"], change["reason"]
        why = f": {headline(reason)}" if reason else ""
        text = f"asks: {as_asked(change['question'])}" if change["question"] else f"{status}{why}"
        return [Row(event.seq, event.at, "status", text, _VERDICT_MARKS.get(status, ""), notable=True)]

    def _rest(self, event: Event) -> list[Row]:
        """One row for everything else in a step; none where another row already covers it."""
        texts = []
        if event.kind == "rewind" and "operation_end" not in event.note:
            texts.append(f"back to @{event.base}")
        if event.label:
            texts.append(f'checkpoint "{event.label}"')
        if event.partial is not None:
            texts.append(f"partial result {_short(event.partial)}")
        if event.answer:
            texts.append(f"answered: {_short(event.answer[1])}")
        texts += [_noted(key, value) for key, value in event.note.items() if value and key not in _OWN_ROWS]
        if event.state and event.kind == "state":
            texts.append("state: " + ", ".join(event.state))
        if isinstance(event.record, dict):
            texts.append(_recorded(event.record))
        if not texts:
            return []
        word = "rewind" if event.kind == "rewind" else "mark"
        return [Row(event.seq, event.at, word, "; ".join(texts), notable=bool(event.label) or event.kind == "rewind")]


def _noted(key: str, value: Any) -> str:
    if key in ("started", "taken_up") and isinstance(value, dict):
        handle = f", in {value['handle']}" if value.get("handle") else ""
        return f"{key.replace('_', ' ')} ({_short(value.get('rung'))}), pid {value.get('pid')}{handle}"
    if key == "resume" and isinstance(value, dict):
        return f"resume {_short(value.get('verdict'))} ({_short(value.get('rung'))})"
    if key in ("turn", "native"):
        return f"{key} {'session ' if key == 'native' else ''}{_short(value)}"
    return f"{key}: {_short(value)}"


def _recorded(record: dict[str, Any]) -> str:
    """Summary of a framework's record: the channels it wrote."""
    writes = record.get("writes")
    if isinstance(writes, list):
        return "writes: " + ", ".join(_short(one[1]) for one in writes if isinstance(one, list) and len(one) > 1)
    named = [name for part in ("values", "lists", "maps") for name in record.get(part) or ()]
    return f"{_short(record.get('kind'))} {_short(record.get('id'))}: {', '.join(map(_short, named)) or 'nothing new'}"


def _operation(event: Event) -> list[Row]:
    """Rows of a restore, rewind, undo or redo: when it begins to change files, and when it is done."""
    begun, ended = event.note.get("operation"), event.note.get("operation_end")
    if isinstance(begun, dict):
        roots = ", ".join(map(str, begun.get("files") or ()))
        return [
            Row(
                event.seq,
                event.at,
                _short(begun.get("verb")),
                f"begins; safety snapshot of {roots}",
                "…",
            )
        ]
    if not isinstance(ended, dict):
        return []
    verb, of = _short(ended.get("verb")), ended.get("of")
    texts = [f"@{of} {_OPERATIONS.get(verb, verb)}" if of is not None else ""]
    if event.kind == "rewind":
        texts.append(f"back to @{event.base}")
    if ended.get("begun") is not None:
        texts.append("files too" if event.kind == "rewind" else _OPERATIONS["restore"])
    return [Row(event.seq, event.at, verb, ", ".join(filter(None, texts)), notable=True)]


def _not_captured(event: Event) -> list[Row]:
    why = event.note.get("files_not_captured")
    return [Row(event.seq, event.at, "files", f"not captured: {_short(why)}", "!", notable=True)] if why else []


def _call_line(name: str, arguments: Any) -> str:
    """Tool name and its first short text argument."""
    values = list(arguments.values()) if isinstance(arguments, dict) else [arguments]
    about = next((one for one in values if isinstance(one, str) and 0 < len(one) <= _MAX_CHARACTERS), "")
    return f"{name} {one_line(about)[:60]}".strip()


def _detail(content: Any) -> tuple[str, ...]:
    text = content if isinstance(content, str) else _short(content)
    lines = [line for line in text.splitlines() if line.strip()]
    return tuple(line[:_MAX_CHARACTERS] for line in lines[:_DETAIL_LINES])


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return one_line(text[:_MAX_CHARACTERS])


def lines_of(row: Row, style: Style, *, seq_width: int, seconds: bool = True) -> list[Line]:
    """A row on a terminal, with its details below it."""
    if row.rule:
        text = cut(printable(f"-- {row.text} --", style), style.width, ellipsis=style.ellipsis)
        return [[Span(text, "warn")]]
    moment = clock(row.at) if seconds else clock(row.at)[:5]
    left = f"{pad('@' + str(row.seq), seq_width)}  {moment}  {pad(row.word, _WORD)} "
    mark = printable(row.mark, style)
    right = "".join(
        (
            pad(mark, 2),
            pad(duration(row.seconds) if row.seconds is not None else "", 8, right=True),
            pad(money(row.cost) if row.cost is not None else "", 7, right=True),
        )
    )
    right = right.rstrip() if style.width >= 60 else mark
    room = style.width - len(left) - cells(right) - 1
    text = cut(printable(row.text, style), room, ellipsis=style.ellipsis)
    space = " " * (style.width - len(left) - cells(text) - cells(right)) if style.terminal else "  "
    role = _ROLES.get(row.mark, "")
    head: Line = [Span(left, "dim"), text, space if right else "", Span(right, role)]
    return [head, *_detail_lines(row, style, len(left))]


def _detail_lines(row: Row, style: Style, indent: int) -> list[Line]:
    indent = indent if style.width >= 60 else 4
    room = style.width - indent
    return [
        [" " * indent, Span(cut(printable(line, style), room, ellipsis=style.ellipsis), "dim")] for line in row.detail
    ]


def fields_of(row: Row) -> Sequence[Any]:
    """A row as fields for a program."""
    return (row.seq, row.at, row.word, row.text, row.mark, row.seconds, row.cost, " ".join(row.detail))
