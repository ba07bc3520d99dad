"""Cost of a reply from its tokens: a dated table of list prices, overridden by a user's file.

A model in neither has no price. Nothing is guessed from a similar name, because a budget counted with a wrong price is
worse than one that is refused; but gateways and clouds spell the name of the same model in their own ways, and those
are read. Prices are the provider's own, of the standard tier: without discounts, batches, subscriptions, and what a
gateway or a region adds. A cost that an agent reports itself takes precedence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, Final

import msgspec

from relight.errors import UsageError
from relight.values.usage import Usage

DATED: Final = "2026-11-15"
"""when the table was last compared with the pages named below"""
SOURCES: Final = (
    "https://platform.claude.com/docs/en/about-claude/pricing",
    "https://developers.openai.com/api/docs/pricing",
)
_MILLION: Final = 1_000_000
_DATE: Final = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")
_WINDOW: Final = re.compile(r"\[\d+[km]\]$", re.IGNORECASE)
"""the context window that Claude Code appends to a model's name"""
# Texts, compiled when a name is not in the table as it stands: most are.
_SERVED_BY: Final = (
    r"(?:.*[/:])?(?:anthropic|openai(?:-responses|-chat)?|openrouter"
    r"|azure(?:[_-](?:ai|openai))?|(?:amazon[_-])?bedrock(?:[_-]converse)?|converse|foundation-model|inference-profile"
    r"|(?:google[_-])?vertex(?:[_-]?ai)?|google_anthropic_vertex|models)[/:](?P<name>[^/:].*)"
)
"""a path that ends with the maker or a cloud: `openrouter/anthropic/`, `bedrock/`, `publishers/anthropic/models/`"""
_BEDROCK: Final = r"(?:.*[/:])?(?:[a-z]{2,6}(?:-[a-z]+)?\.)?anthropic\.(?P<name>claude-.+)"
"""a region or none, and the maker: `us.anthropic.`, `bedrock/us-east-1/anthropic.`"""
_CLAUDE: Final = r"(?P<name>claude-[a-z0-9.-]+?)(?:[@-]\d{8}|@default)?(?:-v\d+(?::\d+)?)?"
"""a date after `@` is Vertex's, a version after it Bedrock's"""
_VERSION_FIRST: Final = r"^claude-(\d+(?:-\d+)?)-([a-z]+)$"
"""`claude-4.5-sonnet`, as OpenRouter's replies have it"""


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    """cached for minutes"""
    cache_write_long: float | None = None
    """cached for an hour; None: the same price as for minutes"""
    long_above: int | None = None
    """a prompt of more tokens than this is charged with `long`"""
    long: Price | None = None

    def cost(self, usage: Usage, *, kept_long: int = 0) -> float:
        """Cost of one reply. `kept_long`: tokens written to the cache for an hour."""
        prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if self.long is not None and self.long_above is not None and prompt > self.long_above:
            return self.long.cost(usage, kept_long=kept_long)
        kept = min(max(0, kept_long), usage.cache_write_tokens)
        long_price = self.cache_write if self.cache_write_long is None else self.cache_write_long
        total = (
            usage.input_tokens * self.input
            + usage.output_tokens * self.output
            + usage.cache_read_tokens * self.cache_read
            + (usage.cache_write_tokens - kept) * self.cache_write
            + kept * long_price
        )
        return total / _MILLION


def _claude(input: float, output: float, cache_read: float) -> Price:
    """Anthropic charges cache writes with 1.25 or 2 times the input price."""
    return Price(
        input=input, output=output, cache_read=cache_read, cache_write=input * 1.25, cache_write_long=input * 2
    )


def _gpt(input: float, cached: float, output: float, *, write: float | None = None, long: bool = False) -> Price:
    """Some models charge a prompt above 272,000 tokens with twice the input and 1.5 times the output price."""
    price = Price(input=input, output=output, cache_read=cached, cache_write=input if write is None else write)
    if not long:
        return price
    above = Price(input=input * 2, output=output * 1.5, cache_read=cached * 2, cache_write=price.cache_write * 2)
    return msgspec.structs.replace(price, long_above=272_000, long=above)


TABLE: Final[Mapping[str, Price]] = {
    # Anthropic: input, output, cache hits
    "claude-fable-5-1": _claude(10.0, 50.0, 0.25),
    "claude-fable-5": _claude(10.0, 50.0, 1.0),
    "claude-opus-5-5": _claude(4.0, 20.0, 0.20),
    "claude-opus-5": _claude(5.0, 25.0, 0.50),
    "claude-opus-4-8": _claude(5.0, 25.0, 0.50),
    "claude-opus-4-7": _claude(5.0, 25.0, 0.50),
    "claude-opus-4-6": _claude(5.0, 25.0, 0.50),
    "claude-opus-4-5": _claude(5.0, 25.0, 0.50),
    "claude-sonnet-5-5": _claude(2.0, 10.0, 0.20),
    "claude-sonnet-5": _claude(2.0, 10.0, 0.20),
    "claude-sonnet-4-6": _claude(3.0, 15.0, 0.30),
    "claude-sonnet-4-5": _claude(3.0, 15.0, 0.30),
    "claude-haiku-4-5": _claude(1.0, 5.0, 0.10),
    # OpenAI: input, cached input, output
    "gpt-5.6-sol": _gpt(5.0, 0.50, 30.0, write=6.25, long=True),
    "gpt-5.6-terra": _gpt(2.0, 0.20, 12.0, write=2.50, long=True),
    "gpt-5.5": _gpt(5.0, 0.50, 30.0, long=True),
    "gpt-5.4": _gpt(2.50, 0.25, 15.0, long=True),
    "gpt-5.4-mini": _gpt(0.75, 0.075, 4.50),
    "gpt-5.4-nano": _gpt(0.20, 0.02, 1.25),
    "gpt-5.3-codex": _gpt(1.75, 0.175, 14.0),
    "gpt-5-codex": _gpt(1.25, 0.125, 10.0),
    "gpt-5-mini": _gpt(0.25, 0.025, 2.0),
}


def price_of(model: str | None, own: Mapping[str, Price]) -> Price | None:
    """The price of a model: by its full name, then by each shorter spelling of the same model."""
    if not model:
        return None
    for name in _spellings(model):
        price = own.get(name) or TABLE.get(name)
        if price is not None:
            return price
    return None


def _spellings(model: str) -> Iterator[str]:
    """The name as given, without the context window, without the date, and as its maker spells it."""
    yield model
    bare = _WINDOW.sub("", model)
    yield bare
    yield _DATE.sub("", bare)
    makers = _makers_spelling(bare.lower())
    yield makers
    yield re.sub(_VERSION_FIRST, r"claude-\2-\1", makers)


def _makers_spelling(name: str) -> str:
    """`claude-sonnet-4-5` for `us.anthropic.claude-sonnet-4-5-20250929-v1:0`, `gpt-5-mini` for `openai/gpt-5-mini`."""
    served = re.fullmatch(_BEDROCK, name) or re.fullmatch(_SERVED_BY, name)
    name = served["name"] if served is not None else name
    claude = re.fullmatch(_CLAUDE, name)
    return _DATE.sub("", name) if claude is None else claude["name"].replace(".", "-")


class _File(msgspec.Struct, forbid_unknown_fields=True):
    models: dict[str, dict[str, Any]]


def read_prices(text: str) -> dict[str, Price]:
    """Prices from a user's TOML file: a table `[models."NAME"]` each, with input, output, cache_read and cache_write.

    Cache prices default to the input price. UsageError names what is wrong.
    """
    import tomllib  # here: most have no file

    try:
        given = msgspec.convert(tomllib.loads(text), _File).models
        prices = {name: msgspec.convert(_whole(fields), Price, strict=False) for name, fields in given.items()}
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        hints = ['write: [models."NAME"], then input = 1.0 and output = 2.0, in US dollars for a million tokens']
        raise UsageError(f"cannot read the price file: {error}", hints=hints) from None
    for name, price in prices.items():
        # A budget is never reached by a cost that is no number.
        if strange := [one for one in _amounts(price) if not 0 <= one < inf]:
            raise UsageError(f"the file of prices has {strange[0]} for {name!r}: a price is an amount from 0")
    return prices


def _amounts(price: Price) -> list[float]:
    kept_long = [] if price.cache_write_long is None else [price.cache_write_long]
    above = [] if price.long is None else _amounts(price.long)
    return [price.input, price.output, price.cache_read, price.cache_write, *kept_long, *above]


def _whole(fields: Mapping[str, Any]) -> dict[str, Any]:
    input = fields.get("input")
    return {"cache_read": input, "cache_write": input, **fields}
