"""Usage of a model reply: tokens and cost. Unknown is None, never 0: pages show `-` for it.

Providers name and count differently. OpenAI's and Gemini's input includes what was read from the cache, Anthropic's and
Bedrock's does not; Gemini counts thinking beside its output, others within it. `Usage` has one meaning for all:
`input_tokens` were neither read from a cache nor written to one, `output_tokens` include reasoning. So nothing counts
twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec

from relight.errors import UsageError

_APART: Final = ("input_tokens", "inputTokens")
"""input without cache tokens: Anthropic, Bedrock and relight itself"""
_TOGETHER: Final = ("prompt_tokens", "promptTokenCount", "prompt_token_count")
"""input that includes cache tokens: Chat Completions and compatible APIs, Gemini"""
_OUTPUT: Final = (
    "output_tokens",
    "completion_tokens",
    "outputTokens",
    "candidatesTokenCount",
    "candidates_token_count",
)
_READ: Final = (
    "cache_read_tokens",
    "cache_read_input_tokens",
    "cacheReadInputTokens",
    "cachedContentTokenCount",
    "cached_content_token_count",
    "prompt_cache_hit_tokens",
)
_READ_WITHIN: Final = ("cached_tokens", "cached_input_tokens")
"""cache reads that are part of the input, whatever the input is called"""
_WRITTEN: Final = (
    "cache_write_tokens",
    "cache_creation_input_tokens",
    "cacheWriteInputTokens",
    "cache_write_input_tokens",
)
_BESIDE_OUTPUT: Final = ("thoughtsTokenCount", "thoughts_token_count")
_BESIDE_INPUT: Final = ("toolUsePromptTokenCount", "tool_use_prompt_token_count")
_REASONING: Final = ("reasoning_tokens", "reasoning_output_tokens", *_BESIDE_OUTPUT)
_OUTPUT_DETAILS: Final = ("completion_tokens_details", "output_tokens_details")
_INPUT_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details")
_COST: Final = ("cost", "cost_usd", "total_cost_usd")
_COUNTED: Final = frozenset(
    {*_APART, *_TOGETHER, *_OUTPUT, *_READ, *_READ_WITHIN, *_WRITTEN, *_BESIDE_OUTPUT, *_BESIDE_INPUT}
)
_NOT_COUNTED: Final = frozenset(
    {
        "total_tokens", "totalTokens", "totalTokenCount", "total_token_count",
        "reasoning_tokens", "reasoning_output_tokens", "prompt_cache_miss_tokens",
        "queue_time", "prompt_time", "completion_time", "total_time", "prompt_audio_seconds",
        "num_sources_used", "cost_in_usd_ticks", "requests", "server_side_tool_usage",
    }
)  # fmt: skip
"""known numbers that are not added: sums, parts of other counts, seconds"""


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Tokens and cost of one reply, or of a whole session."""

    input_tokens: int = 0
    """input at the full price: neither read from the cache nor written to it"""
    output_tokens: int = 0
    """written by the model, its reasoning included"""
    reasoning_tokens: int = 0
    """the part of `output_tokens` that is reasoning, if the provider reports it"""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    """in the caller's currency, usually US dollars; None: unknown"""

    @property
    def tokens(self) -> int:
        """All tokens read and written, cached or not."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def __add__(self, other: Usage) -> Usage:
        cost = self.cost if other.cost is None else (self.cost or 0.0) + other.cost
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost=cost,
        )


def usage_from(given: Any) -> Usage | None:
    """Parse usage as a provider reports it. UsageError if a count is invalid, or if nothing in it is known."""
    if given is None:
        return None
    if isinstance(given, Usage):
        return _checked(given)
    dump = getattr(given, "model_dump", None)
    if callable(dump):  # an SDK's own object
        given = dump()
    if not isinstance(given, Mapping):
        raise UsageError(f"usage is a mapping as providers give it, or a Usage; not {type(given).__name__}")
    # A wrong count is refused even if it is not needed: it would silently make a budget wrong.
    for path, value in _counts_in(given):
        _count(path, value)
    cost = _cost(given)
    if cost is None and not any(given.get(name) is not None for name in _COUNTED) and unknown_members(given):
        known = f"{', '.join(Usage.__struct_fields__)}, or as a provider spells them"
        raise UsageError(f"nothing is known of this usage: {', '.join(map(repr, given))}", evidence=[f"known: {known}"])
    return usage_seen(given)


def usage_seen(given: Mapping[str, Any]) -> Usage:
    """The same for usage found in a transcript: invalid counts are left out, and nothing raises."""
    details = [one for name in _INPUT_DETAILS if isinstance(one := given.get(name), Mapping)]
    within = [_first(one, (*_READ_WITHIN, *_READ)) for one in details] + [_first(given, _READ_WITHIN)]
    written_within = max([_first(one, _WRITTEN) for one in details], default=0)
    read = max(_first(given, _READ), *within)
    written = max(_first(given, _WRITTEN), written_within)
    # Some spell both totals; the one without the cache needs no subtraction, unless it comes with details of itself.
    if (apart := _found(given, _APART)) is not None:
        fresh = max(0, apart - max(within) - written_within)
    else:
        fresh = max(0, _first(given, _TOGETHER) - read - written)
    thought = [_first(one, _REASONING) for name in _OUTPUT_DETAILS if isinstance(one := given.get(name), Mapping)]
    try:
        cost = _cost(given)
    except UsageError:
        cost = None
    return Usage(
        input_tokens=fresh + _first(given, _BESIDE_INPUT),
        output_tokens=_first(given, _OUTPUT) + _first(given, _BESIDE_OUTPUT),
        reasoning_tokens=max(_first(given, _REASONING), *thought, 0),
        cache_read_tokens=read,
        cache_write_tokens=written,
        cost=cost,
    )


def kept_long(given: Any) -> int:
    """Tokens that Anthropic wrote to its cache for an hour; they are part of the cache writes, and cost more."""
    given = given.model_dump() if callable(getattr(given, "model_dump", None)) else given
    kept = given.get("cache_creation") if isinstance(given, Mapping) else None
    return _first(kept, ("ephemeral_1h_input_tokens",)) if isinstance(kept, Mapping) else 0


def unknown_members(given: Mapping[str, Any]) -> list[str]:
    """Numbers in a usage that are unknown: they might be tokens or cost that are not counted."""
    known = _COUNTED | _NOT_COUNTED | frozenset(_COST)
    return [str(name) for name, value in given.items() if name not in known and _is_number(value) and value]


def _counts_in(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Members that should be counts, with the names to report them by."""
    yield from ((name, given[name]) for name in given if name in _COUNTED)
    for outer in _INPUT_DETAILS:
        inner = given.get(outer)
        if isinstance(inner, Mapping):
            yield from ((f"{outer}.{name}", inner[name]) for name in inner if name in _COUNTED)


def _count(name: str, value: Any) -> None:
    if value is not None and _as_count(value) is None:
        raise UsageError(f"usage: {name} must be a whole number of tokens, not {value!r}")


def _as_count(value: Any) -> int | None:
    if type(value) is float and value.is_integer():
        value = int(value)  # JSON encoders of some languages write only floats
    return value if type(value) is int and value >= 0 else None


def _cost(given: Mapping[str, Any]) -> float | None:
    for name in _COST:
        value = given.get(name)
        if value is None:
            continue
        if not _is_number(value) or not math.isfinite(value) or value < 0:
            raise UsageError(f"usage: {name} is a number, not {value!r}", hints=[f"float({value!r})"])
        return float(value)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _checked(usage: Usage) -> Usage:
    """The usage if all its fields have valid types: a struct accepts anything."""
    for field in Usage.__struct_fields__[:-1]:
        if type(getattr(usage, field)) is not int:
            raise UsageError(f"the tokens of a Usage are whole numbers, not {field}={getattr(usage, field)!r}")
    if usage.cost is not None and (type(usage.cost) not in (int, float) or not math.isfinite(usage.cost)):
        raise UsageError(f"the cost of a Usage is a number, or None if unknown; not {usage.cost!r}")
    return usage


def _found(given: Mapping[str, Any], spellings: tuple[str, ...]) -> int | None:
    for spelling in spellings:
        count = _as_count(given.get(spelling))
        if count is not None:
            return count
    return None


def _first(given: Mapping[str, Any], spellings: tuple[str, ...]) -> int:
    return _found(given, spellings) or 0
