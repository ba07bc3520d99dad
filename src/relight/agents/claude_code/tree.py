"""The conversation in a Claude Code transcript: a tree of lines, of which the active branch is what the model sees.

Each line names its parent; the branch is the path from the last line up to the last compaction, whose boundary names
the lines it preserved. Two kinds of lines belong to the branch without being on that path: the other blocks of a reply
(one line per block, with the same message id), and the results of its other calls, which are children of their calls.
Lines of sub-agents do not belong to it. A missing parent is replaced by the preceding line of the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from relight.agents.native.line_format import call_key
from relight.journal.formats.anthropic import ANTHROPIC
from relight.ports.agent import Entry, Line, NativeCall, OwnCost
from relight.values.usage import Usage, usage_seen

SPOKEN: Final = frozenset({"user", "assistant"})
PASSING: Final = frozenset({"progress"})
"""lines of the tree without a message"""
_FINAL: Final = frozenset({"end_turn", "stop_sequence", "max_tokens", "refusal", "model_context_window_exceeded"})
_COUNTED: Final = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
SYNTHETIC: Final = "<synthetic>"
"""the model of a line that Claude Code put into the model's mouth"""


def branch(lines: Sequence[Line], *, sidechain: bool = False) -> list[Line]:
    """The lines of the conversation as the model sees it, from the last compaction on, in its order. `sidechain`: of a
    sub-agent's own transcript."""
    nodes = [line for line in lines if _text(line, "uuid") and is_sidechain(line) is sidechain]
    index_of: dict[str, int] = {}
    for index, line in enumerate(nodes):
        index_of.setdefault(line["uuid"], index)
    compacted = [index for index, line in enumerate(nodes) if is_boundary(line)][-1:]
    start = compacted[0] if compacted else 0
    preserved = [index_of[name] for index in compacted for name in _preserved(nodes[index]) if name in index_of]
    allowed = {*range(start, len(nodes)), *preserved}
    head = [*compacted, *(index for index in range(start, len(nodes)) if compacted and is_summary(nodes[index]))]
    kept = {*_way(nodes, index_of, allowed), *head, *preserved}
    _complete(nodes, allowed, kept)
    order = [*head, *preserved, *sorted(kept.difference(head, preserved))]
    return [nodes[index] for index in order if nodes[index].get("type") not in PASSING]


def entries(lines: Sequence[Line], *, sidechain: bool = False) -> tuple[Entry, ...]:
    """The lines of the conversation as entries, with usage, model and ends of turns."""
    chosen = branch(lines, sidechain=sidechain)
    last = {reply_of(line): index for index, line in enumerate(chosen) if reply_of(line)}
    reported: dict[str, Usage] = {}
    found = []
    for index, line in enumerate(chosen):
        reply = reply_of(line)
        ends = bool(reply) and last[reply] == index and ends_turn(line)
        found.append(entry_of(line, usage=news(line, reply, reported), ends_turn=ends))
    return tuple(found)


def entry_of(line: Line, *, usage: Usage | None, ends_turn: bool) -> Entry:
    """The entry of one line."""
    return Entry(
        key=key_of(line),
        line=line,
        usage=usage,
        model=_text(message_of(line), "model") or None if usage is not None else None,
        kept_long=_kept_long(line) if usage is not None and usage.cache_write_tokens else 0,
        ends_turn=ends_turn,
    )


def key_of(line: Line) -> str:
    """The `Entry.key` of a transcript line."""
    return call_key(ANTHROPIC, message_of(line)) or f"line:{_text(line, 'uuid')}"


def pending(lines: Iterable[Line]) -> dict[str, tuple[NativeCall, Line]]:
    """Calls of the last reply without a result, by id, with their lines. A later user message closes them."""
    found: dict[str, tuple[NativeCall, Line]] = {}
    reply = ""
    for line in lines:
        message = message_of(line)
        answered = ANTHROPIC.answers(message)
        for name in answered:
            found.pop(name, None)
        if line.get("type") == "assistant":
            if reply_of(line) != reply:
                found.clear()
            reply = reply_of(line)
        elif line.get("type") == "user" and not answered and line.get("isMeta") is not True:
            found.clear()
        for site in ANTHROPIC.calls(message):
            found[site.id] = (NativeCall(id=site.id, name=site.name, arguments=site.arguments), line)
    return found


def message_of(line: Line) -> dict[str, Any]:
    """The provider's message in a line; empty if there is none."""
    message = line.get("message")
    return message if isinstance(message, dict) and line.get("type") in SPOKEN else {}


def reply_of(line: Line) -> str:
    """The id of the reply that a line is a block of; empty for other lines."""
    if line.get("type") != "assistant":
        return ""
    return _text(message_of(line), "id") or _text(line, "uuid")


def is_sidechain(line: Line) -> bool:
    """Whether a sub-agent's conversation has this line."""
    return line.get("isSidechain") is True


def is_boundary(line: Line) -> bool:
    return line.get("type") == "system" and line.get("subtype") == "compact_boundary"


def is_summary(line: Line) -> bool:
    return line.get("isCompactSummary") is True


def answers_of(line: Line) -> tuple[str, ...]:
    return ANTHROPIC.answers(message_of(line))


def calls_of(line: Line) -> list[str]:
    return [site.id for site in ANTHROPIC.calls(message_of(line))]


def model_of(lines: Sequence[Line]) -> str | None:
    """The model of the last reply."""
    for line in reversed(lines):
        model = _text(message_of(line), "model") if line.get("type") == "assistant" else ""
        if model and model != SYNTHETIC:
            return model
    return None


def last_text(lines: Iterable[Line], field: str) -> str | None:
    """The last text that any line has in this field."""
    found = [value for line in lines if (value := _text(line, field))]
    return found[-1] if found else None


# ---------------------------------------------------------------- the branch


def _way(nodes: Sequence[Line], index_of: dict[str, int], allowed: set[int]) -> set[int]:
    """The path from the last message up to the root, and the direct children of that message."""
    spoken = [index for index in allowed if nodes[index].get("type") in SPOKEN]
    if not spoken:
        return set(allowed)
    leaf = max(spoken)
    kept: set[int] = set()
    index: int | None = leaf
    while index is not None and index in allowed and index not in kept:
        kept.add(index)
        parent = nodes[index].get("parentUuid")
        index = index_of.get(parent, index - 1) if isinstance(parent, str) else None
    for index in range(leaf + 1, len(nodes)):
        if index_of.get(_text(nodes[index], "parentUuid")) in kept:
            kept.add(index)
    return kept


def _complete(nodes: Sequence[Line], allowed: set[int], kept: set[int]) -> None:
    """Add the other blocks of the replies, the results of their calls, and what was attached to those."""
    replies = {reply_of(nodes[index]) for index in kept} - {""}
    kept |= {index for index in allowed if reply_of(nodes[index]) in replies}
    open_calls = {site.id for index in kept for site in ANTHROPIC.calls(message_of(nodes[index]))}
    for index in kept:
        open_calls -= set(ANTHROPIC.answers(message_of(nodes[index])))
    added: set[str] = set()
    for index in sorted(allowed - kept):
        line = nodes[index]
        answered = set(ANTHROPIC.answers(message_of(line)))
        if answered & open_calls:
            open_calls -= answered
        elif line.get("type") != "attachment" or _text(line, "parentUuid") not in added:
            continue
        kept.add(index)
        added.add(line["uuid"])


def _preserved(boundary: Line) -> list[str]:
    """The lines that a compaction left as they were."""
    if not is_boundary(boundary):
        return []
    metadata = boundary.get("compactMetadata")
    kept = metadata.get("preservedMessages") if isinstance(metadata, dict) else None
    names = kept.get("uuids") if isinstance(kept, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


# ---------------------------------------------------------------- what a line tells


def ends_turn(line: Line) -> bool:
    """Whether the turn ends with this line, if it is the last one of its reply."""
    message = message_of(line)
    if line.get("isApiErrorMessage") is True or ANTHROPIC.calls(message) or message.get("model") == SYNTHETIC:
        return False
    return message.get("stop_reason") in _FINAL


def news(line: Line, reply: str, reported: dict[str, Usage]) -> Usage | None:
    """The tokens of a reply, counted once although each of its lines repeats them, perhaps with more."""
    given = message_of(line).get("usage")
    if not reply or not isinstance(given, dict):
        return None
    now, before = usage_seen(given), reported.get(reply, Usage())
    news = Usage(
        input_tokens=max(0, now.input_tokens - before.input_tokens),
        output_tokens=max(0, now.output_tokens - before.output_tokens),
        cache_read_tokens=max(0, now.cache_read_tokens - before.cache_read_tokens),
        cache_write_tokens=max(0, now.cache_write_tokens - before.cache_write_tokens),
    )
    reported[reply] = before + news
    return news if news != Usage() else None


def _kept_long(line: Line) -> int:
    """Of the tokens written to the cache, those that the provider keeps for an hour."""
    usage = message_of(line).get("usage")
    kinds = usage.get("cache_creation") if isinstance(usage, dict) else None
    count = kinds.get("ephemeral_1h_input_tokens") if isinstance(kinds, dict) else None
    return count if isinstance(count, int) and count > 0 else 0


def own_cost(line: Line) -> OwnCost | None:
    """The cost in the last line of a headless run: of the whole session, or of this process only."""
    cost = line.get("total_cost_usd") if line.get("type") == "result" else None
    models = line.get("modelUsage")
    if not isinstance(cost, int | float) or isinstance(cost, bool) or not math.isfinite(cost) or cost < 0:
        return None
    counts = (
        [one.get(name) for one in models.values() if isinstance(one, dict) for name in _COUNTED]
        if isinstance(models, dict)
        else []
    )
    return OwnCost(cost=float(cost), tokens=sum(count for count in counts if isinstance(count, int) and count > 0))


def _text(line: dict[str, Any], field: str) -> str:
    value = line.get(field)
    return value if isinstance(value, str) else ""
