"""Parsing the address of a Redis store.

    redis://[user:password@]host[:port]/[db]     rediss:// with TLS     unix:///path/to/redis.sock

`?prefix=NAME` allows several stores in one database; `?durability=power-loss` refuses a server whose settings guarantee
less. All other query parameters are passed to the driver.
"""

from __future__ import annotations

import re
from typing import Final, cast, get_args
from urllib.parse import parse_qsl, urlencode

import msgspec

from relight.errors import UsageError
from relight.stores.redis.durability import Level
from relight.text.safe import safe_address

SCHEMES: Final = ("redis", "rediss", "unix")
DEFAULT_PREFIX: Final = "relight"
_PREFIX: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_PASSWORD: Final = re.compile(r"^([a-z]+://[^:@/?]*:)[^?]*@")


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an address of a Redis store."""

    url: str
    """as given"""
    driver: str
    """for the driver, without our parameters"""
    shown: str
    """without a password"""
    prefix: str = DEFAULT_PREFIX
    demanded: Level | None = None


def parse(url: str) -> Address:
    """The parts of an address, or UsageError."""
    base, _, query = url.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    ours = {key: value for key, value in given if key in ("prefix", "durability")}
    others = urlencode([(key, value) for key, value in given if key not in ours])
    prefix = ours.get("prefix", DEFAULT_PREFIX)
    demanded = ours.get("durability")
    if base.partition("://")[0] not in SCHEMES or not _PREFIX.fullmatch(prefix):
        raise UsageError(f"not an address of a Redis store: {without_password(url)!r}", hints=[f"such as {_EXAMPLE}"])
    if demanded is not None and demanded not in get_args(Level):
        raise UsageError(f"no durability called {demanded!r}", hints=["there are: " + ", ".join(get_args(Level))])
    return Address(
        url=url,
        driver=f"{base}?{others}" if others else base,
        shown=without_password(base),
        prefix=prefix,
        demanded=cast(Level | None, demanded),
    )


def without_password(url: str) -> str:
    """The address as shown to users."""
    return safe_address(_PASSWORD.sub(r"\1***@", url))


_EXAMPLE: Final = "redis://localhost:6379/0?prefix=relight&durability=power-loss"
