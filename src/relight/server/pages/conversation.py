"""The conversation as a reader sees it, from a window of the journal: messages with their blocks, and where it was cut.

Long values come as their beginning with their size; a picture is its type and size until somebody asks for it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from relight.history.events import Event
from relight.journal.formats.registry import detect
from relight.library.facade import Loaded
from relight.server.pages.inert import preview
from relight.text import format as words
from relight.text.call_names import CallNames
from relight.text.safe import shortened
from relight.values.view import Call, Image, Reason, Result, Text

_BASE64: Final = 4 / 3
_ADDRESS: Final = 300
MAX_IMAGE: Final = 10_000_000
"""bytes of an image that a page shows"""
_BEGINS: Final = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
"""kinds that are nothing but a picture, by how they begin; what a message says of itself is not relied on"""


class Part(msgspec.Struct, kw_only=True):
    """One block of a message."""

    kind: Literal["text", "reason", "call", "result", "image"]
    text: str = ""
    title: str = ""
    mark: str = ""
    role: str = ""
    cut: bool = False
    """there is more of it"""
    size: str = ""
    index: int = 0
    """its place in the step, for the address of the whole of it"""
    synthetic: bool = False
    inside: bool = False
    """an image whose bytes are in the journal, and few enough to be shown"""


class Said(msgspec.Struct, kw_only=True):
    """One speaker's turn, or a place where the conversation was cut."""

    seq: int
    at: datetime
    speaker: str
    parts: list[Part] = []
    cut: str = ""
    """a compaction or a rewind: what happened here"""
    left: bool = False
    """not in the model's view now"""


def conversation(
    events: Iterable[Event],
    provider: str | None,
    view: frozenset[int] | None,
    load: Callable[[], Loaded] | None = None,
) -> list[Said]:
    """The messages of these events, in order. `load`: the session, asked for the name of a call before them."""
    said: list[Said] = []
    names = CallNames(lambda name, arguments: name, load)
    for event in events:
        left = view is not None and event.seq not in view
        if event.kind == "rewind":
            text = f"rewound to @{event.base}: what stands between it and here left the model's view, and is kept"
            said.append(Said(seq=event.seq, at=event.at, speaker="", cut=text))
        if event.kind == "reset":
            text = f"compacted: from here the model sees these {len(event.messages)} messages instead of all before"
            said.append(Said(seq=event.seq, at=event.at, speaker="", cut=text))
        said += _messages(event, provider, left, names)
        said += _outcomes(event, left, names)
    return said


def _messages(event: Event, provider: str | None, left: bool, names: CallNames) -> list[Said]:
    if not event.messages:
        return []
    found: list[Said] = []
    index = 0
    for message in detect(event.messages, provider).read(event.messages):
        one = Said(seq=event.seq, at=event.at, speaker=message.role, left=left)
        for block in message.blocks:
            if isinstance(block, Call):
                names.learn(block.id, block.name, block.arguments)
            part = part_of(block, called=names.of)
            part.index, index = index, index + 1
            one.parts = [*one.parts, part]
        if one.parts:
            found.append(one)
    return found


def _outcomes(event: Event, left: bool, names: CallNames) -> list[Said]:
    """Results that the journal holds beside the messages."""
    ended = [one for one in event.outcomes if one["status"] != "void"]
    results = [Result(call=str(one["id"]), status=one["status"], text=as_text(one["content"])) for one in ended]
    parts = [part_of(one, called=names.of) for one in results]
    for place, part in enumerate(parts):
        part.index = 1000 + place
    return [Said(seq=event.seq, at=event.at, speaker="tool", parts=parts, left=left)] if parts else []


def part_of(block: Any, *, whole: bool = False, called: Callable[[str], str] | None = None) -> Part:
    """A block as it is shown."""
    if isinstance(block, Text):
        return _long("text", block.text, whole=whole)
    if isinstance(block, Reason):
        part = _long("reason", block.text, whole=whole)
        part.title = "reasoning" if block.text else "reasoning, kept by the provider"
        return part
    if isinstance(block, Call):
        part = _long("call", as_text(block.arguments), whole=whole)
        part.title = block.name
        return part
    if isinstance(block, Result):
        part = _long("result", block.text, whole=whole)
        part.mark, part.role = {"ok": ("✓", "ok"), "error": ("✗", "bad")}.get(block.status, ("!", "warn"))
        part.title, part.synthetic = f"result of {called(block.call)}" if called else "result", block.synthetic
        return part
    assert isinstance(block, Image)
    number = int(len(block.data) / _BASE64)
    size = words.size(number) if block.data else ""
    inside = 0 < number <= MAX_IMAGE
    return Part(
        kind="image", title=block.media or "image", size=size, text=shortened(block.url, _ADDRESS), inside=inside
    )


def _long(kind: Literal["text", "reason", "call", "result"], text: str, *, whole: bool) -> Part:
    shown, is_cut = (text, False) if whole else preview(text)
    return Part(kind=kind, text=shown, cut=is_cut, size=words.size(len(text.encode("utf-8", "replace"))))


def as_text(value: Any) -> str:
    """A value as a person reads it: text as it is, data with its lines."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def whole_part(event: Event, provider: str | None, index: int) -> Part | None:
    """One block of a step, all of it."""
    if index >= 1000:
        outcomes = [one for one in event.outcomes if one["status"] != "void"]
        if index - 1000 >= len(outcomes):
            return None
        one = outcomes[index - 1000]
        return part_of(Result(call=str(one["id"]), status=one["status"], text=as_text(one["content"])), whole=True)
    block = _block(event, provider, index)
    return part_of(block, whole=True) if block is not None else None


def picture(event: Event, provider: str | None, index: int) -> tuple[bytes, str] | None:
    """The bytes of an image and what they are; None where it is none, too large, or of a kind that could do more."""
    block = _block(event, provider, index)
    if not isinstance(block, Image) or not 0 < len(block.data) <= MAX_IMAGE * _BASE64 + 4:
        return None
    try:
        content = base64.b64decode(block.data, validate=True)
    except ValueError:
        return None
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return content, "image/webp"
    return next(((content, media) for begin, media in _BEGINS if content.startswith(begin)), None)


def _block(event: Event, provider: str | None, index: int) -> Any:
    if not event.messages:
        return None
    blocks = [block for message in detect(event.messages, provider).read(event.messages) for block in message.blocks]
    return blocks[index] if index < len(blocks) else None
