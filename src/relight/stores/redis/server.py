"""The Redis server: connections, the one script that writes, and the translation of the driver's errors.

The driver never retries by itself: whether a request that got no reply was executed is for `commits` to find out. A
broken connection is dropped, and the next call opens a new one, so a restarted server is simply used again.
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

Argument = bytes | str | int
Command = tuple[Argument, ...]
"""a command or a check: its name and arguments"""


class Reply(msgspec.Struct, frozen=True, gc=False):
    """The reply to a transaction."""

    failed: int
    """the number of the check that failed, from 1; 0: everything was written"""
    found: bytes
    """what that check found"""
    at_us: int
    """the server's time"""
    results: tuple[Any, ...] = ()
    """the commands' results, if they were asked for"""


class Server:
    """The server at one address, with the driver's connection pool. Thread-safe."""

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
        with self._translate_errors():
            self._client: Any = redis.Redis.from_url(address.driver, **settings)
        self._stale.set()

    # -- asking -----------------------------------------------------------------------------------------------

    def execute(self, *command: Argument) -> Any:
        """Execute one command and return its result."""
        with self._translate_errors():
            return self._client.execute_command(*command)

    def execute_all(self, commands: Sequence[Command]) -> list[Any]:
        """Execute several commands in one round trip, not atomically."""
        if not commands:
            return []
        with self._translate_errors(), self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return list(pipeline.execute())

    def transact(self, checks: Sequence[Command], commands: Sequence[Command], *, results: bool = False) -> Reply:
        """Execute all commands atomically if all checks hold. `results`: return the result of each command."""
        given = (_packed(checks, commands), b"results") if results else (_packed(checks, commands),)
        with self._translate_errors():
            try:
                reply = self._client.execute_command("EVALSHA", _SHA, 0, *given)
            except NoScriptError:
                reply = self._client.execute_command("EVAL", _SCRIPT, 0, *given)
        if isinstance(reply, bytes):
            reply = [0, b"", *reply.split()]
        failed, found, seconds, micros, *each = reply
        return Reply(failed, found or b"", int(seconds) * 1_000_000 + int(micros), tuple(each))

    def time_us(self) -> int:
        """The server's time, microseconds since 1970."""
        seconds, micros = self.execute("TIME")
        return int(seconds) * 1_000_000 + int(micros)

    def info(self, section: str) -> dict[str, str]:
        """A section of INFO; empty if it is forbidden."""
        try:
            with self._translate_errors():
                found: Any = self._client.execute_command("INFO", section)
        except Forbidden:
            return {}
        return {str(key): str(value) for key, value in found.items()}

    # -- what it promises ---------------------------------------------------------------------------------------

    @property
    def durability(self) -> Durability:
        """The durability by its present settings, read again after every broken connection."""
        if self._stale.is_set():
            self._durability = self._read_durability()
            self._stale.clear()
        return self._durability

    def _read_durability(self) -> Durability:
        settings: dict[str, str] = {}
        try:
            for name in SETTINGS:
                with self._translate_errors():
                    found: Any = self._client.execute_command("CONFIG GET", name)
                settings |= {_text(key): _text(value) for key, value in found.items()}
        except Forbidden:
            return UNKNOWN
        return judge(settings)

    # -- errors -------------------------------------------------------------------------------------------------

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        if self._ended:
            raise StoreUnavailable(f"{self.shown}: the store was closed")
        try:
            yield
        except RelightError:
            raise
        except (RedisError, OSError, ValueError) as error:
            if not isinstance(error, ResponseError):
                self._stale.set()
            raise _store_error(self.shown, error) from error

    def close(self) -> None:
        """Close the connections; later calls raise StoreUnavailable. Idempotent."""
        self._ended = True
        self._client.close()


def is_too_old(version: str) -> bool:
    """True if the reported version is below the least one. A server that reports none is accepted."""
    numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    return len(numbers) == 2 and tuple(numbers) < LEAST_VERSION


def _packed(checks: Sequence[Command], commands: Sequence[Command]) -> bytes:
    """MessagePack as the server decodes it: cmsgpack knows no binary type, so every argument is a raw string."""
    prefix = _PREFIX.pack
    parts = [prefix(_LIST_CODE, 2)]
    for group in (checks, commands):
        parts.append(prefix(_LIST_CODE, len(group)))
        for command in group:
            parts.append(prefix(_LIST_CODE, len(command)))
            for argument in command:
                raw = argument if type(argument) is bytes else str(argument).encode()
                parts += (prefix(_RAW_CODE, len(raw)), raw)
    return b"".join(parts)


class Forbidden(StoreUnavailable):
    """The server's ACL does not allow this user a command."""


def _store_error(shown: str, error: Exception) -> StoreError:
    message = str(error).splitlines()[0] if str(error) else type(error).__name__
    note = "what was acknowledged before is kept by the server"
    if isinstance(error, AuthenticationError) or "NOAUTH" in message or "WRONGPASS" in message:
        return StoreUnavailable(
            f"{shown}: user or password is refused ({message})",
            hints=["put them into the address: redis://user:password@host:6379/0"],
        )
    if isinstance(error, NoPermissionError) or "permissions to" in message or "unknown command" in message.lower():
        return Forbidden(f"{shown}: {message}", hints=["see docs/stores.md for the commands a store needs"])
    if isinstance(error, ReadOnlyError) or "READONLY" in message:
        return _replica(shown)
    if "used memory > 'maxmemory'" in message or "No space left" in message:
        return _full(shown, "No space left" in message)
    if isinstance(error, BusyLoadingError):
        return StoreUnavailable(f"{shown}: the server is loading its data; {note}", hints=["try again in a moment"])
    # By text too: some versions of the driver strip the error's first word.
    if "MISCONF" in message or "MASTERDOWN" in message or "Link with MASTER" in message:
        return _unfit(shown, "MISCONF" in message, note)
    if isinstance(error, ResponseError):
        if "WRONGTYPE" in message or "wrong kind of value" in message:
            return Corrupt(f"{shown}: a key holds another kind of value than ours ({message})")
        hints = ["see its log, and what it says of itself: redis-cli INFO"]
        return StoreUnavailable(f"{shown}: the server refuses: {message}", evidence=[note], hints=hints)
    if isinstance(error, RedisTimeoutError):
        return StoreUnavailable(
            f"{shown}: no answer ({message}); {note}", hints=["see whether it runs: redis-cli ping"]
        )
    if isinstance(error, RedisConnectionError | OSError):
        return StoreUnavailable(
            f"{shown}: cannot be reached ({message})", hints=["see whether it runs: redis-cli ping"]
        )
    return StoreUnavailable(f"{shown}: {message}", hints=["see whether it runs: redis-cli ping"])


def _replica(shown: str) -> StoreReadOnly:
    error = StoreReadOnly(shown)
    error.hints = ("this server is a replica: set RELIGHT_STORE to its primary", "or: redis-cli REPLICAOF NO ONE")
    return error


def _full(shown: str, is_disk: bool) -> StoreFull:
    error = StoreFull(shown)
    room = "free some space on the server's disk" if is_disk else "give it more memory: redis-cli CONFIG SET maxmemory"
    error.hints = (f"{room}, then run it again", "see what could go: relight sweep --dry-run")
    return error


def _unfit(shown: str, cannot_save: bool, note: str) -> StoreUnavailable:
    """The error for a server that runs but temporarily takes no writes, or answers no reads."""
    if cannot_save:
        hints = ["see its log and the space on its disk; it takes writes again once it can save"]
        return StoreUnavailable(
            f"{shown}: the server cannot write its own files, and takes nothing; {note}", hints=hints
        )
    hints = ["set RELIGHT_STORE to the primary, or mend the link between the two"]
    return StoreUnavailable(f"{shown}: a replica that has lost its primary does not answer; {note}", hints=hints)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
