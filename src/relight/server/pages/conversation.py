"""View of the conversation tab, from a window of the journal: messages with their blocks, compactions, rewinds.

Long values are cut, with their size; an image is loaded only when it is opened.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from relight.history.events import Event
from relight.history.narration import CallNames
from relight.journal.formats.registry import detect
from relight.library.loaded import Loaded
from relight.server.pages.inert import preview
from relight.text import format as words
from relight.text.safe import shortened
from relight.values.view import Call, Image, Reason, Result, Text

_BASE64: Final = 4 / 3
_MAX_ADDRESS: Final = 300
_FIRST_OUTCOME: Final = 1000
"""index of the first outcome of a step: blocks of its messages are numbered from 0, outcomes from here"""
MAX_IMAGE: Final = 10_000_000
"""size in bytes up to which a page shows an image"""
_BEGINS: Final = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
"""image types that cannot carry a script, by their magic bytes; the type that a message declares is not trusted"""


class Part(msgspec.Struct, kw_only=True):
    """One block of a message."""

    kind: Literal["text", "reason", "call", "result", "image"]
    text: str = ""
    title: str = ""
    mark: str = ""
    role: str = ""
    cut: bool = False
    """`text` is only the beginning"""
    size: str = ""
    index: int = 0
    """index in the step, for the address of the whole value"""
    synthetic: bool = False
    inside: bool = False
    """an image whose bytes are in the journal, and not too large to be shown"""


class Entry(msgspec.Struct, kw_only=True):
    """One message, or a marker of a compaction or rewind."""

    seq: int
    at: datetime
    speaker: str
    parts: list[Part] = []
    cut: str = ""
    """text of the marker"""
    left: bool = False
    """no longer in the model's view"""


def conversation(
    events: Iterable[Event],
    provider: str | None,
    view: frozenset[int] | None,
    load: Callable[[], Loaded] | None = None,
) -> list[Entry]:
    """The entries of these events, in order. `view`: the seqs that the model sees; None: all.

    `load` reads the session, for the name of a call that began before the first event."""
    entries: list[Entry] = []
    names = CallNames(lambda name, arguments: name, load)
    for event in events:
        left = view is not None and event.seq not in view
        if event.kind == "rewind":
            text = f"rewound to @{event.base}: the steps in between left the model's view; none is deleted"
            entries.append(Entry(seq=event.seq, at=event.at, speaker="", cut=text))
        if event.kind == "reset":
            text = (
                f"compacted: from here the model sees these {len(event.messages)} messages instead of all earlier ones"
            )
            entries.append(Entry(seq=event.seq, at=event.at, speaker="", cut=text))
        entries += _messages(event, provider, left, names)
        entries += _outcomes(event, left, names)
    return entries


def _messages(event: Event, provider: str | None, left: bool, names: CallNames) -> list[Entry]:
    if not event.messages:
        return []
    found: list[Entry] = []
    index = 0
    for message in detect(event.messages, provider).read(event.messages):
        one = Entry(seq=event.seq, at=event.at, speaker=message.role, left=left)
        for block in message.blocks:
            if isinstance(block, Call):
                names.learn(block.id, block.name, block.arguments)
            part = part_of(block, called=names.of)
            part.index, index = index, index + 1
            one.parts = [*one.parts, part]
        if one.parts:
            found.append(one)
    return found


def _outcomes(event: Event, left: bool, names: CallNames) -> list[Entry]:
    """Results that are recorded as outcomes, outside the messages."""
    ended = [one for one in event.outcomes if one["status"] != "void"]
    results = [Result(call=str(one["id"]), status=one["status"], text=as_text(one["content"])) for one in ended]
    parts = [part_of(one, called=names.of) for one in results]
    for number, part in enumerate(parts):
        part.index = _FIRST_OUTCOME + number
    return [Entry(seq=event.seq, at=event.at, speaker="tool", parts=parts, left=left)] if parts else []


def part_of(block: Any, *, whole: bool = False, called: Callable[[str], str] | None = None) -> Part:
    """The view of one block; long texts are cut unless `whole`."""
    if isinstance(block, Text):
        return _long("text", block.text, whole=whole)
    if isinstance(block, Reason):
        part = _long("reason", block.text, whole=whole)
        part.title = "reasoning" if block.text else "reasoning, not disclosed by the provider"
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
        kind="image", title=block.media or "image", size=size, text=shortened(block.url, _MAX_ADDRESS), inside=inside
    )


def _long(kind: Literal["text", "reason", "call", "result"], text: str, *, whole: bool) -> Part:
    shown, is_cut = (text, False) if whole else preview(text)
    return Part(kind=kind, text=shown, cut=is_cut, size=words.size(len(text.encode("utf-8", "replace"))))


def as_text(value: Any) -> str:
    """A value as readable text: strings as they are, other data as indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def whole_part(event: Event, provider: str | None, index: int) -> Part | None:
    """One block or outcome of a step in full; None if there is none of this index."""
    if index >= _FIRST_OUTCOME:
        outcomes = [one for one in event.outcomes if one["status"] != "void"]
        if index - _FIRST_OUTCOME >= len(outcomes):
            return None
        one = outcomes[index - _FIRST_OUTCOME]
        return part_of(Result(call=str(one["id"]), status=one["status"], text=as_text(one["content"])), whole=True)
    block = _block(event, provider, index)
    return part_of(block, whole=True) if block is not None else None


def picture(event: Event, provider: str | None, index: int) -> tuple[bytes, str] | None:
    """Bytes and media type of an image; None if it is no image, too large, or of a type that could carry a script."""
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
