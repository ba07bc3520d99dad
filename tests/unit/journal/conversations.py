"""Conversations to test with: valid ones in every provider format, ways to damage them, and arbitrary JSON.

The builders spell the providers' dicts by hand and use nothing of relight's, so that a mistake in a format cannot hide
behind itself. `random_conversation(rng, name)` needs only a seeded `random.Random`; the strategies give hypothesis'
own randomness to the same code, so that failures shrink.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

from hypothesis import strategies as st

FORMAT_NAMES = ("anthropic", "openai_chat", "openai_responses", "bedrock", "gemini")
SHARED = {"anthropic": "content", "bedrock": "content", "gemini": "parts"}
"""formats in which the results of a reply share a message, and the field that they are in"""
MAX_CALLS = 8
MAX_TURNS = 5

Messages = list[dict[str, Any]]
_WORDS = ("done", "", "line 1\nline 2", "é ☃", "0", "null", "[]", "exit 1")
_TOOLS = ("Bash", "exec_command", "Write", "Edit", "read_file", "apply_patch", "charge_card")


# ---------------------------------------------------------------- valid conversations


def random_conversation(rng: Random, name: str, max_turns: int = MAX_TURNS, max_calls: int = MAX_CALLS) -> Messages:
    """A conversation that the provider accepts: prompts, replies with 0 to max_calls calls, all results in place."""
    messages = _opening(rng, name)
    calls = 0
    for turn in range(rng.randint(1, max_turns)):
        count = rng.randint(0, max_calls)
        ids = [f"call_{turn}_{calls + number}" for number in range(count)]
        calls += count
        messages += _BUILDERS[name](rng, ids)
        if not ids or rng.random() < 0.2:
            messages.append(_prompt(rng, name))
    return messages


def _opening(rng: Random, name: str) -> Messages:
    system = [{"role": "system", "content": "be brief"}] if name not in SHARED and rng.random() < 0.3 else []
    return [*system, _prompt(rng, name)]


def _prompt(rng: Random, name: str) -> dict[str, Any]:
    if name in ("bedrock", "gemini"):
        return {"role": "user", SHARED[name]: [{"text": "go on"}]}
    if rng.random() < 0.5:
        return {"role": "user", "content": "go on"}
    if name == "openai_responses":
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]}
    return {"role": "user", "content": [{"type": "text", "text": "go on"}]}


def _anthropic(rng: Random, ids: list[str]) -> Messages:
    content: Messages = []
    if rng.random() < 0.3:
        content.append({"type": "thinking", "thinking": "hm", "signature": "c2ln"})
    if not ids or rng.random() < 0.5:
        content.append({"type": "text", "text": "let me see"})
    for call in ids:
        content.append({"type": "tool_use", "id": call, "name": rng.choice(_TOOLS), "input": {"n": call}})
    reply = {"role": "assistant", "content": content}
    if not ids:
        return [reply]
    results: Messages = [_anthropic_result(rng, call) for call in ids]
    if rng.random() < 0.2:
        results.append({"type": "text", "text": "and hurry"})
    return [reply, {"role": "user", "content": results}]


def _anthropic_result(rng: Random, call: str) -> dict[str, Any]:
    text = rng.choice(_WORDS)
    content: Any = [{"type": "text", "text": text}] if rng.random() < 0.3 else text
    result = {"type": "tool_result", "tool_use_id": call, "content": content}
    return {**result, "is_error": True} if rng.random() < 0.2 else result


def _openai_chat(rng: Random, ids: list[str]) -> Messages:
    reply: dict[str, Any] = {"role": "assistant", "content": "let me see"}
    if not ids:
        return [reply]
    if rng.random() < 0.5:
        reply["content"] = None
    reply["tool_calls"] = [
        {
            "id": call,
            "type": "function",
            "function": {"name": rng.choice(_TOOLS), "arguments": json.dumps({"n": call})},
        }
        for call in ids
    ]
    return [reply, *({"role": "tool", "tool_call_id": call, "content": rng.choice(_WORDS)} for call in ids)]


def _openai_responses(rng: Random, ids: list[str]) -> Messages:
    items: Messages = []
    if not ids or rng.random() < 0.5:
        text = [{"type": "output_text", "text": "let me see"}]
        items.append({"type": "message", "role": "assistant", "content": text})
    outputs: Messages = []
    for call in ids:
        if rng.random() < 0.3:
            items.append({"type": "reasoning", "summary": [], "encrypted_content": "b3BhcXVl"})
        kind, field = ("custom_tool_call", "input") if rng.random() < 0.2 else ("function_call", "arguments")
        items.append({"type": kind, "call_id": call, "name": rng.choice(_TOOLS), field: '{"n": 1}'})
        outputs.append({"type": f"{kind}_output", "call_id": call, "output": rng.choice(_WORDS)})
    return items + outputs


def _bedrock(rng: Random, ids: list[str]) -> Messages:
    content: Messages = []
    if rng.random() < 0.3:
        content.append({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}})
    if not ids or rng.random() < 0.5:
        content.append({"text": "let me see"})
    content += [{"toolUse": {"toolUseId": call, "name": rng.choice(_TOOLS), "input": {"n": call}}} for call in ids]
    reply = {"role": "assistant", "content": content}
    results: Messages = []
    for call in ids:
        inner: Any = [{"json": {"a": 1}}] if rng.random() < 0.2 else [{"text": rng.choice(_WORDS)}]
        status = {"status": "error"} if rng.random() < 0.2 else {}
        results.append({"toolResult": {"toolUseId": call, "content": inner, **status}})
    if ids and rng.random() < 0.2:
        results.append({"text": "and hurry"})
    return [reply, {"role": "user", "content": results}] if ids else [reply]


def _gemini(rng: Random, ids: list[str]) -> Messages:
    parts: Messages = []
    if rng.random() < 0.3:
        parts.append({"text": "hm", "thought": True})
    if not ids or rng.random() < 0.5:
        parts.append({"text": "let me see", "thoughtSignature": "c2ln"})
    called = [(call, rng.choice(_TOOLS)) for call in ids]
    parts += [{"functionCall": {"id": call, "name": tool, "args": {"n": call}}} for call, tool in called]
    reply = {"role": "model", "parts": parts}
    results: Messages = []
    for call, tool in called:
        told = {rng.choice(("output", "error", "temperature")): rng.choice(_WORDS)}
        results.append({"functionResponse": {"id": call, "name": tool, "response": told}})
    if ids and rng.random() < 0.2:
        results.append({"text": "and hurry"})
    return [reply, {"role": "user", "parts": results}] if ids else [reply]


_BUILDERS = {
    "anthropic": _anthropic,
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
    "bedrock": _bedrock,
    "gemini": _gemini,
}


# ---------------------------------------------------------------- results, found without the code under test


def result_id(name: str, piece: Any) -> str | None:
    """The call that this block (in SHARED formats) or message (in the others) answers."""
    if not isinstance(piece, dict):
        return None
    if name == "bedrock":
        return piece["toolResult"]["toolUseId"] if "toolResult" in piece else None
    if name == "gemini":
        return piece["functionResponse"]["id"] if "functionResponse" in piece else None
    if name == "anthropic":
        return piece.get("tool_use_id") if piece.get("type") == "tool_result" else None
    if name == "openai_chat":
        return piece.get("tool_call_id") if piece.get("role") == "tool" else None
    return piece.get("call_id") if str(piece.get("type")).endswith("_output") else None


def results_of(name: str, messages: Messages) -> list[tuple[str, dict[str, Any]]]:
    """Every result in order: the id and the provider's dict for it."""
    pieces = [piece for message in messages for piece in _pieces(name, message)]
    return [(call, piece) for piece in pieces if (call := result_id(name, piece)) is not None]


def call_ids(name: str, messages: Messages) -> list[str]:
    """Ids of all calls in order."""
    if name == "anthropic":
        blocks = [b for m in messages if m["role"] == "assistant" for b in m["content"]]
        return [block["id"] for block in blocks if block["type"] == "tool_use"]
    if name in ("bedrock", "gemini"):
        key, field = ("toolUse", "toolUseId") if name == "bedrock" else ("functionCall", "id")
        return [part[key][field] for message in messages for part in message.get(SHARED[name], ()) if key in part]
    if name == "openai_chat":
        return [call["id"] for message in messages for call in message.get("tool_calls", ())]
    kinds = ("function_call", "custom_tool_call")
    return [item["call_id"] for item in messages if item.get("type") in kinds]


def without_results(name: str, messages: Messages) -> list[Any]:
    """All that is not a result: blocks where results share messages, else messages."""
    pieces = [piece for message in messages for piece in _pieces(name, message)]
    return [piece for piece in pieces if result_id(name, piece) is None]


def _pieces(name: str, message: dict[str, Any]) -> list[Any]:
    content = message.get(SHARED[name]) if name in SHARED else None
    return content if isinstance(content, list) else [message]


# ---------------------------------------------------------------- damage


def remove_results(name: str, messages: Messages, ids: set[str]) -> Messages:
    """The conversation without the results of these calls; messages that become empty go with them."""
    kept: Messages = []
    for message in messages:
        pieces = _pieces(name, message)
        left = [piece for piece in pieces if result_id(name, piece) not in ids]
        if len(left) == len(pieces):
            kept.append(message)
        elif left:
            kept.append({**message, SHARED[name]: left})
    return kept


def as_message(name: str, piece: dict[str, Any]) -> dict[str, Any]:
    """A result as a message of its own."""
    return {"role": "user", SHARED[name]: [piece]} if name in SHARED else piece


def foreign_result(name: str, call: str = "call_of_nobody") -> dict[str, Any]:
    """A result for a call that was never made."""
    if name == "anthropic":
        return {"type": "tool_result", "tool_use_id": call, "content": "?"}
    if name == "bedrock":
        return {"toolResult": {"toolUseId": call, "content": [{"text": "?"}]}}
    if name == "gemini":
        return {"functionResponse": {"id": call, "name": "f", "response": {"output": "?"}}}
    if name == "openai_chat":
        return {"role": "tool", "tool_call_id": call, "content": "?"}
    return {"type": "function_call_output", "call_id": call, "output": "?"}


def damaged(rng: Random, name: str, messages: Messages, max_blows: int = 6) -> Messages:
    """Results lost, doubled, moved, foreign, mixed up; a word in between; the end cut off. Calls stay as they are."""
    messages = deepcopy(messages)
    for _ in range(rng.randint(0, max_blows)):
        messages = rng.choice(_BLOWS)(rng, name, messages)
    return messages


def spoilt(messages: Messages) -> Iterator[Messages]:
    """The conversation with one field or element at a time missing, or holding something odd."""
    for path in _paths(messages):
        for odd in (_MISSING, *_ODDITIES):
            copy: Any = deepcopy(messages)
            location = copy
            for key in path[:-1]:
                location = location[key]
            if odd is _MISSING:
                del location[path[-1]]
            elif len(path) > 1:  # a message itself is always a dict
                location[path[-1]] = odd
            yield copy


_MISSING = object()
_ODDITIES: tuple[Any, ...] = (
    *(None, True, 0, 10**30, 1.5, "", "x", '{"a": 1}', "data:;base64,", [], ["x"], [None], [[]], {}),
    *([{}], [{"type": []}], {"type": {}}, [{"type": "text"}], [{"type": "tool_result"}], [{"type": "input_text"}]),
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every place inside, outermost first."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inside:
        yield (*path, key)
        yield from _paths(item, (*path, key))


def _cut(rng: Random, name: str, messages: Messages) -> Messages:
    return messages[: rng.randint(1, len(messages))] if messages else []


def _lose(rng: Random, name: str, messages: Messages) -> Messages:
    results = results_of(name, messages)
    return remove_results(name, messages, {rng.choice(results)[0]}) if results else messages


def _double(rng: Random, name: str, messages: Messages) -> Messages:
    results = results_of(name, messages)
    return _put(rng, name, messages, deepcopy(rng.choice(results)[1])) if results else messages


def _move(rng: Random, name: str, messages: Messages) -> Messages:
    results = results_of(name, messages)
    if not results:
        return messages
    call, piece = rng.choice(results)
    return _put(rng, name, remove_results(name, messages, {call}), piece)


def _add_foreign(rng: Random, name: str, messages: Messages) -> Messages:
    return _put(rng, name, messages, foreign_result(name))


def _interrupt(rng: Random, name: str, messages: Messages) -> Messages:
    at = rng.randint(1, max(1, len(messages)))
    word = {"role": "user", "parts": [{"text": "wait"}]} if name == "gemini" else {"role": "user", "content": "wait"}
    return [*messages[:at], word, *messages[at:]]


def _mix(rng: Random, name: str, messages: Messages) -> Messages:
    """Results in another order within their stretch: inside one message, or among neighbours."""
    carriers = [i for i, message in enumerate(messages) if results_of(name, [message])]
    if not carriers:
        return messages
    first = last = rng.choice(carriers)
    if name in SHARED:
        content = list(messages[first][SHARED[name]])
        rng.shuffle(content)
        return [*messages[:first], {**messages[first], SHARED[name]: content}, *messages[first + 1 :]]
    while last + 1 in carriers:
        last += 1
    stretch = messages[first : last + 1]
    rng.shuffle(stretch)
    return [*messages[:first], *stretch, *messages[last + 1 :]]


def _put(rng: Random, name: str, messages: Messages, piece: dict[str, Any]) -> Messages:
    """Somewhere: as a message of its own, or (in SHARED formats) inside a user message that has blocks."""
    at = rng.randint(0, len(messages))
    if name in SHARED and at < len(messages) and rng.random() < 0.5:
        target, field = messages[at], SHARED[name]
        if target["role"] == "user" and isinstance(target[field], list):
            content = [*target[field], piece] if rng.random() < 0.5 else [piece, *target[field]]
            return [*messages[:at], {**target, field: content}, *messages[at + 1 :]]
    return [*messages[:at], as_message(name, piece), *messages[at:]]


_BLOWS = (_cut, _lose, _lose, _double, _move, _move, _add_foreign, _interrupt, _mix)


# ---------------------------------------------------------------- strategies


def conversations(name: str) -> st.SearchStrategy[Messages]:
    """Valid conversations of one format."""
    return st.randoms(use_true_random=False).map(lambda rng: random_conversation(rng, name))


def damaged_conversations(name: str) -> st.SearchStrategy[Messages]:
    """Conversations of one format after up to six blows."""
    return st.randoms(use_true_random=False).map(lambda rng: damaged(rng, name, random_conversation(rng, name)))


_SPRINKLED = {
    "fields": "role type content tool_calls tool_call_id function_call function custom id call_id name arguments"
    " input output tool_use_id is_error text source url data media_type image_url summary encrypted_content thinking"
    " signature stop_reason status outcome exit_code stdout action operation refusal reasoning_content parts toolUse"
    " toolResult toolUseId json reasoningContent functionCall function_call functionResponse response args thought",
    "values": "user assistant model tool system developer function message text tool_use tool_result thinking image"
    " redacted_thinking document server_tool_use web_search_tool_result function_call function_call_output"
    " custom_tool_call custom_tool_call_output local_shell_call local_shell_call_output shell_call shell_call_output"
    " apply_patch_call apply_patch_call_output reasoning input_text output_text input_image image_url computer_call",
}
_FIELDS = _SPRINKLED["fields"].split()
_VALUES = _SPRINKLED["values"].split()


def json_values() -> st.SearchStrategy[Any]:
    """Any JSON, with the providers' own words sprinkled in, so that it reaches past the first type check."""
    scalars = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5)
        | st.sampled_from(_VALUES)
    )
    keys = st.sampled_from(_FIELDS) | st.text(max_size=3)
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5), max_leaves=8
    )


def json_dicts() -> st.SearchStrategy[dict[str, Any]]:
    """Message-shaped dicts in which any field may hold anything."""
    blocks = st.lists(st.dictionaries(st.sampled_from(_FIELDS), json_values(), max_size=6), max_size=4)
    plain = st.sampled_from(_VALUES)
    shaped = st.fixed_dictionaries(
        {},
        optional={
            "role": plain | json_values(),
            "type": plain | json_values(),
            "content": blocks | json_values(),
            "tool_calls": blocks | json_values(),
            "tool_call_id": st.sampled_from("ab") | json_values(),
            "call_id": st.sampled_from("ab") | json_values(),
            "output": blocks | json_values(),
        },
    )
    return shaped | st.dictionaries(st.sampled_from(_FIELDS) | st.text(max_size=3), json_values(), max_size=6)
