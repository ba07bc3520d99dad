"""The server behind the store: connections, the one function that writes, and errors in our own words.

The driver never sends anything twice by itself: whether a request that got no answer was done is for the journal to
find out. A connection that broke is given up, and the next call makes a new one; so a server that was restarted is
simply there again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha1
from importlib.resources import files
from struct import Struct
from typing import Any, Final

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from relight.errors import Corrupt, RelightError, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from relight.stores.redis.address import Address
from relight.stores.redis.durability import SETTINGS, UNKNOWN, Durability, judge

CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 30.0
LEAST_VERSION: Final = (6, 2)
_SCRIPT: Final = files("relight.stores.redis").joinpath("scripts/transact.lua").read_bytes()
_SHA: Final = sha1(_SCRIPT, usedforsecurity=False).hexdigest()
_PREFIX: Final = Struct(">BI")
_LIST_CODE: Final = 0xDD
_RAW_CODE: Final = 0xDB

Word = bytes | str | int
Words = tuple[Word, ...]
"""a command or a check: its name and what it is given"""


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What became of a transaction."""

    failed: int
    """the number of the check that failed, from 1; 0: all is written"""
    found: bytes
    """what that check found"""
    at_us: int
    """the server's time"""
    results: tuple[Any, ...] = ()
    """where they were asked for"""


class Server:
    """One address. Thread-safe."""

    def __init__(self, address: Address) -> None:
        self.shown = address.shown
        self._ended = False
        self._stale = threading.Event()
        self._durability = UNKNOWN
        settings: dict[str, Any] = {
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": ANSWER_SECONDS,
        }
        if not address.driver.startswith("unix:"):
            settings |= {"socket_connect_timeout": CONNECT_SECONDS, "socket_keepalive": True}
        with self._speaking():
            self._client: Any = redis.Redis.from_url(address.driver, **settings)
        self._stale.set()

    # -- asking -----------------------------------------------------------------------------------------------

    def ask(self, *command: Word) -> Any:
        """One command."""
        with self._speaking():
            return self._client.execute_command(*command)

    def ask_all(self, commands: Sequence[Words]) -> list[Any]:
        """Several in one round trip; each is done for itself."""
        if not commands:
            return []
        with self._speaking(), self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return list(pipeline.execute())

    def transact(self, checks: Sequence[Words], commands: Sequence[Words], *, results: bool = False) -> Answer:
        """All commands if all checks hold, in one step that no other client can see the half of. `results`: each
        command's is wanted."""
        given = (_packed(checks, commands), b"results") if results else (_packed(checks, commands),)
        with self._speaking():
            try:
                answer = self._client.execute_command("EVALSHA", _SHA, 0, *given)
            except NoScriptError:
                answer = self._client.execute_command("EVAL", _SCRIPT, 0, *given)
        if isinstance(answer, bytes):
            answer = [0, b"", *answer.split()]
        failed, found, seconds, micros, *each = answer
        return Answer(failed, found or b"", int(seconds) * 1_000_000 + int(micros), tuple(each))

    def time_us(self) -> int:
        """The server's time, microseconds since 1970."""
        seconds, micros = self.ask("TIME")
        return int(seconds) * 1_000_000 + int(micros)

    def info(self, section: str) -> dict[str, str]:
        """A section of INFO; empty where it is forbidden."""
        try:
            with self._speaking():
                found: Any = self._client.execute_command("INFO", section)
        except Forbidden:
            return {}
        return {str(key): str(value) for key, value in found.items()}

    # -- what it promises ---------------------------------------------------------------------------------------

    @property
    def durability(self) -> Durability:
        """By its present settings, read again after every connection that broke."""
        if self._stale.is_set():
            self._durability = self._read_durability()
            self._stale.clear()
        return self._durability

    def _read_durability(self) -> Durability:
        settings: dict[str, str] = {}
        try:
            for name in SETTINGS:
                with self._speaking():
                    found: Any = self._client.execute_command("CONFIG GET", name)
                settings |= {_text(key): _text(value) for key, value in found.items()}
        except Forbidden:
            return UNKNOWN
        return judge(settings)

    # -- errors -------------------------------------------------------------------------------------------------

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        if self._ended:
            raise StoreUnavailable(f"{self.shown}: the store was closed")
        try:
            yield
        except RelightError:
            raise
        except (RedisError, OSError, ValueError) as error:
            if not isinstance(error, ResponseError):
                self._stale.set()
            raise _in_our_words(self.shown, error) from error

    def close(self) -> None:
        """Give the connections back. Idempotent."""
        self._ended = True
        self._client.close()


def is_too_old(version: str) -> bool:
    """By what a server says of itself. One that says nothing is given the benefit of the doubt."""
    numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    return len(numbers) == 2 and tuple(numbers) < LEAST_VERSION


def _packed(checks: Sequence[Words], commands: Sequence[Words]) -> bytes:
    """MessagePack as the server decodes it: it knows no binary type, so that every word is a raw string."""
    prefix = _PREFIX.pack
    parts = [prefix(_LIST_CODE, 2)]
    for group in (checks, commands):
        parts.append(prefix(_LIST_CODE, len(group)))
        for words in group:
            parts.append(prefix(_LIST_CODE, len(words)))
            for word in words:
                raw = word if type(word) is bytes else str(word).encode()
                parts += (prefix(_RAW_CODE, len(raw)), raw)
    return b"".join(parts)


class Forbidden(StoreUnavailable):
    """The user we are on the server may not use a command."""


def _in_our_words(shown: str, error: Exception) -> StoreError:
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    kept = "what was acknowledged before is kept by the server"
    if isinstance(error, AuthenticationError) or "NOAUTH" in said or "WRONGPASS" in said:
        return StoreUnavailable(
            f"{shown}: user or password is refused ({said})",
            hints=["put them into the address: redis://user:password@host:6379/0"],
        )
    if isinstance(error, NoPermissionError) or "permissions to" in said or "unknown command" in said.lower():
        return Forbidden(f"{shown}: {said}", hints=["see docs/stores.md for the commands a store needs"])
    if isinstance(error, ReadOnlyError) or "READONLY" in said:
        return _replica(shown)
    if "used memory > 'maxmemory'" in said or "No space left" in said:
        return _full(shown, "No space left" in said)
    if isinstance(error, BusyLoadingError):
        return StoreUnavailable(f"{shown}: the server is loading its data; {kept}", hints=["try again in a moment"])
    if "MISCONF" in said or "MASTERDOWN" in said or "Link with MASTER" in said:  # a driver may take the first word
        return _unfit(shown, "MISCONF" in said, kept)
    if isinstance(error, ResponseError):
        if "WRONGTYPE" in said or "wrong kind of value" in said:
            return Corrupt(f"{shown}: a key holds another kind of value than ours ({said})")
        hints = ["see its log, and what it says of itself: redis-cli INFO"]
        return StoreUnavailable(f"{shown}: the server refuses: {said}", evidence=[kept], hints=hints)
    if isinstance(error, RedisTimeoutError):
        return StoreUnavailable(f"{shown}: no answer ({said}); {kept}", hints=["see whether it runs: redis-cli ping"])
    if isinstance(error, RedisConnectionError | OSError):
        return StoreUnavailable(f"{shown}: cannot be reached ({said})", hints=["see whether it runs: redis-cli ping"])
    return StoreUnavailable(f"{shown}: {said}", hints=["see whether it runs: redis-cli ping"])


def _replica(shown: str) -> StoreReadOnly:
    error = StoreReadOnly(shown)
    error.hints = ("this server is a replica: set RELIGHT_STORE to its primary", "or: redis-cli REPLICAOF NO ONE")
    return error


def _full(shown: str, is_disk: bool) -> StoreFull:
    error = StoreFull(shown)
    room = "free some space on the server's disk" if is_disk else "give it more memory: redis-cli CONFIG SET maxmemory"
    error.hints = (f"{room}, then run it again", "see what could go: relight sweep --dry-run")
    return error


def _unfit(shown: str, cannot_save: bool, kept: str) -> StoreUnavailable:
    """It runs, and for the time being does not take what is written, or does not answer what is asked."""
    if cannot_save:
        hints = ["see its log and the space on its disk; it takes writes again once it can save"]
        return StoreUnavailable(
            f"{shown}: the server cannot write its own files, and takes nothing; {kept}", hints=hints
        )
    hints = ["set RELIGHT_STORE to the primary, or mend the link between the two"]
    return StoreUnavailable(f"{shown}: a replica that has lost its primary does not answer; {kept}", hints=hints)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
