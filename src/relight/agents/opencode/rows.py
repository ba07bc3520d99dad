"""Rows of opencode's database as lines, and lines as rows.

A message has parts, sorted by id. A part becomes a line when it no longer changes: a text when it has ended, a tool
call when its tool has begun, its result when the tool has ended. Lines are in an order in which they only grow: a
result comes where its tool ended, before calls that began later.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from relight.agents.native.line_format import call_key
from relight.agents.opencode.format import OPENCODE, part_of, role_of, state_of
from relight.ports.agent import Entry, Line, NativeCall, NativeResult
from relight.values.usage import Usage

_CHANGING: Final = ("tokens", "cost", "finish", "summary", "error", "structured")
"""what a message gets later than its first part"""
_ENDED: Final = ("completed", "error")
_GOES_ON: Final = ("tool-calls", "unknown")
_PREFIX_CHARS: Final = 16
"""of an id: its kind and its time, which order it; the rest is random"""
NOT_BEGUN: Final = "not run: the process died before this call began; ask for it again"


class Row(msgspec.Struct, frozen=True):
    """A message, or a part of one."""

    id: str
    created_ms: int
    data: dict[str, Any]


class Said(msgspec.Struct, frozen=True):
    """A message with its parts, in order."""

    message: Row
    parts: tuple[Row, ...]


# ---------------------------------------------------------------- rows -> lines


def lines_of(said: Sequence[Said]) -> list[Line]:
    """The lines since the last compaction."""
    found = list(said)
    for index in reversed(range(len(found))):
        data = found[index].message.data
        if data.get("summary") is True and data.get("finish"):
            asked = next((at for at, one in enumerate(found) if one.message.id == data.get("parentID")), index)
            found = found[asked:]
            break
    return [line for at, one in enumerate(found) for line in _lines(one, is_last=at == len(found) - 1)]


def _lines(said: Said, *, is_last: bool) -> list[Line]:
    timed: list[tuple[int, int, Line]] = []
    now = 0
    still = not is_last or _time(said.message.data, "completed") is not None
    for part in said.parts:
        at = _ready_ms(part, still=still)
        if at is None:
            break
        now = max(now, at)
        data, is_tool = part.data, part.data.get("type") == "tool"
        # A step ends after the results in it, also where an import gives all of them the same time.
        order = 2 if data.get("type") == "step-finish" else 0
        timed.append((now, order, _line("call" if is_tool else "part", said.message, part, _asked(data))))
        if is_tool and state_of(data).get("status") in _ENDED:
            ended = _time(state_of(data), "end") or now
            timed.append((max(ended, now), 1, _line("result", said.message, part, data)))
    error = said.message.data.get("error")
    found = [line for _, _, line in sorted(timed, key=lambda one: one[:2])]
    return [*found, {**_line("error", said.message, None, {}), "error": error}] if isinstance(error, dict) else found


def _ready_ms(part: Row, *, still: bool) -> int | None:
    """Since when a part is final; None while it changes. `still`: nothing of its message changes any more."""
    kind = part.data.get("type")
    if kind == "tool":
        status = state_of(part.data).get("status")
        if status == "pending" and not still:
            return None
        return _time(state_of(part.data), "start") or part.created_ms
    if kind in ("text", "reasoning") and isinstance(part.data.get("time"), dict):
        return _time(part.data, "end") or (part.created_ms if still else None)
    return part.created_ms if kind != "text" or part.data.get("text") or still else None


def _time(data: Mapping[str, Any], name: str) -> int | None:
    times = data.get("time")
    at = times.get(name) if isinstance(times, dict) else None
    return int(at) if isinstance(at, int | float) else None


def _asked(data: dict[str, Any]) -> dict[str, Any]:
    """A part as it was when its tool began."""
    if data.get("type") != "tool":
        return data
    state = state_of(data)
    begun = {"status": "running", "input": state.get("input", {}), "time": {"start": _time(state, "start") or 0}}
    return {**data, "state": begun}


def _line(kind: str, message: Row, part: Row | None, data: dict[str, Any]) -> Line:
    kept = {name: value for name, value in message.data.items() if name not in _CHANGING}
    kept["time"] = {"created": message.created_ms}
    line: Line = {"opencode": kind, "message": {"id": message.id, "data": kept}}
    return line if part is None else {**line, "part": {"id": part.id, "created": part.created_ms, "data": data}}


def entry_of(line: Line) -> Entry:
    """The entry of a line, with the tokens and cost of the model call that it ends."""
    data, message = part_of(line), line.get("message", {}).get("data", {})
    ended = data.get("type") == "step-finish"
    model = message.get("modelID")
    return Entry(
        key=key_of(line),
        line=line,
        usage=_usage(data) if ended else None,
        model=model if ended and isinstance(model, str) else None,
        ends_turn=ended and data.get("reason") not in _GOES_ON,
    )


def _usage(data: dict[str, Any]) -> Usage | None:
    tokens = data.get("tokens")
    given = tokens if isinstance(tokens, dict) else {}
    cache = given.get("cache")
    counts = {name: value for name, value in given.items() if isinstance(value, int)}
    cached = cache if isinstance(cache, dict) else {}
    cost = data.get("cost")
    usage = Usage(
        input_tokens=counts.get("input", 0),
        output_tokens=counts.get("output", 0) + counts.get("reasoning", 0),
        cache_read_tokens=_count(cached.get("read")),
        cache_write_tokens=_count(cached.get("write")),
        cost=float(cost) if isinstance(cost, int | float) and cost > 0 else None,
    )
    return usage if usage.tokens else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def key_of(line: Line) -> str:
    """The `Entry.key` of a line: a copy under another id keeps the part of an id that has its time."""
    if (key := call_key(OPENCODE, line)) is not None:
        return key
    place = line.get("part") if line.get("opencode") == "part" else line.get("message")
    named = place.get("id") if isinstance(place, dict) else None
    return f"{line.get('opencode')}:{str(named)[:_PREFIX_CHARS]}"


def pending(lines: Iterable[Line]) -> dict[str, tuple[NativeCall, Line]]:
    """Calls without a result, by id, with their lines. A later prompt closes them: opencode answers them itself."""
    found: dict[str, tuple[NativeCall, Line]] = {}
    for line in lines:
        for name in OPENCODE.answers(line):
            found.pop(name, None)
        if line.get("opencode") == "part" and role_of(line) == "user":
            found.clear()
        for site in OPENCODE.calls(line):
            found[site.id] = (NativeCall(id=site.id, name=site.name, arguments=site.parsed()), line)
    return found


# ---------------------------------------------------------------- lines of our own


def prompted(text: str, *, at_us: int) -> Line:
    """A line in which the user says this, the first of a session."""
    data = {"role": "user", "agent": "build", "model": {"providerID": "", "modelID": ""}}
    return _placed({**OPENCODE.user(text), "message": {"data": data}}, (), "prompted", at_us)


def told(text: str, lines: Sequence[Line], *, at_us: int) -> Line:
    """A line in which the harness, not the user, says this after `lines`."""
    former = [line["message"]["data"] for line in lines if role_of(line) == "user"]
    line = prompted(text, at_us=at_us)
    part = {**line["part"], "data": {**line["part"]["data"], "synthetic": True}}
    data = former[-1] if former else line["message"]["data"]
    return _placed({**line, "message": {"data": data}, "part": part}, lines, text, at_us)


def subagent_of(part: Mapping[str, Any]) -> str | None:
    """The session that a call of `task` began."""
    metadata = state_of(dict(part)).get("metadata")
    named = metadata.get("sessionId") if isinstance(metadata, dict) else None
    return named if isinstance(named, str) else None


def asked(call: NativeCall, lines: Sequence[Line], *, at_us: int) -> Line:
    """A model line with this call."""
    former = [line["message"] for line in lines if role_of(line) == "assistant"]
    data = former[-1]["data"] if former else {"role": "assistant"}
    state = {"status": "running", "input": call.arguments or {}, "time": {"start": at_us // 1000}}
    part = {"data": {"type": "tool", "tool": call.name, "callID": call.id, "state": state}}
    return _placed({"opencode": "call", "message": {"data": data}, "part": part}, lines, call.id, at_us)


def answered(results: Mapping[str, NativeResult], lines: Sequence[Line], *, at_us: int) -> list[Line]:
    """Lines that answer open calls, in the order of the calls: the rows of the calls, ended."""
    found: list[Line] = []
    for name, (_, line) in pending(lines).items():
        if name in results:
            data, text = part_of(line), results[name].text
            times = {"start": _time(state_of(data), "start") or at_us // 1000, "end": at_us // 1000}
            state = {"input": state_of(data).get("input", {}), "time": times}
            if results[name].failed:
                state |= {"status": "error", "error": text}
            else:
                state |= {"status": "completed", "output": text, "title": "", "metadata": {}}
            part = {**line["part"], "data": {**data, "state": state}}
            found.append({**line, "opencode": "result", "part": part})
    return found


def _placed(line: Line, lines: Sequence[Line], name: str, at_us: int) -> Line:
    """A line with ids of its own that are sorted after those before it."""
    last = max((str(one["message"].get("id")) for one in lines if isinstance(one.get("message"), dict)), default="msg_")
    stamp = max(int(last[4:_PREFIX_CHARS] or "0", 16) + 1, (at_us // 1000 * 0x1000) & 0xFFFFFFFFFFFF)
    tail = sha256(f"{name}\0{last}".encode()).hexdigest()[:14]
    ids = {kind: f"{kind}_{stamp:012x}{tail}" for kind in ("msg", "prt")}
    data = {**line["message"]["data"], "time": {"created": at_us // 1000}}
    part = {"id": ids["prt"], "created": at_us // 1000, "data": line["part"]["data"]}
    return {**line, "message": {"id": ids["msg"], "data": data}, "part": part}


def closed(part: Row) -> dict[str, Any] | None:
    """A part that a dead process left unfinished, as ended; None if it is finished, or a call that has begun: its
    result is a line of its own."""
    data, times = part.data, {"start": part.created_ms, "end": part.created_ms}
    if data.get("type") in ("text", "reasoning") and isinstance(data.get("time"), dict):
        return None if _time(data, "end") is not None else {**data, "time": {**data["time"], "end": part.created_ms}}
    if data.get("type") != "tool" or state_of(data).get("status") != "pending":
        return None
    given = state_of(data).get("input", {})
    return {**data, "state": {"status": "error", "error": NOT_BEGUN, "input": given, "time": times}}


def new_id() -> str:
    """A new session id; the newest sorts first, as opencode's do."""
    stamp = ~(time.time_ns() // 1_000_000 * 0x1000) & 0xFFFFFFFFFFFF
    return f"ses_{stamp:012x}{secrets.token_hex(7)}"


# ---------------------------------------------------------------- lines -> rows


def own_name(name: str, session: str) -> str:
    """An id that only this session has, with the same order: opencode's ids are unique over all sessions."""
    return name[:_PREFIX_CHARS] + sha256(f"{session}\0{name[:_PREFIX_CHARS]}".encode()).hexdigest()[:14]


def moved(lines: Iterable[Line], rename: Callable[[str], str], directory: str | None = None) -> Iterator[Line]:
    """The lines under other ids, in another directory."""
    for line in lines:
        message, part = line.get("message"), line.get("part")
        if not OPENCODE.recognises(line) or not isinstance(message, dict) or not isinstance(message.get("id"), str):
            continue
        data = dict(message["data"])
        if isinstance(data.get("parentID"), str):
            data["parentID"] = rename(data["parentID"])
        if directory is not None and isinstance(data.get("path"), dict):
            data["path"] = {**data["path"], "cwd": directory}
        placed = {"part": {**part, "id": rename(str(part.get("id")))}} if isinstance(part, dict) else {}
        yield {**line, "message": {"id": rename(message["id"]), "data": data}, **placed}


def rows_of(lines: Iterable[Line]) -> list[Said]:
    """The messages of these lines, with their parts."""
    messages: dict[str, Row] = {}
    parts: dict[str, dict[str, Row]] = {}
    for line in lines:
        name, data, part = line["message"]["id"], line["message"]["data"], line.get("part")
        row = messages.get(name) or Row(name, _time(data, "created") or 0, _begun(data))
        messages[name] = Row(name, row.created_ms, {**row.data, **_end(line, row.created_ms)})
        if part is not None:
            made = Row(part["id"], int(part.get("created") or row.created_ms), part["data"])
            parts.setdefault(name, {})[made.id] = made
    return [
        Said(row, tuple(one for _, one in sorted(parts.get(name, {}).items())))
        for name, row in sorted(messages.items())
    ]


def _begun(data: dict[str, Any]) -> dict[str, Any]:
    if data.get("role") != "assistant":
        return data
    return {**data, "cost": 0, "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}}


def _end(line: Line, created_ms: int) -> dict[str, Any]:
    """What a line says about the end of its message."""
    data, more = part_of(line), {"error": line["error"]} if "error" in line else {}
    if data.get("type") == "step-finish":
        more |= {"tokens": data.get("tokens"), "cost": data.get("cost"), "finish": data.get("reason")}
        more["time"] = {"created": created_ms, "completed": line["part"].get("created")}
    return more
