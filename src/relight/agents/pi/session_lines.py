"""The conversation in a session file of pi: a tree of lines {type, id, parentId, timestamp, ...} after a header.

The last line is the leaf; the path from it to the root is the active branch. A `compaction` on the path replaces what
is before its `firstKeptEntryId`. pi writes the file with the first reply; a file that has no reply yet is written again
as a whole by then, so that a line can be there twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from relight.agents.native.line_format import call_key
from relight.agents.native.names import derived_id, stamp
from relight.agents.pi.format import PI, inner_of, outer
from relight.ports.agent import Entry, Line, NativeCall, NativeResult
from relight.values.usage import Usage

HEADER: Final = "session"
VERSION: Final = 3
_KINDS: Final = frozenset(
    {"message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom_message"}
)
_ID_CHARS: Final = 8


def entries(lines: Sequence[Line]) -> tuple[Entry, ...]:
    """The entries of the active branch since the last compaction."""
    return tuple(map(_entry, _since_compaction(_branch(lines))))


def _branch(lines: Sequence[Line]) -> list[Line]:
    """From the root to the last line."""
    known = {line["id"]: line for line in lines if line.get("type") != HEADER and PI.recognises(line)}
    at = next((line["id"] for line in reversed(lines) if line.get("type") != HEADER and PI.recognises(line)), None)
    found: list[Line] = []
    while isinstance(at, str) and at in known:  # ends: a line is taken out when it is met
        line = known.pop(at)
        found.append(line)
        at = line.get("parentId")
    return found[::-1]


def _since_compaction(branch: list[Line]) -> list[Line]:
    last = max((index for index, line in enumerate(branch) if line.get("type") == "compaction"), default=None)
    kept = 0
    if last is not None:
        named = branch[last].get("firstKeptEntryId")
        kept = next((index for index, line in enumerate(branch[:last]) if line["id"] == named), last)
    return [line for line in branch[kept:] if line["type"] in _KINDS]


def _entry(line: Line) -> Entry:
    inner = inner_of(line)
    replied = inner.get("role") == "assistant"
    model = inner.get("model")
    return Entry(
        key=key_of(line),
        line=line,
        usage=_usage(inner.get("usage")) if replied else None,
        model=model if replied and isinstance(model, str) else None,
        ends_turn=replied and inner.get("stopReason") in ("stop", "length"),
    )


def _usage(given: Any) -> Usage | None:
    """The tokens of one reply, with pi's own cost where it knows the model's price."""
    if not isinstance(given, dict):
        return None
    counts = {name: value for name, value in given.items() if isinstance(value, int) and value >= 0}
    cost = given.get("cost")
    total = cost.get("total") if isinstance(cost, dict) else None
    usage = Usage(
        input_tokens=counts.get("input", 0),
        output_tokens=counts.get("output", 0),
        cache_read_tokens=counts.get("cacheRead", 0),
        cache_write_tokens=counts.get("cacheWrite", 0),
        cost=float(total) if isinstance(total, int | float) and total > 0 else None,
    )
    return usage if usage.tokens else None


def key_of(line: Line) -> str:
    """The `Entry.key` of a line."""
    return call_key(PI, line) or f"line:{line.get('id')}"


def pending(lines: Iterable[Line]) -> dict[str, NativeCall]:
    """Calls without a result, by id. A later prompt closes them: pi answers them itself then."""
    found: dict[str, NativeCall] = {}
    for line in lines:
        for name in PI.answers(line):
            found.pop(name, None)
        if inner_of(line).get("role") == "user":
            found.clear()
        for site in PI.calls(line):
            found[site.id] = NativeCall(id=site.id, name=site.name, arguments=site.parsed())
    return found


def model_of(lines: Iterable[Line]) -> str | None:
    """The model of the last reply."""
    models = [inner.get("model") for line in lines if (inner := inner_of(line)).get("role") == "assistant"]
    return next((model for model in reversed(models) if isinstance(model, str)), None)


# ---------------------------------------------------------------- lines of our own


def prompted(text: str, *, at_us: int) -> Line:
    """A line in which the user says this, the first of a session."""
    return _line(PI.user(text), (), ("prompted", text), at_us)


def asked(call: NativeCall, lines: Sequence[Line], *, at_us: int) -> Line:
    """A model line with this call."""
    block = {"type": "toolCall", "id": call.id, "name": call.name, "arguments": call.arguments or {}}
    former = next((inner for line in reversed(lines) if (inner := inner_of(line)).get("role") == "assistant"), {})
    named = {name: former.get(name, "relight") for name in ("api", "provider", "model")}
    message = {"role": "assistant", "content": [block], **named, "usage": NO_USAGE, "stopReason": "toolUse"}
    return _line(outer(message), lines, ("asked", call.id), at_us)


def answered(results: Mapping[str, NativeResult], lines: Sequence[Line], *, at_us: int) -> list[Line]:
    """Lines that answer open calls, in the order of the calls."""
    found: list[Line] = []
    for name, call in pending(lines).items():
        if name in results:
            message = {
                "role": "toolResult",
                "toolCallId": name,
                "toolName": call.name,
                "content": [{"type": "text", "text": results[name].text}],
                "isError": results[name].failed,
            }
            found.append(_line(outer(message), [*lines, *found], ("answered", name), at_us))
    return found


NO_USAGE: Final = {
    **dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 0),
    "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0),
}


def moved(lines: Iterable[Line], native_id: str, directory: str, *, at_us: int) -> Iterator[Line]:
    """The lines as those of another session in another directory: one branch, each line the child of the one before."""
    yield {"type": HEADER, "version": VERSION, "id": native_id, "timestamp": stamp(at_us), "cwd": directory}
    parent = None
    for line in lines:
        if line.get("type") != HEADER:
            yield {**line, "parentId": parent}
            parent = line.get("id")


def _line(line: Line, lines: Sequence[Line], name: tuple[str, str], at_us: int) -> Line:
    parent = next((one["id"] for one in reversed(lines) if isinstance(one.get("id"), str)), None)
    placed = {"id": derived_id(*name, str(parent))[:_ID_CHARS], "parentId": parent, "timestamp": stamp(at_us)}
    return {**line, **placed, "message": {**line["message"], "timestamp": at_us // 1000}}
