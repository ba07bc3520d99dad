"""Every engine keeps the promises of the port: the embedded one on every store, Procrastinate on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from relight.fleet.engines.embedded import EmbeddedEngine
from relight.fleet.engines.procrastinate.engine import ProcrastinateEngine, queue_name
from relight.fleet.engines.procrastinate.schema import connect
from relight.ports.store import Store
from relight.ports.wakeup import WorkEngine
from relight.stores.memory import MemoryStore
from relight.stores.postgres.connections import Connections
from relight.stores.postgres.store import PostgresStore
from relight.stores.redis.store import RedisStore
from relight.stores.sqlite.store import SqliteStore
from relight.system.machine import SystemClock
from relight.testing.engine_kit import EngineKit
from relight.values.queues import QueueKey
from tests.support.postgres_server import Server, name_of, running
from tests.support.redis_server import ALWAYS, RedisServer, redis_program


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(fsync="off") as one:
        yield one


@pytest.fixture(scope="module")
def redis(program: Callable[[str], str]) -> Iterator[RedisServer]:
    started = RedisServer(redis_program(program), ALWAYS)
    yield started
    started.stop()


class TestEmbeddedOnMemory(EngineKit):
    def make_store(self) -> Store:
        return MemoryStore(SystemClock())

    def make_engine(self, store: Store) -> WorkEngine:
        return EmbeddedEngine(store, SystemClock())


class TestEmbeddedOnSqlite(EngineKit):
    path: Path

    @pytest.fixture(autouse=True)
    def _a_path(self, tmp_path: Path) -> None:
        self.path = tmp_path / "relight.db"

    def make_store(self) -> Store:
        return SqliteStore(self.path, SystemClock())

    def make_engine(self, store: Store) -> WorkEngine:
        return EmbeddedEngine(store, SystemClock())


class TestEmbeddedOnRedis(EngineKit):
    server: RedisServer

    @pytest.fixture(autouse=True)
    def _an_empty_server(self, redis: RedisServer) -> None:
        self.server = redis
        with redis.client() as client:
            client.flushall()

    def make_store(self) -> Store:
        return RedisStore(self.server.url, SystemClock())

    def make_engine(self, store: Store) -> WorkEngine:
        return EmbeddedEngine(store, SystemClock())


class TestProcrastinate(EngineKit):
    server: Server

    @pytest.fixture(autouse=True)
    def _a_server(self, server: Server) -> None:
        self.server = server

    def make_store(self) -> Store:
        return PostgresStore(self.server.emptied(), SystemClock())

    def make_engine(self, store: Store) -> WorkEngine:
        return ProcrastinateEngine(store, SystemClock())


def test_a_row_is_written_in_the_transaction_that_puts_a_session_in_line(server: Server) -> None:
    """Whoever writes: the store knows nothing of the engine. And what dead workers left open is closed."""
    from relight.testing.engine_kit import A, EngineTrial

    url = server.database()
    trial = EngineTrial(
        lambda: PostgresStore(url, SystemClock()), lambda store: ProcrastinateEngine(store, SystemClock())
    )
    engine, other = trial.engine(), trial.engine()

    def rows() -> list[tuple[object, ...]]:
        what = "SELECT queue_name, args, status::text, priority FROM relight_fleet.procrastinate_jobs ORDER BY id"
        return server.execute(what, database=name_of(url))

    session = trial.enqueue(priority=3)
    assert rows() == [("a", {"session": session}, "todo", 3)]
    (ticket,) = engine.take([A], 1)
    trial.start(session)
    assert [row[2] for row in rows()] == ["doing"]
    trial.requeue(session)  # its worker died: a new row, and the old one is left open
    assert [row[2] for row in rows()] == ["doing", "todo"]
    started = "UPDATE relight_fleet.procrastinate_events SET at = now() - interval '1 minute'"
    server.execute(started, database=name_of(url))
    assert other.sweep(trial.is_working) == 1
    assert [row[2] for row in rows()] == ["todo"]
    trial.requeue(session, "terminated")
    assert rows() == []
    engine.close_ticket(ticket)
    trial.close()


def test_a_name_is_made_the_same_way_on_both_sides(server: Server) -> None:
    url = server.database()
    store = PostgresStore(url, SystemClock())
    engine = ProcrastinateEngine(store, SystemClock())
    engine.prepare()
    for line, key in ((QueueKey("a"), b"a"), (QueueKey("q" * 60, ("eu", "gpu")), b"q" * 60 + b" eu,gpu")):
        ((made,),) = server.execute("SELECT relight_fleet.queue_name(%s)", key, database=name_of(url))
        assert made == queue_name(line)
    engine.close()
    store.close()


def test_its_connection_gives_a_silent_server_up_as_soon_as_the_stores_own(server: Server) -> None:
    for asked, wanted in (("", "30000"), ("?tcp_user_timeout=4000", "4000")):
        pool = Connections(server.url() + asked)
        with closing(pool), connect(server.url() + asked) as ours, pool.borrowed() as the_stores:
            for name in ("connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count"):
                assert ours.info.get_parameters()[name] == the_stores.info.get_parameters()[name]
            assert [one.info.get_parameters()["tcp_user_timeout"] for one in (ours, the_stores)] == [wanted] * 2
