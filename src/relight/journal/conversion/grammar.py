"""The grammar that every provider accepts: `normalised` enforces it for any source, `faults` checks it for a target.

The first message is the user's. Each call has exactly one result; the results of a reply follow it directly, in the
order of its calls. Ids are unique, ids and names are of few characters, arguments are objects, no text is empty, and
there is no reasoning, which is bound to one model: providers refuse a request that breaks one of these rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from relight.journal.conversion.losses import LossReport
from relight.values.call import OUTCOME_UNKNOWN
from relight.values.view import Block, Call, Image, Message, Reason, Result, Text

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_PLACEHOLDER: Final = re.compile(r"\[[a-z_]{3,40}\]", re.ASCII)
NO_BEGINNING: Final = "(The beginning of this conversation was not recorded.)"
NO_RESULT: Final = f"{OUTCOME_UNKNOWN}. No result of this call was recorded."

Answer = tuple[Block, ...]
"""a result and its images"""


def normalised(
    messages: Sequence[Message], report: LossReport, *, closings: Mapping[str, Result], first: str | None = None
) -> list[Message]:
    """The conversation in this grammar; everything that is not carried over is added to the report.

    `closings`: results for calls that have none. `first`: what the user asked for, if no message says it.
    """
    answers = _answers(messages, report)
    ids = _Ids(report)
    found: list[Message] = []
    for message in _merged(_without_bound_content(messages, report)):
        if message.role != "assistant":
            found.append(message)
            continue
        calls = [block for block in message.blocks if isinstance(block, Call)]
        renamed = {id(call): ids.unique(call) for call in calls}
        blocks = tuple(renamed[id(one)] if isinstance(one, Call) else one for one in message.blocks)
        found.append(Message(role="assistant", blocks=blocks, index=0))
        results = tuple(
            block for call in calls for block in _answered(_answer(call, answers, closings), renamed[id(call)].id)
        )
        if results:
            found.append(Message(role="tool", blocks=results, index=0))
    report.add("dropped", "result without its call", sum(map(len, answers.values())))
    if found and found[0].role != "user":
        report.add("added", "first message of the user")
        found.insert(0, Message(role="user", blocks=(Text(text=first or NO_BEGINNING),), index=0))
    return found


def grouped(messages: Sequence[Message]) -> list[Message]:
    """What a reader found, with one message for each reply and one for its results; nothing is repaired."""
    found: list[Message] = []
    for message in messages:
        if message.role == "system" or not message.blocks:
            continue
        if found and message.role == found[-1].role != "user":
            found[-1] = Message(role=message.role, blocks=found[-1].blocks + message.blocks, index=0)
        else:
            found.append(Message(role=message.role, blocks=message.blocks, index=0))
    return found


def faults(messages: Sequence[Message]) -> list[str]:
    """Rules of the grammar that these messages break."""
    found = [] if not messages or messages[0].role == "user" else ["the first message is not the user's"]
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        results = [block.call for block in message.blocks if isinstance(block, Result)]
        if waiting != results:
            found.append(f"calls {waiting} are followed by results of {results}")
        waiting = []
        for block in message.blocks:
            if isinstance(block, Reason):
                found.append("it holds reasoning, which is bound to another model")
            elif isinstance(block, Text) and not block.text.strip():
                found.append("a text is empty")
            elif isinstance(block, Call):
                found += _call_faults(block, seen)
                seen.add(block.id)
                waiting.append(block.id)
    return found + ([f"calls {waiting} have no result"] if waiting else [])


def _call_faults(call: Call, seen: set[str]) -> list[str]:
    found = [f"the id {call.id!r} is used twice"] if call.id in seen else []
    if _ID.fullmatch(call.id) is None or _ID.fullmatch(call.name) is None:
        found.append(f"the id or name of call {call.id!r} is not accepted: {call.name!r}")
    if not isinstance(call.arguments, dict):
        found.append(f"the arguments of call {call.id!r} are no object")
    return found


class _Ids:
    """Ids and names of calls that every provider accepts; the first call of an id keeps it."""

    def __init__(self, report: LossReport) -> None:
        self._report, self._used = report, set[str]()

    def unique(self, call: Call) -> Call:
        named = call.id if _ID.fullmatch(call.id) and call.id not in self._used else self._new()
        self._used.add(named)
        tool = re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:64] or "tool"
        self._report.add("changed", "id of a call", named != call.id)
        self._report.add("changed", "name of a tool", tool != call.name)
        return msgspec.structs.replace(call, id=named, name=tool)

    def _new(self) -> str:
        number = len(self._used) + 1
        while f"call_{number}" in self._used:
            number += 1
        return f"call_{number}"


def _without_bound_content(messages: Sequence[Message], report: LossReport) -> list[Message]:
    """User's and model's messages without reasoning and empty texts. Tools' messages mark where results were."""
    found: list[Message] = []
    for message in messages:
        if message.role == "system":
            report.add("dropped", "text of the agent's own instructions", sum(map(_has_text, message.blocks)))
            continue
        report.add("dropped", "reasoning of the model", sum(isinstance(block, Reason) for block in message.blocks))
        blocks = tuple(block for block in message.blocks if _stays(block))
        for block in blocks:
            if isinstance(block, Text) and _PLACEHOLDER.fullmatch(block.text):
                report.add("dropped", f"content of a {block.text[1:-1]}")
        if blocks or message.role == "tool":
            found.append(Message(role=message.role, blocks=blocks, index=0))
    return found


def _stays(block: Block) -> bool:
    return not isinstance(block, Reason | Result) and not (isinstance(block, Text) and not block.text.strip())


def _has_text(block: Block) -> bool:
    return isinstance(block, Text) and bool(block.text.strip())


def _merged(messages: Sequence[Message]) -> list[Message]:
    """One message for each reply: what the model said until a result or another role's message came."""
    found: list[Message] = []
    previous = None
    for message in messages:
        if message.role == "assistant" and previous == "assistant":
            found[-1] = Message(role="assistant", blocks=found[-1].blocks + message.blocks, index=0)
        elif message.role != "tool":
            found.append(message)
        previous = message.role
    return found


def _answers(messages: Sequence[Message], report: LossReport) -> dict[str, list[Answer]]:
    """Results by call, each with its images, in order."""
    found: dict[str, list[Answer]] = {}
    for message in messages:
        last: list[Answer] | None = None
        for block in message.blocks:
            if isinstance(block, Result):
                last = found.setdefault(block.call, [])
                last.append((block,))
            elif isinstance(block, Image) and message.role == "tool":
                if last is None:
                    report.add("dropped", "image without a result")
                else:
                    last[-1] = (*last[-1], block)
    return found


def _answer(call: Call, answers: dict[str, list[Answer]], closings: Mapping[str, Result]) -> Answer:
    known = answers.get(call.id)
    if known:
        return known.pop(0)
    return (closings.get(call.id) or Result(call=call.id, status="unknown", text=NO_RESULT, synthetic=True),)


def _answered(answer: Answer, call: str) -> Answer:
    """The result of this call. Providers refuse an empty text."""
    [result, *images] = answer
    assert isinstance(result, Result)
    text = result.text if result.text.strip() or images else "(no output)"
    return (msgspec.structs.replace(result, call=call, text=text), *images)
