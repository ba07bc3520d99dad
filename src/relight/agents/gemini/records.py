"""Records of a session file of Gemini CLI as lines, and lines as records.

The file is only appended to. A record with an id replaces the one of this id; `{"$set": {"messages": [...]}}` replaces
all; `{"$rewindTo": ID}` removes those from this one on. On resuming, Gemini CLI sends a result twice if it is both in a
reply's `toolCalls` and in the record that follows it, as it writes them itself; a provider refuses that. So what is
resumed is written in another form that it reads too: calls and results are parts of the contents, and nowhere else.

Ids of calls: Gemini CLI's hooks do not have them, and its own are only on disk when the call has ended. So a call has
an id that both can be known by: made of its reply's id, its tool and its arguments.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from relight.agents.gemini.format import GEMINI_CLI, REPLY, SAID, parts_of
from relight.agents.native.line_format import call_key
from relight.agents.native.names import derived_id, stamp
from relight.journal.formats.content import json_text, text_of
from relight.ports.agent import Entry, Line, NativeCall, NativeResult
from relight.values.usage import Usage

_OF_THE_HARNESS: Final = ("<session_context>", "<hook_context>")
"""prefixes of texts in user records that no user wrote: Gemini CLI adds them whenever it starts"""
_COMMANDS: Final = ("/", "?")
_GUARD: Final = "\N{ZERO WIDTH SPACE}"
"""before a prompt that begins like a command: Gemini CLI would leave it out when it resumes"""
_CALL_CHARS: Final = 24
RESULTS: Final = "_response"
"""end of the id of the record with the results of a reply, as Gemini CLI names it"""


def call_id(reply: str, tool: str, arguments: Any, nth: int = 0) -> str:
    """The id of a call: the `nth` with this tool and these arguments in this reply."""
    said = json.dumps([reply, tool, arguments, nth], sort_keys=True, separators=(",", ":"), default=str)
    return "call_" + sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:_CALL_CHARS]


# ---------------------------------------------------------------- records -> lines


def resolved(raw: Iterable[Line]) -> list[Line]:
    """The records that count, in order, as Gemini CLI itself reads them."""
    found: dict[str, Line] = {}
    for line in raw:
        if isinstance(line.get("$rewindTo"), str):
            names = list(found)
            start = names.index(line["$rewindTo"]) if line["$rewindTo"] in found else 0
            for name in names[start:]:
                del found[name]
        elif isinstance(line.get("id"), str):
            found[line["id"]] = line
        else:
            patch = line.get("$set")
            given = patch if isinstance(patch, dict) else line
            if isinstance(given.get("messages"), list):
                if given is patch:
                    found.clear()
                found |= {one["id"]: one for one in given["messages"] if _has_id(one)}
    return list(found.values())


def _has_id(record: Any) -> bool:
    return isinstance(record, dict) and isinstance(record.get("id"), str)


def lines_of(records: Iterable[Line]) -> list[Line]:
    """The lines of these records."""
    found: list[Line] = []
    ours: dict[str, str] = {}
    answered: set[str] = set()
    for record in records:
        if not GEMINI_CLI.recognises(record):
            continue
        made = _replied(record, ours) if record["type"] == REPLY else _said(record, ours)
        # A result that is on disk twice counts once.
        fresh = [line for line in made if not answered.intersection(GEMINI_CLI.answers(line))]
        answered.update(name for line in fresh for name in GEMINI_CLI.answers(line))
        found += fresh
    return found


def _replied(record: Line, ours: dict[str, str]) -> list[Line]:
    """The words of a reply, its calls, and the results that came with it. `ours`: our ids by Gemini CLI's own."""
    parts = parts_of(record.get("content"))
    words = [part for part in parts if "functionCall" not in part]
    given = record.get("toolCalls")
    ended = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    place = {name: record[name] for name in ("id", "timestamp", "type")}
    kept = {name: value for name, value in record.items() if name != "toolCalls"}
    said = [{**kept, "content": words}]
    if not ended:
        return [*said, *({**place, "content": [part]} for part in parts if part not in words)]
    seen: Counter[str] = Counter()
    calls, results = [], []
    for one in ended:
        name, args = text_of(one.get("name")), one.get("args")
        first = call_id(record["id"], name, args)
        known = call_id(record["id"], name, args, seen[first])
        seen[first] += 1
        ours[text_of(one.get("id"))] = known
        calls.append({**place, "content": [{"functionCall": {"id": known, "name": name, "args": args}}]})
        if one.get("result") is not None:
            place_after = {"id": record["id"] + RESULTS, "timestamp": record["timestamp"], "type": SAID}
            results.append({**place_after, "content": _result(one["result"], known, name)})
    return [*said, *calls, *results]


def _result(given: Any, known: str, name: str) -> list[Any]:
    if isinstance(given, str) or not any("functionResponse" in part for part in parts_of(given)):
        return [{"functionResponse": {"id": known, "name": name, "response": {"output": json_text(given)}}}]
    return [_named(part, known) for part in parts_of(given)]


def _named(part: dict[str, Any], known: str) -> dict[str, Any]:
    inner = part.get("functionResponse")
    return {**part, "functionResponse": {**inner, "id": known}} if isinstance(inner, dict) else part


def _said(record: Line, ours: Mapping[str, str]) -> list[Line]:
    """What the user said, and each result in it, with the parts that follow it."""
    words: list[dict[str, Any]] = []
    results: list[list[dict[str, Any]]] = []
    for part in parts_of(record.get("content")):
        inner = part.get("functionResponse")
        if isinstance(inner, dict):
            native = text_of(inner.get("id"))
            results.append([_named(part, ours.get(native, native))])
        else:
            (results[-1] if results else words).append(part)
    text = "".join(text_of(part.get("text")) for part in words).strip()
    made = [{**record, "content": content} for content in results]
    if not words or text.startswith(_OF_THE_HARNESS):
        return made
    return [{**record, "content": [_without_guard(words[0]), *words[1:]]}, *made]


def _without_guard(part: dict[str, Any]) -> dict[str, Any]:
    text = part.get("text")
    return {**part, "text": text.removeprefix(_GUARD)} if isinstance(text, str) else part


# ---------------------------------------------------------------- lines -> records


def records_of(lines: Iterable[Line]) -> list[Line]:
    """The records with what these lines say, in the form that is resumed without loss."""
    found: dict[str, Line] = {}
    for line in lines:
        content = parts_of(line.get("content"))
        if line["id"] in found:
            found[line["id"]]["content"] += content
        else:
            found[line["id"]] = {**line, "content": content}
    for record in found.values():
        first = record["content"][0].get("text") if record["content"] and record["type"] == SAID else None
        if isinstance(first, str) and first.strip().startswith(_COMMANDS):
            record["content"][0] = {**record["content"][0], "text": _GUARD + first}
    return list(found.values())


# ---------------------------------------------------------------- entries


def entries(lines: Sequence[Line]) -> tuple[Entry, ...]:
    """The entries of these lines."""
    last = {line["id"]: index for index, line in enumerate(lines)}
    return tuple(_entry(line, is_last=last[line["id"]] == index) for index, line in enumerate(lines))


def _entry(line: Line, *, is_last: bool) -> Entry:
    replied = line["type"] == REPLY
    usage = _usage(line.get("tokens")) if replied else None
    model = line.get("model")
    # Whether a reply has calls is only on disk when they have ended: until then, one with words looks like the last.
    ends = replied and is_last and bool(line["content"]) and not GEMINI_CLI.calls(line)
    return Entry(
        key=key_of(line),
        line=line,
        usage=usage,
        model=model if usage is not None and isinstance(model, str) else None,
        ends_turn=ends,
    )


def _usage(given: Any) -> Usage | None:
    """The tokens of one reply; its input includes what was read from the cache, thinking is beside the output."""
    counts = {name: value for name, value in given.items() if isinstance(value, int)} if isinstance(given, dict) else {}
    cached, thoughts = counts.get("cached", 0), counts.get("thoughts", 0)
    usage = Usage(
        input_tokens=max(counts.get("input", 0) - cached, 0) + counts.get("tool", 0),
        output_tokens=counts.get("output", 0) + thoughts,
        reasoning_tokens=thoughts,
        cache_read_tokens=cached,
    )
    return usage if usage.tokens else None


def key_of(line: Line) -> str:
    """The `Entry.key` of a line."""
    return call_key(GEMINI_CLI, line) or f"line:{line.get('id')}"


def pending(lines: Iterable[Line]) -> dict[str, tuple[NativeCall, str]]:
    """Calls without a result, by id, each with the id of its reply."""
    found: dict[str, tuple[NativeCall, str]] = {}
    for line in lines:
        for name in GEMINI_CLI.answers(line):
            found.pop(name, None)
        for site in GEMINI_CLI.calls(line):
            call = NativeCall(id=site.id, name=site.name, arguments=site.parsed())
            found[site.id] = (call, text_of(line.get("id")))
    return found


def model_of(lines: Iterable[Line]) -> str | None:
    """The model of the last reply."""
    models = [line.get("model") for line in lines if line.get("type") == REPLY]
    return next((model for model in reversed(models) if isinstance(model, str)), None)


# ---------------------------------------------------------------- lines of our own


def prompted(text: str, *, at_us: int) -> Line:
    """A line in which the user says this, the first of a session."""
    return {"id": derived_id("prompted", text), "timestamp": stamp(at_us), **GEMINI_CLI.user(text)}


def asked(call: NativeCall, lines: Sequence[Line], *, at_us: int) -> Line:
    """A model line with this call: of the last reply, if nothing was said since."""
    last = lines[-1] if lines else {}
    reply = text_of(last.get("id")) if last.get("type") == REPLY else derived_id("asked", call.id)
    part = {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments or {}}}
    return {"id": reply, "timestamp": stamp(at_us), "type": REPLY, "content": [part]}


def answered(results: Mapping[str, NativeResult], lines: Sequence[Line], *, at_us: int) -> list[Line]:
    """Lines that answer open calls, in the order of the calls."""
    found: list[Line] = []
    for name, (call, reply) in pending(lines).items():
        if name in results:
            response = {"error" if results[name].failed else "output": results[name].text}
            part = {"functionResponse": {"id": name, "name": call.name, "response": response}}
            found.append({"id": reply + RESULTS, "timestamp": stamp(at_us), "type": SAID, "content": [part]})
    return found
