"""A conversation as a reader wants it, from a window of the journal: cards of messages, each result under its call.

Pure. What one reply says and asks for is one card, also where an agent writes it as several messages. A call that a
hook reports before the message with it is moved into that message's card. Long values are cut, with their size; an
image is loaded only when it is opened; beyond a bound on what one page formats, text is shown as it is.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from relight.history.events import Event
from relight.history.narration import CallNames, call_line
from relight.journal.formats.registry import detect
from relight.server.reading.inert import CUT_BYTES, CUT_LINES, preview
from relight.server.reading.tools import Shown, as_json, shown_call, shown_result
from relight.text import format as words
from relight.text.safe import shortened
from relight.values.view import Call, Image, Message, Reason, Result, Text

_BASE64: Final = 4 / 3
_MAX_ADDRESS: Final = 300
_FIRST_OUTCOME: Final = 1000
"""index of the first outcome of a step: blocks of its messages are numbered from 0, outcomes from here"""
_FIRST_INTENT: Final = 2000
MAX_IMAGE: Final = 10_000_000
"""size in bytes up to which a page shows an image"""
TEXT_BYTES: Final = 16 * 1024
TEXT_LINES: Final = 400
MAX_FORMATTED: Final = 160_000
"""characters that one page shows as markdown or coloured code; what follows is plain"""
_BEGINS: Final = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
"""image types that cannot carry a script, by their magic bytes; the type that a message declares is not trusted"""


class Part(msgspec.Struct, kw_only=True):
    """One block of a message. A call has its results in it."""

    kind: Literal["text", "reason", "call", "result", "image"]
    seq: int = 0
    index: int = 0
    """index in the step, for the address of the whole value"""
    call: str = ""
    """of a call or a result: the call's id"""
    text: str = ""
    title: str = ""
    mark: str = ""
    role: str = ""
    cut: bool = False
    """only the beginning is shown"""
    size: str = ""
    plain: bool = False
    """shown without formatting"""
    synthetic: bool = False
    inside: bool = False
    """an image whose bytes are in the journal, and not too large to be shown"""
    shown: Shown | None = None
    """of a call or a result: its form"""
    begun: int = 0
    """of a call: the step of its intent, if that is another one"""
    results: list[Part] = []
    images: list[Part] = []
    """the images of a result"""
    reported: bool = False
    """a result that a hook or a tool reported, rather than a message"""
    also: int = 0
    """of a result: the other step that has it, where a hook reported what a message says too"""

    @property
    def steps(self) -> set[int]:
        """The steps that it shows: of a call its request, its intent and its results."""
        return {self.seq, self.begun, *(step for one in self.results for step in (one.seq, one.also))} - {0}


class Entry(msgspec.Struct, kw_only=True):
    """One card: a message, or what one reply says; or a marker: of a compaction, a rewind, or a result that is shown
    under its call in another window."""

    seq: int
    at: datetime
    speaker: str
    parts: list[Part] = []
    cut: str = ""
    """text of the marker"""
    of: int = 0
    """of a marker: the step that it points at"""
    left: bool = False
    """no longer in the model's view"""


def conversation(
    events: Iterable[Event],
    provider: str | None,
    view: frozenset[int] | None,
    window: tuple[int, int] | None = None,
) -> list[Entry]:
    """The cards of these events, in order. `view`: the seqs that the model sees; None: all.

    `window`: (after, upto), for the cards of these steps only. Everything has one place in the journal, so that of
    windows side by side one shows it: a result that of its call, a card ends at the window's edge."""
    cards = _Cards(provider, view, window)
    for event in events:
        cards.read(event)
    found = [one for one in cards.entries if one.parts or one.cut]
    return found if window is None else [one for one in found if window[0] < one.seq <= window[1]]


def unpaired(parts: Sequence[Part]) -> tuple[set[str], set[str]]:
    """The calls among these that are not whole, and the results without their call: whose other half may be before
    them, and whose after them."""
    calls = [one for one in parts if one.kind == "call"]
    early = {one.call for one in calls if one.index >= _FIRST_INTENT}
    before = {one.call for one in calls if not one.results and not one.begun} - early
    later = {one.call for one in calls if all(each.reported and not each.also for each in one.results)}
    return before | {one.call for one in parts if one.kind == "result"}, later | early


class _Cards:
    """Builds the cards of a conversation, event by event."""

    def __init__(self, provider: str | None, view: frozenset[int] | None, window: tuple[int, int] | None) -> None:
        self.entries: list[Entry] = []
        self._provider, self._view, self._names = provider, view, CallNames(call_line)
        self._window, self._last = window, 0
        self._calls: dict[str, Part] = {}
        """the newest call of each id; providers reuse ids, and after a rewind the same one is asked for again"""
        self._early: dict[str, Entry] = {}
        """cards of calls that a hook reported before the message with them"""
        self._reply: Entry | None = None
        """the card of a reply that may still be continued"""
        self._formatted = 0

    def read(self, event: Event) -> None:
        """Add what a step says."""
        if event.seq != self._last + 1 or (self._window is not None and self._last in self._window):
            self._reply = None
        self._last = event.seq
        if event.kind in ("rewind", "reset"):
            self._reply = None
            self.entries.append(_marker(event))
        if event.messages:
            index = 0
            for message in detect(event.messages, self._provider).read(event.messages):
                self._message(event, message, index)
                index += len(message.blocks)
        self._intents(event)
        for number, one in enumerate(one for one in event.outcomes if one["status"] != "void"):
            self._result(event, _FIRST_OUTCOME + number, _outcome(one), content=one["content"])

    def _card(self, event: Event, speaker: str) -> Entry:
        left = self._view is not None and event.seq not in self._view
        card = Entry(seq=event.seq, at=event.at, speaker=speaker, left=left)
        self.entries.append(card)
        return card

    def _message(self, event: Event, message: Message, index: int) -> None:
        if not message.blocks:
            return
        card: Entry | None = None
        if message.role == "assistant":
            card = self._reply = self._reply or self._card(event, "assistant")
        answered: Part | None = None
        for number, block in enumerate(message.blocks, index):
            if isinstance(block, Result):
                answered = self._result(event, number, block)
            elif isinstance(block, Image) and answered is not None:
                answered.images = [*answered.images, self._part(event, number, block)]
            else:
                if message.role != "assistant":
                    self._reply, answered = None, None
                card = card or self._card(event, message.role)
                card.parts = [*card.parts, self._part(event, number, block)]

    def _part(self, event: Event, index: int, block: Any) -> Part:
        part = part_of(block)
        part.seq, part.index = event.seq, index
        if isinstance(block, Call):
            part.call = block.id
            self._names.learn(block.id, block.name, block.arguments)
            if (early := self._early.pop(block.id, None)) is not None:
                part.results, part.begun, early.parts = early.parts[0].results, early.seq, []
            self._calls[block.id] = part
        return self._within(part)

    def _within(self, part: Part) -> Part:
        """The part, plain if the page has formatted enough."""
        self._formatted += len(part.text)
        part.plain = self._formatted > MAX_FORMATTED
        return part

    def _intents(self, event: Event) -> None:
        for number, intent in enumerate(event.intents):
            known = self._calls.get(intent["id"])
            if known is not None and not known.results:
                known.begun = event.seq
                continue
            if intent.get("asked_seq") or intent["id"] in self._early:
                continue  # its message is in the journal, before these steps
            name, arguments = str(intent["name"]), intent.get("arguments")
            call = Call(id=intent["id"], name=name, arguments=arguments or {}, op="other")
            card = self._card(event, "assistant")
            card.parts = [self._part(event, _FIRST_INTENT + number, call)]
            self._early[intent["id"]] = card

    def _result(self, event: Event, index: int, result: Result, content: Any = None) -> Part:
        """Put a result under its call; where that is not among these cards, on a card of its own."""
        call = self._calls.get(result.call)
        name = call.title if call is not None else self._names.of(result.call)
        part = _result_part(result, name.split(" ", maxsplit=1)[0], result.text if content is None else content)
        part.seq, part.index, part.reported, part.call = event.seq, index, content is not None, result.call
        if result.call not in self._early:  # an early one belongs to the reply whose message is still to come
            self._reply = None
        if call is None:
            part.title = f"result of {name}"
            self._card(event, "tool").parts = [self._within(part)]
            return part
        if self._window is not None and call.seq <= self._window[0] and not call.results:
            text = f"the result of {self._names.of(result.call)} came here; it is under its call"
            self.entries.append(Entry(seq=event.seq, at=event.at, speaker="", cut=text, of=call.seq))
        if call.results and call.results[-1].reported != part.reported and not call.results[-1].also:
            part = call.results[-1] = _one_result(call.results[-1], part)
        else:
            call.results = [*call.results, self._within(part)]
        return part


def _one_result(first: Part, second: Part) -> Part:
    """A result that a hook reported and the transcript repeats, or the other way round: what the model was given is
    shown, with what only the hook knows."""
    kept, other = (first, second) if second.reported else (second, first)
    kept.also = other.seq
    kept.images = kept.images or other.images
    if kept.shown is not None and other.shown is not None:
        kept.shown.rest = kept.shown.rest or other.shown.rest
    return kept


def _marker(event: Event) -> Entry:
    text = f"rewound to @{event.base}: the steps in between left the model's view; none is deleted"
    if event.kind == "reset":
        count = words.count(len(event.messages), "message")
        text = f"compacted: from here the model sees {count} instead of all earlier ones"
    return Entry(seq=event.seq, at=event.at, speaker="", cut=text)


def _outcome(one: dict[str, Any]) -> Result:
    text = as_json(one["content"])
    return Result(call=str(one["id"]), status=one["status"], text=text, synthetic=bool(one.get("synthetic")))


def part_of(block: Any, *, whole: bool = False) -> Part:
    """The view of one block; long texts are cut unless `whole`."""
    if isinstance(block, Text):
        return _long("text", block.text, whole=whole, lines=TEXT_LINES, size=TEXT_BYTES)
    if isinstance(block, Reason):
        part = _long("reason", block.text, whole=whole, lines=TEXT_LINES, size=TEXT_BYTES)
        part.title = "reasoning" if block.text else "reasoning, not disclosed by the provider"
        return part
    if isinstance(block, Call):
        part = _long("call", as_json(block.arguments), whole=whole)
        part.title, part.shown = block.name, shown_call(block.name, block.arguments)
        part.cut = shorten(part.shown)
        return part
    if isinstance(block, Result):
        part = _result_part(block, "", block.text)
        return _long("result", block.text, whole=True) if whole else part
    assert isinstance(block, Image)
    number = int(len(block.data) / _BASE64)
    size = words.size(number) if block.data else ""
    inside = 0 < number <= MAX_IMAGE
    return Part(
        kind="image", title=block.media or "image", size=size, text=shortened(block.url, _MAX_ADDRESS), inside=inside
    )


def _result_part(result: Result, name: str, content: Any) -> Part:
    """A result in the form of its tool."""
    part = _long("result", result.text, whole=False)
    part.mark, part.role = {"ok": ("✓", "ok"), "error": ("✗", "bad")}.get(result.status, ("!", "warn"))
    part.shown = shown_result(name, content, failed=result.status != "ok")
    part.cut, part.synthetic = shorten(part.shown), result.synthetic
    return part


def shorten(shown: Shown) -> bool:
    """Keep the beginning of a long value; returns whether it was cut."""
    lines, shown.lines = shown.lines, _first(shown.lines)
    shown.text, text_cut = preview(shown.text)
    shown.rest, rest_cut = preview(shown.rest)
    return text_cut or rest_cut or len(shown.lines) < len(lines)


def _first(lines: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    kept, size = [], 0
    for kind, line in lines[:CUT_LINES]:
        kept.append((kind, line[:CUT_BYTES]))
        size += len(line)
        if size > CUT_BYTES:
            break
    return kept


def _long(
    kind: Literal["text", "reason", "call", "result"],
    text: str,
    *,
    whole: bool,
    lines: int = CUT_LINES,
    size: int = CUT_BYTES,
) -> Part:
    shown, is_cut = (text, False) if whole else preview(text, lines, size)
    return Part(kind=kind, text=shown, cut=is_cut, size=words.size(len(text.encode("utf-8", "replace"))))


def whole_part(event: Event, provider: str | None, index: int) -> Part | None:
    """One block, outcome or intent of a step in full; None if there is none of this index."""
    if index >= _FIRST_INTENT:
        intents = event.intents[index - _FIRST_INTENT :]
        return _long("call", as_json(intents[0].get("arguments")), whole=True) if intents else None
    if index >= _FIRST_OUTCOME:
        outcomes = [one for one in event.outcomes if one["status"] != "void"]
        if index - _FIRST_OUTCOME >= len(outcomes):
            return None
        return part_of(_outcome(outcomes[index - _FIRST_OUTCOME]), whole=True)
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
