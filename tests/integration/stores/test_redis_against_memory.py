"""Whatever is done to both, the Redis store and the memory store give the same answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis.stateful import initialize

from relight.ports.store import Store
from relight.stores.redis.store import RedisStore
from tests.integration.stores.test_against_memory import PHASES, BothStores
from tests.support.redis_server import RedisServer, redis_program

_runs = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def _server(program: Callable[[str], str]) -> Iterator[None]:
    started = RedisServer(redis_program(program))
    RedisAndMemory.server = started
    yield
    started.stop()


class RedisAndMemory(BothStores):
    server: ClassVar[RedisServer]

    @initialize()
    def open_both(self) -> None:
        self.prefix = f"run{next(_runs)}"
        super().open_both()

    def reopened(self) -> Store:
        return RedisStore(f"{self.server.url}?prefix={self.prefix}", self.clock, leases=self.clock)


TestRedisAndMemory = RedisAndMemory.TestCase
TestRedisAndMemory.settings = settings(stateful_step_count=40, deadline=None, phases=PHASES)
