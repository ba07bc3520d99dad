"""Servers for the whole run of a worker, started when a test first asks for one, and stores on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.support.postgres_server import Server, running
from tests.support.redis_server import ALWAYS, RedisServer, redis_program

Addresses = Callable[[str, Path], str]


class Servers:
    """One of each kind, once."""

    def __init__(self, program: Callable[[str], str], stack: ExitStack) -> None:
        self._program, self._stack = program, stack
        self._postgres: Server | None = None
        self._redis: RedisServer | None = None
        self._numbers = count(1)

    @property
    def postgres(self) -> Server:
        if self._postgres is None:
            self._postgres = self._stack.enter_context(running(fsync="off"))  # what survives is tested elsewhere
        return self._postgres

    @property
    def redis(self) -> RedisServer:
        if self._redis is None:
            self._redis = RedisServer(redis_program(self._program), ALWAYS)
            self._stack.callback(self._redis.stop)
        return self._redis

    def address(self, kind: str, directory: Path) -> str:
        """Of a new, empty store of this kind."""
        match kind:
            case "sqlite":
                return f"sqlite:///{directory / 'store' / 'relight.db'}"
            case "postgres":
                return self.postgres.emptied()
            case "redis":
                return f"{self.redis.url}?prefix=store-{next(self._numbers)}"
        return "memory:"


@pytest.fixture(scope="session")
def servers(program: Callable[[str], str]) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(program, stack)


@pytest.fixture
def address_of(servers: Servers) -> Addresses:
    """The address of a new, empty store of a kind."""
    return servers.address
