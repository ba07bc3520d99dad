"""A journal narrated: its events as rows of values, which `relight tail`, `show`, the history page and the demo render.

Pure. Conversations are read through the neutral view, so every provider looks the same. A narrator may begin in the
middle of a journal: the tool that a result belongs to is then looked up in the session, once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from relight.errors import RelightError
from relight.history.events import Event
from relight.journal.conversation.dialogue import SLEEP
from relight.journal.effects.approvals import as_asked
from relight.journal.formats.registry import detect
from relight.text.format import count
from relight.text.safe import one_line, shortened
from relight.values.status import headline
from relight.values.view import Call, Image, Message, Reason, Result, Text

Role = Literal["", "ok", "bad", "warn", "waiting", "dim"]

EARLIER: Final = "an earlier call"
"""name of a call that is in no conversation any more"""
ROLES: Final[dict[str, Role]] = {
    "✓": "ok",
    "✗": "bad",
    "!": "warn",
    "?": "waiting",
    "†": "warn",
    "=": "warn",
    "…": "dim",
    "-": "dim",
}
_OUTCOME_MARKS: Final = {"ok": "✓", "error": "✗", "unknown": "!", "void": "…"}
_STATUS_MARKS: Final = {
    "completed": "✓",
    "failed": "✗",
    "halted": "=",
    "terminated": "†",
    "waiting": "?",
    "queued": "…",
    "archived": "-",
}
_PROBLEMS: Final = frozenset({"failed", "terminated", "halted", "waiting"})
_OPERATIONS: Final = {"restore": "files restored", "rewind": "files restored", "undo": "undone", "redo": "redone"}
_OWN_ROWS: Final = frozenset(
    {"rewound", "operation", "operation_end", "files_not_captured", "started", "taken_up", "resume"}
)
"""notes that have a row of their own"""
_MAX_TEXT: Final = 400
_MAX_ARGUMENT: Final = 80
_MAX_LINES: Final = 6


class Row(msgspec.Struct, kw_only=True):
    """One row of a session's history."""

    seq: int
    at: datetime
    word: str
    """start, resume, model, user, tool, status, mark, ..."""
    text: str
    mark: str = ""
    seconds: float | None = None
    cost: float | None = None
    detail: list[str] = []
    """lines below it: the output of a failed tool"""
    rule: bool = False
    """drawn as a separator, where an attempt begins"""
    problem: bool = False
    notable: bool = False
    """part of a summary"""
    effect: str = ""
    call: str = ""
    label: str | None = None
    waits: bool = False
    """the session waits for a person here"""
    answer: str = ""
    """the dialog of a page that answers it, while it waits"""
    begins: bool = False
    """a call that begins; its end is another row"""
    begun: Row | None = None
    """the row of the beginning, on the row of the end"""
    left: bool = False
    """no longer in the model's view, after a rewind or a compaction"""
    calls: list[Row] = []
    """the tool calls of a reply, where rows are folded into turns"""
    asks: dict[str, str] = {}
    """the calls that this message requests: id and display name"""
    silent: bool = False
    """a message without text of its own, that only requests calls"""
    asked: int = 0
    """the step that requested the call; 0: not known"""
    until: int = 0
    """the last step that changed the row, if it is not its own"""
    part: str = ""
    """which part of its step it is; with the seq it names the row, wherever the narration began"""

    @property
    def id(self) -> str:
        """Unique among the rows of a session, and the same in every window of its journal."""
        return f"s{self.seq}-{self.part}"

    @property
    def last(self) -> int:
        """The last step that is shown in the row, or in one of its calls."""
        return max(self.seq, self.until, *(one.last for one in self.calls))

    @property
    def role(self) -> Role:
        """The colour of its mark."""
        return ROLES.get(self.mark, "")

    @property
    def line(self) -> str:
        """The text, with the effect of a call that must not be repeated."""
        return f"{self.text} (once)" if self.effect == "once" else self.text


class CallNames:
    """Maps call ids to display names: the tool and its argument, never a bare call id."""

    def __init__(self, line_of: Callable[[str, Any], str], load: Callable[[], Any] | None = None) -> None:
        """`line_of`: display name for a tool and its arguments. `load`: loads the session; called at most once."""
        self._line_of, self._load = line_of, load
        self._lines: dict[str, str] = {}

    def learn(self, call: str, name: str, arguments: Any) -> str:
        """Record a call; returns its display name."""
        line = self._lines[call] = self._line_of(name, arguments)
        return line

    def known(self, call: str) -> str | None:
        """The name of a call that was recorded before, else None."""
        return self._lines.get(call)

    def of(self, call: str) -> str:
        """The name of a call, looked up in the session if it was not recorded."""
        if call not in self._lines and self._load is not None:
            load, self._load = self._load, None
            try:
                earlier = {one.id: self._line_of(one.name, one.arguments) for one in load().calls}
            except RelightError:  # damaged, or removed meanwhile: reported elsewhere
                earlier = {}
            self._lines = earlier | self._lines
        return self._lines.get(call, EARLIER)


class Narrator:
    """Turns the events of one session, in order, into rows."""

    def __init__(self, provider: str | None = None, load: Callable[[], Any] | None = None) -> None:
        """`load`: loads the session, to name a call that began before the first event."""
        self._provider = provider
        self._names = CallNames(call_line, load)
        # By (seq of the request, call id): providers reuse call ids, and after a rewind the same id is asked for again.
        self._open: dict[tuple[int, str], Row] = {}
        self._reported: set[str] = set()
        """call ids whose result a hook reported; the transcript repeats it later"""
        self._failing: set[str] = set()
        self._last_at: datetime | None = None
        self._last = 0
        self._attempt = 0

    def rows(self, event: Event) -> list[Row]:
        """The rows of one event. A call has one where it begins and one where it ends."""
        if event.seq != self._last + 1:
            self._last_at = None  # when the step before it was made is not known
        self._last = event.seq
        parts = {
            "attempt": self._attempts(event),
            "message": self._messages(event),
            "call": self._intents(event),
            "outcome": self._outcomes(event),
            "status": _status(event),
            "operation": _operation(event),
            "rest": _rest(event),
        }
        for name, rows in parts.items():
            for number, row in enumerate(rows):
                row.part = row.part or f"{name}{number}"
        self._last_at = event.at
        return [row for rows in parts.values() for row in rows]

    def open(self) -> list[Row]:
        """The rows of calls that have begun and not ended."""
        return list(self._open.values())

    def _attempts(self, event: Event) -> list[Row]:
        started = event.started
        if started is None or started["number"] == self._attempt:
            return []
        # A supervisor and its program may both record the start of one attempt; only a new number is a row.
        self._attempt = started["number"]
        first = self._attempt == 1
        came = started.get("owner") or "began" if first else f"resumed from @{started.get('resumed_from') or 0}"
        text = ", ".join(filter(None, (f"attempt {self._attempt}", came, started.get("rung"))))
        text += f" after {one_line(str(started['reason']))}" if started.get("reason") else ""
        return [_row(event, "start" if first else "resume", text, rule=True, notable=not first)]

    def _messages(self, event: Event) -> list[Row]:
        if not event.messages:
            return []
        if event.kind == "reset":
            return [_row(event, "reset", f"conversation replaced by {len(event.messages)} messages", mark="…")]
        views = detect(event.messages, self._provider).read(event.messages)
        rows = []
        for number, view in enumerate(views):
            # By the message's own number: whether it has a row depends on what hooks reported before.
            for nth, row in enumerate(self._message(event, view)):
                row.part = f"message{number}" + (f"-{nth}" if nth else "")
                rows.append(row)
        cost = (event.usage or {}).get("cost")
        if rows and cost is not None:
            next((row for row in rows if row.word == "model"), rows[-1]).cost = cost
        return rows

    def _message(self, event: Event, view: Message) -> list[Row]:
        calls = [block for block in view.blocks if isinstance(block, Call)]
        asks = {call.id: self._names.learn(call.id, call.name, call.arguments) for call in calls}
        results = [block for block in view.blocks if isinstance(block, Result)]
        if results and view.role != "assistant":
            return [row for result in results for row in self._result(event, result)]
        said = one_line(" ".join(block.text for block in view.blocks if isinstance(block, Text)))
        images = sum(isinstance(block, Image) for block in view.blocks)
        parts = [f'"{shortened(said, _MAX_TEXT)}"'] if said else []
        parts += [count(images, "image")] if images else []
        if view.role == "assistant":
            if not parts and calls:
                parts.append(f"calls {', '.join(one_line(call.name) for call in calls)}")
            if not parts and view.blocks and all(isinstance(block, Reason) for block in view.blocks):
                return []  # reasoning only: what follows has a row of its own
            seconds = (event.at - self._last_at).total_seconds() if self._last_at is not None else None
            text = ", ".join(parts) or "(no text)"
            return [_row(event, "model", text, seconds=seconds, asks=asks, silent=not said and not images)]
        if view.role == "system" and not view.blocks:
            return []  # bookkeeping of a coding agent
        return [_row(event, view.role, ", ".join(parts) or "(no text)")]

    def _result(self, event: Event, result: Result) -> list[Row]:
        """A result in a message, unless a hook reported it before."""
        if result.call in self._reported:
            return []
        return [self._ended(event, result.call, 0, result.status, result.text)]

    def _intents(self, event: Event) -> list[Row]:
        rows = []
        for intent in event.intents:
            text = self._names.known(intent["id"]) or call_line(intent["name"], intent.get("arguments"))
            effect = str(intent.get("effect") or "")
            asked, call = intent.get("asked_seq", 0), intent["id"]
            row = _row(event, "tool", text, mark="…", effect=effect, call=call, asked=asked, begins=True)
            self._open[asked, call] = row
            rows.append(row)
        return rows

    def _outcomes(self, event: Event) -> list[Row]:
        rows = []
        for outcome in event.outcomes:
            # asked_seq is 0 where a hook reported the call before the transcript had the request for it.
            if outcome["asked_seq"] == 0:
                self._reported.add(outcome["id"])
            row = self._ended(event, outcome["id"], outcome["asked_seq"], outcome["status"], outcome["content"])
            row.seconds = None if outcome["synthetic"] else row.seconds
            rows.append(row)
        return rows

    def _ended(self, event: Event, call: str, asked_seq: int, status: str, content: Any) -> Row:
        """The row of a call that ended."""
        begun = self._open.pop((asked_seq, call), None)
        mark = _OUTCOME_MARKS.get(status, "✓")
        row = _row(event, "tool", begun.text if begun else self._names.of(call), mark=mark, call=call, begun=begun)
        if begun is not None:
            row.effect, row.seconds = begun.effect, (event.at - begun.at).total_seconds()
        row.problem = status in ("error", "unknown")
        row.detail = _lines(content) if row.problem else ["may run again"] if status == "void" else []
        # A failure is notable, and the first success after it.
        tool = row.text.split(" ", maxsplit=1)[0]
        row.notable = mark != "✓" or tool in self._failing
        (self._failing.discard if mark == "✓" else self._failing.add)(tool)
        return row


def _row(event: Event, word: str, text: str, **fields: Any) -> Row:
    return Row(seq=event.seq, at=event.at, word=word, text=text, **fields)


def _status(event: Event) -> list[Row]:
    change, ended = event.status, event.note.get("operation_end")
    if isinstance(ended, dict) and ended.get("verb") in ("undo", "redo"):
        return []  # status as before the operation, which has a row of its own
    if change is None or event.started is not None or change["status"] in ("spawning", "working"):
        return []
    status, why = change["status"], headline(change["reason"])
    text = f"asks: {one_line(as_asked(change['question']))}" if change["question"] else ""
    failure = (change.get("failure") or {}).get("text")
    return [
        _row(
            event,
            "status",
            text or f"{status}{f': {one_line(why)}' if why else ''}",
            mark=_STATUS_MARKS.get(status, ""),
            detail=_lines(failure) if failure else [],
            problem=status in _PROBLEMS,
            waits=status == "waiting",
            notable=True,
        )
    ]


def _operation(event: Event) -> list[Row]:
    """Rows of a restore, rewind, undo or redo: when it begins to change files, and when it is done."""
    begun, ended = event.note.get("operation"), event.note.get("operation_end")
    if isinstance(begun, dict):
        roots = ", ".join(map(str, begun.get("files") or ()))
        return [_row(event, short(begun.get("verb")), f"begins; safety snapshot of {one_line(roots)}", mark="…")]
    if not isinstance(ended, dict):
        return []
    verb, of = short(ended.get("verb")), ended.get("of")
    texts = [f"@{of} {_OPERATIONS.get(verb, verb)}" if of is not None else ""]
    if event.kind == "rewind":
        texts.append(f"back to @{event.base}")
    if ended.get("begun") is not None:
        texts.append("files too" if event.kind == "rewind" else _OPERATIONS["restore"])
    return [_row(event, verb, ", ".join(filter(None, texts)), notable=True)]


def _rest(event: Event) -> list[Row]:
    """Rows for everything else in a step; none where another row already covers it."""
    rows = []
    if why := event.note.get("files_not_captured"):
        rows.append(_row(event, "files", f"not captured: {short(why)}", mark="!", problem=True, notable=True))
    if agent := [_run(key, event.note[key]) for key in ("started", "taken_up", "resume") if event.note.get(key)]:
        rows.append(_row(event, "agent", "; ".join(agent)))
    texts = []
    rewound = event.kind == "rewind" and "operation_end" not in event.note
    if rewound:
        texts.append(f"back to @{event.base}")
    if event.label:
        texts.append(f'checkpoint "{one_line(event.label)}"')
    if event.partial is not None:
        texts.append(f"partial result {short(event.partial)}")
    if event.stream is not None:
        texts.append(f"writes {short(event.stream)}")
    if event.answer and event.answer[0] != SLEEP:
        texts.append(f"answered: {short(event.answer[1])}")
    elif event.answer and event.status is not None and event.status["status"] == "working":
        texts.append(headline(event.status["reason"]))  # a pause; one that gives its process back is a status
    texts += [_noted(key, value) for key, value in event.note.items() if value and key not in _OWN_ROWS]
    if event.state and event.kind == "state":
        texts.append("state: " + ", ".join(map(one_line, event.state)))
    if isinstance(event.record, dict):
        texts.append(_recorded(event.record))
    if texts:
        word, notable = "rewind" if event.kind == "rewind" else "mark", bool(event.label) or event.kind == "rewind"
        rows.append(_row(event, word, "; ".join(texts), label=event.label, notable=notable))
    return rows


def _run(key: str, value: Any) -> str:
    """What a note says about the agent's process: how it was started, and whether it went on."""
    if not isinstance(value, dict):
        return f"{key}: {short(value)}"
    if key == "resume":
        return f"resume {short(value.get('verdict'))} ({short(value.get('rung'))})"
    handle = f", in {short(value['handle'])}" if value.get("handle") else ""
    return f"{key.replace('_', ' ')} ({short(value.get('rung'))}), pid {value.get('pid')}{handle}"


def _noted(key: str, value: Any) -> str:
    if key in ("handed_over", "not_handed_over") and isinstance(value, dict):
        losses = value.get("losses") if isinstance(value.get("losses"), list) else []
        way = f"from {short(value.get('source'))} to {short(value.get('target'))}"
        return f"{key.replace('_', ' ')} {way}; {short(', '.join(map(str, losses or ())), width=5 * _MAX_TEXT)}"
    if key in ("turn", "native"):
        return f"{key} {'session ' if key == 'native' else ''}{short(value)}"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = ", ".join(value)
    return f"{one_line(key).replace('_', ' ')}: {short(value)}"


def _recorded(record: dict[str, Any]) -> str:
    """Summary of a framework's record: the channels it wrote."""
    writes = record.get("writes")
    if isinstance(writes, list):
        return "writes: " + ", ".join(short(one[1]) for one in writes if isinstance(one, list) and len(one) > 1)
    named = [name for part in ("values", "lists", "maps") for name in record.get(part) or ()]
    return f"{short(record.get('kind'))} {short(record.get('id'))}: {', '.join(map(short, named)) or 'nothing new'}"


def call_line(name: str, arguments: Any) -> str:
    """The tool's name and its first text argument."""
    values: Sequence[Any] = list(arguments.values()) if isinstance(arguments, dict) else [arguments]
    about = next((one for one in values if isinstance(one, str) and 0 < len(one) <= 10 * _MAX_TEXT), "")
    return f"{one_line(name)} {shortened(one_line(about), _MAX_ARGUMENT)}".strip()


def _lines(content: Any) -> list[str]:
    text = content if isinstance(content, str) else short(content, width=5 * _MAX_TEXT)
    lines = [line for line in text.splitlines() if line.strip()]
    kept = [shortened(line, _MAX_TEXT) for line in lines[:_MAX_LINES]]
    return [*kept, f"… {len(lines) - _MAX_LINES} more lines"] if len(lines) > _MAX_LINES else kept


def short(value: Any, *, width: int = _MAX_TEXT) -> str:
    """Any JSON value on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shortened(one_line(text[: 4 * width]), width)
