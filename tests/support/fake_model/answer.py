"""What every wire has in common: an answer as pieces of a stream and as one object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.support.fake_model.script import Turn
from tests.support.fake_model.tools import Made

Piece = tuple[str, Any]
"""(name of the SSE event or nothing, data); a string is sent as it is"""
_PIECES: Final = 4


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A turn made ready for one request."""

    turn: Turn
    number: int
    """of the request; ids are made of it"""
    model: str
    calls: tuple[Made, ...]
    input_tokens: int

    @property
    def output_tokens(self) -> int:
        size = len(self.turn.text) + sum(len(json.dumps(call.input)) for call in self.calls)
        return self.turn.usage.get("output_tokens", size // 4 + 1)

    def used(self, what: str) -> int:
        """A scripted count that is 0 by default."""
        return self.turn.usage.get(what, 0)

    @property
    def prompt_tokens(self) -> int:
        """The input as OpenAI counts it: with what was read from the cache and written to it."""
        return self.input_tokens + self.used("cached") + self.used("written")


def frame(piece: Piece) -> bytes:
    """Encode a piece as one server-sent event."""
    name, data = piece
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def slices(text: str) -> Iterator[str]:
    """A text in a few pieces, as models send it."""
    size = max(1, -(-len(text) // _PIECES))
    yield from (text[start : start + size] for start in range(0, len(text), size))


def error_of(turn: Turn) -> dict[str, Any]:
    """The scripted error with what providers always send."""
    given: Mapping[str, Any] = turn.error or {}
    return {"type": "api_error", "message": "scripted error", **given}
