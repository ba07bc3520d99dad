"""Lines that we write into a Codex rollout: calls, results, and whole threads under a new id.

A thread that we write is self-contained: it names no parent, and a provider that is configured at its destination, so
that it can be resumed there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from relight.agents.codex.directories import Providers
from relight.agents.codex.rollout import ITEM, META, last_ordinal, payload_of, pending
from relight.agents.codex.screen import shown
from relight.agents.native.names import stamp
from relight.ports.agent import Line, NativeCall, NativeResult

_OUTPUTS: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "function_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
_FREE_TEXT: Final = frozenset({"apply_patch"})
"""tools whose call is a text and not an object"""
_LEFT_OUT: Final = (
    "history_base",
    "forked_from_id",
    "forked_from_ordinal_exclusive",
    "forked_from",
    "parent_thread_id",
)
_VERSION: Final = "0.0.0"


def prompted(text: str, *, at_us: int) -> Line:
    """A line in which the user says this, the first of a thread."""
    return told(text, (), at_us=at_us)


def told(text: str, lines: Sequence[Line], *, at_us: int) -> Line:
    """A line that says this after `lines`, in the user's name: Codex says so too what its harness has to say."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return _line(item, lines, 0, at_us)


def asked(call: NativeCall, lines: Sequence[Line], *, at_us: int) -> Line:
    """A model line with this call."""
    if isinstance(call.arguments, str) and call.name in _FREE_TEXT:
        item = {"type": "custom_tool_call", "name": call.name, "input": call.arguments, "call_id": call.id}
    else:
        text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments or {})
        item = {"type": "function_call", "name": call.name, "arguments": text, "call_id": call.id}
    return _line(item, lines, 0, at_us)


def answered(results: Mapping[str, NativeResult], lines: Sequence[Line], *, at_us: int) -> list[Line]:
    """Lines that answer open calls, in the order of the calls."""
    found: list[Line] = []
    for name, (_, kind) in pending(lines).items():
        if name in results:
            item = {"type": _OUTPUTS.get(kind, "function_call_output"), "call_id": name, "output": results[name].text}
            found.append(_line(item, lines, len(found), at_us))
    return found


def moved(lines: Iterable[Line], native_id: str, directory: str, *, providers: Providers, at_us: int) -> Iterator[Line]:
    """The lines as those of another thread in another directory, renumbered, and what its screen shows of them."""
    given = list(lines)
    former = next((payload_of(line) for line in given if line.get("type") == META), {})
    provider = providers.choose(former.get("model_provider"))
    meta = {**_meta(former, native_id, directory, at_us), "model_provider": provider}
    yield {"timestamp": stamp(at_us), "ordinal": 0, "type": META, "payload": meta}
    rest = (line for line in given if line.get("type") != META)
    whole = (one for line in rest for one in (line, *shown(line, native_id)))
    yield from ({**line, "ordinal": ordinal} for ordinal, line in enumerate(whole, 1))


def _meta(former: dict[str, Any], native_id: str, directory: str, at_us: int) -> dict[str, Any]:
    """What describes the thread, after what described it before."""
    given = {name: value for name, value in former.items() if name not in _LEFT_OUT}
    if "runtime_workspace_roots" in given:
        given["runtime_workspace_roots"] = [directory]
    return {
        "originator": "codex_exec",
        "cli_version": _VERSION,
        "history_mode": "paginated",
        **given,
        **({"session_id": native_id} if "session_id" in given else {}),
        "id": native_id,
        "timestamp": stamp(at_us),
        "cwd": directory,
    }


def _line(item: dict[str, Any], lines: Sequence[Line], index: int, at_us: int) -> Line:
    ordinal = last_ordinal(lines)
    numbered = {} if ordinal is None else {"ordinal": ordinal + 1 + index}
    return {"timestamp": stamp(at_us), **numbered, "type": ITEM, "payload": item}
