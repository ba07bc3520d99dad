"""Estimates the first reply after a resume: how many tokens it reads, from a cold or warm cache, and its cost.

Mostly from the provider's own count for the last reply; what came after that, and what was never counted, is estimated
by its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from relight.journal.fold import Fold, Measured
from relight.journal.formats.registry import detect
from relight.values.checkpoint import at
from relight.values.info import FirstReply
from relight.values.view import Image

CACHE_MINUTES: Final = 5.0
"""how long providers cache a prompt by default"""
_CHARACTERS: Final = 4
_IMAGE_TOKENS: Final = 1500
_PRICE_RATIOS: Final = {"anthropic": (1.0, 0.1, 1.25, 5.0)}
"""relative price of input, cache reads, cache writes and output, if equal for all models of a provider"""


def first_reply(fold: Fold, *, provider: str | None, now_us: int, cache_minutes: float) -> FirstReply | None:
    """The estimate for the state at a checkpoint; None if there is nothing to read."""
    if not fold.messages:
        return None
    last = fold.measured
    since = fold.messages[last.messages :] if last is not None else fold.messages
    tokens = (last.tokens if last is not None else 0) + length_of(since, provider)
    cold = now_us - last.at_us > cache_minutes * 60e6 if last is not None else None
    cost = _cost(last, tokens, provider, cold=cold) if last is not None and cold is not None else None
    replied = at(last.at_us) if last is not None else None
    return FirstReply(tokens=tokens, counted=last is not None, replied_at=replied, cold=cold, cost=cost)


def length_of(messages: Sequence[dict[str, Any]], provider: str | None) -> int:
    """Estimated number of tokens of these messages."""
    if not messages:
        return 0
    characters, images = 0, 0
    for message in detect(messages, provider).read(messages):
        for block in message.blocks:
            if isinstance(block, Image):
                images += 1
            else:
                characters += len(getattr(block, "text", "") or str(getattr(block, "arguments", "")))
    return -(-characters // _CHARACTERS) + images * _IMAGE_TOKENS


def _cost(last: Measured, tokens: int, provider: str | None, *, cold: bool) -> float | None:
    """Derived from the cost of the last reply, if the price ratios between kinds of tokens are known."""
    ratios, used = _PRICE_RATIOS.get(provider or ""), last.usage
    if ratios is None or not used.cost:
        return None
    plain, read, written, out = ratios
    units = used.input_tokens * plain + used.cache_read_tokens * read + used.cache_write_tokens * written
    price = used.cost / (units + used.output_tokens * out)
    new = max(0, tokens - last.tokens)
    prompt = tokens * written if cold else last.tokens * read + new * written
    return price * (prompt + used.output_tokens * out)
