"""The PostgreSQL store keeps every promise of the port, on a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relight.ports.store import Store
from relight.stores.postgres.store import PostgresStore
from relight.testing.clock import ManualClock
from relight.testing.store_kit import StoreKit
from tests.support.postgres_server import Server, name_of, running


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(fsync="off") as one:  # what survives a crash is tested elsewhere
        yield one


class TestPostgresStore(StoreKit):
    server: Server

    @pytest.fixture(autouse=True)
    def _a_server(self, server: Server) -> None:
        self.server = server

    def make_store(self, clock: ManualClock) -> Store:
        return PostgresStore(self.server.emptied(), clock, instead=clock.instant)

    def break_head(self, store: Store, session: str) -> bool:
        self.server.execute(
            "UPDATE relight.heads SET record = 'nothing' WHERE sid = (SELECT sid FROM relight.sessions WHERE id = %b)",
            session.encode(),
            database=name_of(store.url),
        )
        return True
