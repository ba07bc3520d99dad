"""Two checkpoints compared: where their conversations part, and how each went on."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import msgspec

from relight.values.info import SessionInfo
from relight.values.usage import Usage


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two, from the message on that the other does not have."""

    session: SessionInfo
    seq: int
    messages: list[dict[str, Any]]
    """those behind the common ones"""
    result: Any
    turns: int
    usage: Usage
    """of the whole session, all attempts"""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What two checkpoints have in common, and what each has alone."""

    common: int
    """number of messages that both begin with"""
    a: Side
    b: Side

    @property
    def is_same(self) -> bool:
        """Whether the conversations are equal; results and costs may still differ."""
        return not self.a.messages and not self.b.messages


def common_length(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> int:
    """How many messages both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))
