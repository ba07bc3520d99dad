"""The Redis store keeps every promise of the port, on a real server that syncs every write."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from relight.ports.store import Store
from relight.stores.redis.store import RedisStore
from relight.testing.clock import ManualClock
from relight.testing.store_kit import StoreKit
from tests.support.redis_server import ALWAYS, RedisServer, redis_program


@pytest.fixture(scope="module")
def server(program: Callable[[str], str]) -> Iterator[RedisServer]:
    started = RedisServer(redis_program(program), ALWAYS)
    yield started
    started.stop()


class TestRedisStore(StoreKit):
    server: RedisServer

    @pytest.fixture(autouse=True)
    def _empty_server(self, server: RedisServer) -> None:
        self.server = server
        with server.client() as client:
            client.flushall()

    def make_store(self, clock: ManualClock) -> Store:
        return RedisStore(f"{self.server.url}?durability=power-loss", clock, leases=clock)

    def bytes_at_rest(self, store: Store) -> bytes:
        return self.server.bytes_at_rest()

    def break_head(self, store: Store, session: str) -> bool:
        with self.server.client() as client:
            key = f"relight:s:{{{session}}}:head"
            assert client.exists(key)
            client.set(key, bytes(40))
        return True
