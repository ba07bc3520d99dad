"""Lines that we write into a Claude Code transcript: calls that a hook reported, results, and copies of a session.

A line gets session, directory and version from the lines it follows. Its id is derived from its content, so writing
it twice writes the same line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from relight.agents.claude_code.tree import is_boundary, is_summary, last_text, message_of, model_of, pending, reply_of
from relight.agents.native.names import derived_id, stamp
from relight.journal.formats.anthropic import ANTHROPIC
from relight.ports.agent import Line, NativeCall, NativeResult

_CARRIED = ("agentId", "userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch")


def prompted(text: str, *, at_us: int) -> Line:
    """A line in which the user says this, the first of a session."""
    return _line("user", None, derived_id("prompted", text), {"role": "user", "content": text}, (), at_us)


def asked(call: NativeCall, lines: Sequence[Line], *, at_us: int) -> Line:
    """A line in which the model asks for this call.

    It is one more block of the last reply while that is the last thing said, or while a call of it is open: the model
    cannot have spoken again. Else it is a reply of its own.
    """
    replies = [line for line in lines if reply_of(line)]
    goes_on = bool(replies) and (bool(pending(lines)) or _spoke_last(lines))
    reply = reply_of(replies[-1]) if goes_on else f"msg_{derived_id('reply', call.id).replace('-', '')}"
    arguments = call.arguments if isinstance(call.arguments, dict) else {"input": call.arguments}
    message = {
        "id": reply,
        "type": "message",
        "role": "assistant",
        "content": [{"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}],
        "stop_reason": "tool_use",
    }
    if (model := model_of(lines)) is not None:
        message["model"] = model
    parent = last_text(lines, "uuid")
    return _line("assistant", parent, derived_id("asked", parent or "", call.id), message, lines, at_us)


def answered(results: Mapping[str, NativeResult], lines: Sequence[Line], *, at_us: int) -> list[Line]:
    """Lines that answer open calls, each hanging on its own call, in the order of the calls."""
    found = []
    for name, (_, asking) in pending(lines).items():
        if name in results:
            result, parent = results[name], asking["uuid"]
            block = {"type": "tool_result", "tool_use_id": name, "content": result.text, "is_error": result.failed}
            message = {"role": "user", "content": [block]}
            line = _line("user", parent, derived_id("answered", parent, name), message, lines, at_us)
            found.append({**line, "sourceToolAssistantUUID": parent})
    return found


def told(text: str, lines: Sequence[Line], *, at_us: int) -> Line:
    """A line in which the harness, not the user, says this after `lines`."""
    parent = last_text(lines, "uuid")
    message = {"role": "user", "content": text}
    return {**_line("user", parent, derived_id("told", parent or "", text), message, lines, at_us), "isMeta": True}


def moved(lines: Iterable[Line], native_id: str, directory: str) -> Iterator[Line]:
    """The lines as those of another session in another directory; each hangs on a line that is there.

    A result whose call came to us from a hook names a line that we never saw: it hangs on the line that asks.
    """
    known: set[str] = set()
    asking: dict[str, str] = {}
    previous: str | None = None
    for line in lines:
        name, message = line.get("uuid"), message_of(line)
        if not isinstance(name, str) or name in known:
            continue  # nothing can hang on it, or it has been said
        parent, source = line.get("parentUuid"), line.get("sourceToolAssistantUUID")
        asked_by = next((asking[call] for call in ANTHROPIC.answers(message) if call in asking), None)
        begins = is_boundary(line) or (parent is None and is_summary(line))
        if parent not in known and not begins:
            parent = asked_by or previous
        written = {**line, "parentUuid": parent, "sessionId": native_id, "cwd": directory}
        if source is not None and source not in known and asked_by is not None:
            written["sourceToolAssistantUUID"] = asked_by
        known.add(name)
        asking.update((site.id, name) for site in ANTHROPIC.calls(message))
        previous = name
        yield written


def _spoke_last(lines: Sequence[Line]) -> bool:
    said = [line.get("type") for line in lines if line.get("type") in ("user", "assistant")]
    return bool(said) and said[-1] == "assistant"


def _line(kind: str, parent: str | None, name: str, message: object, lines: Sequence[Line], at_us: int) -> Line:
    carried = {field: value for field in _CARRIED if (value := last_text(lines, field)) is not None}
    return {
        "parentUuid": parent,
        "isSidechain": "agentId" in carried,
        "type": kind,
        "message": message,
        "uuid": name,
        "timestamp": stamp(at_us),
        **carried,
    }
