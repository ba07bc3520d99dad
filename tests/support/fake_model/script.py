"""The script: what the fake model answers, as JSON a person can write.

A script is a list of slots; a slot is one turn, or a list of turns for the first, second, ... time it is asked (the
last of them stays). Two modes: `turns` takes the slot by the replies already in the request, so that a resumed agent
gets the right next one; `requests` takes the k-th slot for the k-th request. After the last slot the model says "done".

A turn: {"text", "thinking", "calls", "usage", "stop", "refusal"} for what it says; {"delay", "pace"} in seconds before
the answer and between its pieces; {"until": path} for an answer that comes when this file exists; {"hang" | "reset" |
"cut": "before" | "mid"} for a model that falls silent, a connection that breaks, a stream that ends early; {"status",
"headers", "body"} for an HTTP error (headers also on success); {"error"} for an error inside the stream; {"again":
pattern} for calls that are made again if their result matches, as a careful model does when it is told that an outcome
is unknown.

A call is {"name", "input", "id"?}, or, whoever the agent is, {"shell": "command"}, {"write": {"path", "content"}},
{"edit": {"path", "old", "new"}}, {"agent": {"prompt", "description"?, "background"?}}.

A script with sub-agents is {"slots": [...], "parts": {"text": [slots]}}: a conversation whose first prompt contains the
text is answered from that part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

Mode = Literal["turns", "requests"]
Where = Literal["", "before", "mid"]
OPS: Final = ("shell", "write", "edit", "agent")


class ScriptError(ValueError):
    """A script that cannot be played, with the place and the reason."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A tool call the model makes: a tool by its name, or an op for whichever tool the agent has."""

    name: str = ""
    input: Any = None
    id: str = ""
    op: str = ""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One scripted answer of the model."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    usage: Mapping[str, int] = field(default_factory=dict)
    """input_tokens (not cached), output_tokens, and of the cache and of reasoning: cached, written, reasoning"""
    stop: str = ""
    """in place of the stop reason that follows from the calls: max_tokens, refusal, content_filter, ..."""
    refusal: str = ""
    """what OpenAI's models say in a field of its own"""
    delay: float = 0.0
    until: str = ""
    pace: float = 0.0
    hang: Where = ""
    hang_seconds: float = 3600.0
    reset: Where = ""
    cut: Where = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    again: str = ""
    error: Mapping[str, Any] | None = None
    """{"type", "code", "message"}: told inside of a stream that began with 200"""


DONE: Final = Turn(text="done")


@dataclass(frozen=True, kw_only=True)
class Script:
    """Slots and how they are chosen."""

    slots: tuple[tuple[Turn, ...], ...]
    mode: Mode = "turns"
    parts: Mapping[str, Script] = field(default_factory=dict)
    """by a text in the first prompt: what a sub-agent's model answers"""


def parse(given: Any, mode: Mode = "turns") -> Script:
    """Read a script from JSON: a list of slots, or {"mode", "slots", "parts"}."""
    parts: Mapping[str, Any] = {}
    if isinstance(given, str):
        given = json.loads(given)
    if isinstance(given, Mapping):
        mode, parts, given = given.get("mode", mode), given.get("parts", {}), given.get("slots")
    if mode not in {"turns", "requests"}:
        raise ScriptError(f"mode: {mode!r} is neither turns nor requests")
    if not isinstance(given, Sequence):
        raise ScriptError("a script is a list of slots")
    slots = tuple(_slot(slot, f"slot {location}") for location, slot in enumerate(given))
    return Script(slots=slots, mode=mode, parts={text: parse(part, mode) for text, part in parts.items()})


def _slot(given: Any, location: str) -> tuple[Turn, ...]:
    tries = given if isinstance(given, list | tuple) else [given]
    if not tries:
        raise ScriptError(f"{location}: an empty list of tries")
    return tuple(one if isinstance(one, Turn) else _turn(one, location) for one in tries)


def _turn(given: Any, location: str) -> Turn:
    if not isinstance(given, Mapping):
        raise ScriptError(f"{location}: a turn is an object, not {given!r}")
    known = {one.name for one in fields(Turn)}
    if unknown := sorted(set(given) - known):
        raise ScriptError(f"{location}: unknown {', '.join(unknown)}; a turn has {', '.join(sorted(known))}")
    for name in ("hang", "reset", "cut"):
        if given.get(name, "") not in {"", "before", "mid"}:
            raise ScriptError(f"{location}: {name} is before or mid")
    return Turn(**{**given, "calls": tuple(_call(call, location) for call in given.get("calls", ()))})


def _call(given: Any, location: str) -> Call:
    if isinstance(given, Call):
        return given
    ops = [op for op in OPS if isinstance(given, Mapping) and op in given]
    if len(ops) == 1:
        return Call(op=ops[0], input=given[ops[0]], id=given.get("id", ""))
    if isinstance(given, Mapping) and isinstance(given.get("name"), str) and not set(given) - {"name", "input", "id"}:
        return Call(name=given["name"], input=given.get("input", {}), id=given.get("id", ""))
    raise ScriptError(f"{location}: a call is {{name, input}} or one of {', '.join(OPS)}, not {given!r}")
