"""Conversion of a conversation for an agent: into the grammar, cut to size, written, read back, compared, checked.

The report holds every difference between the conversation and what the target reads of it. Faults are rules that
providers enforce: a conversation with a fault must not be started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from relight.journal.conversion.dialect import Dialect
from relight.journal.conversion.grammar import faults, grouped, normalised
from relight.journal.conversion.losses import Loss, LossReport, differences
from relight.journal.conversion.tools import Tool, neutral_call
from relight.values.view import Block, Call, Image, Message, Result, Text

MAX_CHARS: Final = 600_000
"""of a conversation that is handed over, about 150,000 tokens; images count as `_IMAGE_CHARS`"""
_IMAGE_CHARS: Final = 6000
_NO_RESULTS: Final[Mapping[str, Result]] = {}


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as lines of another agent."""

    lines: list[dict[str, Any]]
    messages: list[Message]
    """what the target reads"""
    losses: list[Loss]
    faults: list[str]
    """why it must not be started; empty if it may be"""


def convert(
    messages: Sequence[Message],
    target: Dialect,
    *,
    at_us: int,
    closings: Mapping[str, Result] = _NO_RESULTS,
    first: str | None = None,
    max_chars: int = MAX_CHARS,
) -> Converted:
    """The lines for the target, what is lost, and what is wrong with them. Arguments as in `normalised`."""
    report = LossReport()
    whole = normalised(messages, report, closings=closings, first=first)
    given = _cut(_shortened(whole, target.max_result), max_chars)
    report.extend(differences(whole, given))
    lines = target.written(given, at_us=at_us)
    # Not normalised: that would repair what the writer left out, and hide it.
    read = grouped(target.spoken(lines))
    report.extend(differences(given, read))
    wrong = faults(read) + [fault for line in lines for fault in target.line_faults(line)]
    return Converted(lines=lines, messages=read, losses=report.losses(), faults=wrong)


def in_neutral_terms(messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[Message]:
    """The messages with every call in neutral terms."""
    return [
        msgspec.structs.replace(
            message,
            blocks=tuple(neutral_call(one, tools) if isinstance(one, Call) else one for one in message.blocks),
        )
        for message in messages
    ]


def _shortened(messages: Sequence[Message], most: int | None) -> list[Message]:
    """The messages with results of at most so many characters: their beginning and their end."""
    if most is None:
        return list(messages)
    return [
        msgspec.structs.replace(message, blocks=tuple(_short(block, most) for block in message.blocks))
        for message in messages
    ]


def _short(block: Block, most: int) -> Block:
    if not isinstance(block, Result) or len(block.text) <= most:
        return block
    note = f"\n[... {len(block.text) - most} characters were left out here ...]\n"
    return msgspec.structs.replace(
        block, text=block.text[: most // 2] + note + block.text[len(block.text) - most // 2 :]
    )


def _cut(messages: list[Message], most: int) -> list[Message]:
    """The newest messages of at most so many characters, from a message of the user on, after a note. If no message
    of the user is among them: the newest one of the user, and what follows."""
    sizes = [sum(map(_size, message.blocks)) for message in messages]
    if sum(sizes) <= most:
        return messages
    room, start = most, len(messages)
    while start and sizes[start - 1] <= room:
        start -= 1
        room -= sizes[start]
    asked = [index for index, message in enumerate(messages) if message.role == "user"]
    start = next((index for index in asked if index >= start), asked[-1] if asked else 0)
    note = f"[{start} earlier messages of this conversation were left out: they are too long for one request.]"
    return [Message(role="user", blocks=(Text(text=note),), index=0), *messages[start:]] if start else messages


def _size(block: Block) -> int:
    if isinstance(block, Image):
        return _IMAGE_CHARS
    if isinstance(block, Call):
        return len(msgspec.json.encode(block.arguments))
    return len(block.text)
