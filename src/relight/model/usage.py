"""What a model reply cost. Unknown is None, never 0: a page shows `-` for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from relight.errors import UsageError

_SPELLINGS: Final[dict[str, tuple[str, ...]]] = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "cache_read_tokens": ("cache_read_tokens", "cache_read_input_tokens", "cached_tokens"),
    "cache_write_tokens": ("cache_write_tokens", "cache_creation_input_tokens"),
}


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Tokens and money of one reply, or of a whole session."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    """in the currency the caller counts in, usually US dollars; None where nobody said"""

    def __add__(self, other: Usage) -> Usage:
        cost = self.cost if other.cost is None else (self.cost or 0.0) + other.cost
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost=cost,
        )


def usage_from(given: Usage | Mapping[str, Any] | None) -> Usage | None:
    """Read usage as a provider spells it; fields nobody knows are ignored."""
    if given is None:
        return None
    if isinstance(given, Usage):
        return _checked(given)
    if not isinstance(given, Mapping):
        raise UsageError(f"usage is a mapping as providers give it, or a Usage; not {type(given).__name__}")
    counts = {field: _first_count(given, spellings) for field, spellings in _SPELLINGS.items()}
    cost = given.get("cost", given.get("cost_usd"))
    return Usage(**counts, cost=float(cost) if isinstance(cost, int | float) and math.isfinite(cost) else None)


def _checked(usage: Usage) -> Usage:
    """A struct takes whatever it is given; what is stored must be what it says."""
    if not all(type(getattr(usage, field)) is int for field in _SPELLINGS):
        raise UsageError("the tokens of a Usage are whole numbers")
    if usage.cost is not None and (type(usage.cost) not in (int, float) or not math.isfinite(usage.cost)):
        raise UsageError("the cost of a Usage is a number, or None where nobody said")
    return usage


def _first_count(given: Mapping[str, Any], spellings: tuple[str, ...]) -> int:
    for spelling in spellings:
        value = given.get(spelling)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return 0
