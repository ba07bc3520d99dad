"""The conversation in a rollout of Codex: a flat list of lines {timestamp, ordinal, type, payload}.

The first line describes the thread. `response_item` lines are what the model sees; a `compacted` line replaces all of
them before it. Of the other lines we record those with tokens, ends of turns, settings of a turn, and the context given
to the model (without which Codex would give it again).

A fork's rollout has only the lines after the fork; earlier ones are in its parent's rollout, below an ordinal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from relight.agents.native.line_format import call_key
from relight.journal.formats.openai_responses import OPENAI_RESPONSES
from relight.ports.agent import Entry, Line, NativeCall
from relight.values.usage import Usage

META: Final = "session_meta"
ITEM: Final = "response_item"
COMPACTED: Final = "compacted"
_CONTEXT: Final = "turn_context"
_WORLD: Final = "world_state"
_EVENT: Final = "event_msg"
_EVENTS: Final = frozenset({"token_count", "task_complete", "turn_complete", "turn_aborted"})
_ENDS: Final = frozenset({"task_complete", "turn_complete"})
_MAX_FORKS: Final = 64


def whole(lines: Sequence[Line], parent: Callable[[str], Sequence[Line] | None]) -> list[Line]:
    """The lines with those of the threads it was forked from, which `parent` finds by id; its own meta line first."""
    found = list(lines)
    base, seen = history_base(found), set[str]()
    while base is not None and base[0] not in seen and len(seen) < _MAX_FORKS:
        seen.add(base[0])
        before = list(parent(base[0]) or ())
        kept = [line for line in before if line.get("type") != META and _ordinal(line) < base[1]]
        found = [*found[:1], *kept, *found[1:]]
        base = history_base(before)
    return found


class IncrementalRollout:
    """What belongs to the conversation of a rollout that grows, from the last compaction on; `parent` as in `whole`."""

    def __init__(self, parent: Callable[[str], Sequence[Line] | None]) -> None:
        self._parent = parent
        self._seen = 0
        self._entries: list[Entry] = []
        self._told = Usage()
        self.meta: dict[str, Any] = {}
        """what the thread says of itself"""
        self.model: str | None = None
        """that of the last turn"""

    def entries(self, lines: Sequence[Line]) -> tuple[Entry, ...]:
        """The entries of all lines; those passed to the previous call must be unchanged."""
        fresh = lines[self._seen :]
        if not self._seen or len(lines) < self._seen or any(line.get("type") in (META, COMPACTED) for line in fresh):
            fresh = self._begin(whole(lines, self._parent))
        for line in fresh:
            self._add(line)
        self._seen = len(lines)
        return tuple(self._entries)

    def _begin(self, lines: list[Line]) -> list[Line]:
        """Forget all; the lines to add, in their order."""
        self._entries, self._told, self.model = [], Usage(), None
        self.meta = payload_of(lines[0]) if lines and lines[0].get("type") == META else {}
        start = max((index for index, line in enumerate(lines) if line.get("type") == COMPACTED), default=0)
        for line in lines[:start]:  # usage before a compaction must not be counted again after it
            self._told = _news(line, self._told)[1]
        self.model = model_of(lines[:start])
        metas = [line for line in lines if line.get("type") == META][:1]
        return [*metas, *(line for line in lines[start:] if line.get("type") != META)]

    def _add(self, line: Line) -> None:
        if not _belongs(line):
            return
        usage, self._told = _news(line, self._told)
        payload = payload_of(line)
        if line.get("type") == _CONTEXT and isinstance(payload.get("model"), str):
            self.model = payload["model"]
        ends = line.get("type") == _EVENT and payload.get("type") in _ENDS
        model = self.model if usage is not None else None
        self._entries.append(Entry(key=key_of(line), line=line, usage=usage, model=model, ends_turn=ends))


def key_of(line: Line) -> str:
    """The `Entry.key` of a rollout line."""
    kind, payload = line.get("type"), payload_of(line)
    if kind == META:
        return META
    if kind == ITEM:
        if (key := call_key(OPENAI_RESPONSES, payload)) is not None:
            return key
        if isinstance(payload.get("id"), str):
            return f"line:{payload['id']}"
    if kind == _EVENT and isinstance(payload.get("turn_id"), str):
        return f"{payload.get('type')}:{payload['turn_id']}"
    if isinstance(line.get("timestamp"), str):  # not what it says: that is redacted in the journal
        return f"line:{line['timestamp']}:{kind}:{payload.get('type')}:{payload.get('role')}"
    said = msgspec.json.encode([kind, payload], order="deterministic")
    return f"line:{hashlib.sha256(said).hexdigest()[:32]}"


def pending(lines: Iterable[Line]) -> dict[str, tuple[NativeCall, str]]:
    """Calls without a result, by id, with the kind of their item. A later user message closes them."""
    found: dict[str, tuple[NativeCall, str]] = {}
    for line in lines:
        if line.get("type") == COMPACTED:
            found.clear()
        if line.get("type") != ITEM:
            continue
        payload = payload_of(line)
        for name in OPENAI_RESPONSES.answers(payload):
            found.pop(name, None)
        if payload.get("role") == "user":
            found.clear()
        for site in OPENAI_RESPONSES.calls(payload):
            found[site.id] = (NativeCall(id=site.id, name=site.name, arguments=site.parsed()), site.kind)
    return found


def payload_of(line: Line) -> dict[str, Any]:
    """The payload of a line; empty if that is no object."""
    payload = line.get("payload")
    return payload if isinstance(payload, dict) else {}


def is_helper(meta: Line) -> bool:
    """Whether it is a sub-agent's thread, begun by another thread."""
    payload = payload_of(meta)
    source = payload.get("source")
    return bool(payload.get("parent_thread_id")) or (isinstance(source, dict) and "subagent" in source)


def history_base(lines: Sequence[Line]) -> tuple[str, int] | None:
    """The thread that this one was forked from, and the ordinal below which it is shared."""
    base = payload_of(lines[0]).get("history_base") if lines and lines[0].get("type") == META else None
    if not isinstance(base, dict):
        return None
    name = next((base[field] for field in ("thread_id", "id", "rollout_id") if isinstance(base.get(field), str)), None)
    end = base.get("end_ordinal_exclusive")
    return (name, end) if name is not None and isinstance(end, int) else None


def model_of(lines: Iterable[Line]) -> str | None:
    """The model of the last turn."""
    models = [payload_of(line).get("model") for line in lines if line.get("type") == _CONTEXT]
    return next((model for model in reversed(models) if isinstance(model, str)), None)


def last_ordinal(lines: Iterable[Line]) -> int | None:
    """The highest number given to a line; None in an old rollout without numbers."""
    return max((line["ordinal"] for line in lines if isinstance(line.get("ordinal"), int)), default=None)


def _ordinal(line: Line) -> int:
    ordinal = line.get("ordinal")
    return ordinal if isinstance(ordinal, int) else 0


def _belongs(line: Line) -> bool:
    kind = line.get("type")
    if kind == _EVENT:
        return payload_of(line).get("type") in _EVENTS
    return kind in (META, ITEM, COMPACTED, _CONTEXT, _WORLD)


def _news(line: Line, reported: Usage) -> tuple[Usage | None, Usage]:
    """The tokens since the last report. Codex reports the thread's total, and repeats it."""
    payload = payload_of(line)
    if payload.get("type") != "token_count" or not isinstance(payload.get("info"), dict):
        return None, reported
    total = payload["info"].get("total_token_usage")
    if not isinstance(total, dict):
        return None, reported
    now = _usage(total)
    if now.input_tokens + now.cache_read_tokens < reported.input_tokens + reported.cache_read_tokens:
        reported = Usage()  # the total was reset
    news = Usage(
        input_tokens=max(0, now.input_tokens - reported.input_tokens),
        output_tokens=max(0, now.output_tokens - reported.output_tokens),
        reasoning_tokens=max(0, now.reasoning_tokens - reported.reasoning_tokens),
        cache_read_tokens=max(0, now.cache_read_tokens - reported.cache_read_tokens),
        cache_write_tokens=max(0, now.cache_write_tokens - reported.cache_write_tokens),
    )
    return (news if news != Usage() else None), now


def _usage(given: dict[str, Any]) -> Usage:
    """Convert its usage, whose input includes tokens read from the cache, to ours, which does not."""
    counts = {name: value for name, value in given.items() if isinstance(value, int) and value >= 0}
    cached = counts.get("cached_input_tokens", 0)
    return Usage(
        input_tokens=max(0, counts.get("input_tokens", 0) - cached),
        output_tokens=counts.get("output_tokens", 0),
        reasoning_tokens=counts.get("reasoning_output_tokens", 0),
        cache_read_tokens=cached,
        cache_write_tokens=counts.get("cache_write_input_tokens", 0),
    )
