"""Taking the first of a line costs the same with a hundred thousand behind it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from relight.ports.store import Store
from relight.stores.postgres.store import PostgresStore
from relight.stores.sqlite.store import SqliteStore
from relight.system.machine import SystemClock
from relight.values.queues import QueueKey
from tests.support.figures import Figure
from tests.support.postgres_server import Server, name_of, running

MANY = 100_000
FEW = 100
MAX_MS = 15.0
_FILL = (
    "INSERT INTO {table} (sid, line, priority, since_us, id, wake_us) "
    "SELECT n, {line}, n % 7, n, {id}, CASE WHEN n % 3 = 0 THEN 9000000000000000 END FROM {numbers}"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(fsync="off") as one:
        yield one


def fill_postgres(server: Server, url: str, least: int, most: int) -> None:
    numbers = f"generate_series({least}::bigint, {most}) AS n"
    line, made = "convert_to('q' || (n % 5), 'UTF8')", "convert_to('session' || n, 'UTF8')"
    text = _FILL.format(table="relight.waiting", line=line, id=made, numbers=numbers)
    server.execute(text, database=name_of(url))
    server.execute("ANALYZE relight.waiting", database=name_of(url))


def fill_sqlite(path: Path, least: int, most: int) -> None:
    numbers = (
        f"(WITH RECURSIVE c(n) AS (SELECT {least} UNION ALL SELECT n + 1 FROM c WHERE n < {most}) SELECT n FROM c)"
    )
    connection = apsw.Connection(str(path))
    with connection:
        line, made = "'q' || (n % 5)", "'session' || n"
        connection.execute(_FILL.format(table="waiting", line=line, id=made, numbers=numbers))
    connection.close()


def look_ms(store: Store) -> float:
    """A worker's whole look: which lines there are, and the first of one. The least of 15: others waited for a core."""

    def look() -> float:
        begun = time.perf_counter()
        assert store.list_queue_keys() == [QueueKey(f"q{n}") for n in range(5)]
        assert len(store.list_waiting(QueueKey("q1"), 4)) == 4
        return (time.perf_counter() - begun) * 1e3

    return min(look() for _ in range(15))


def compared(store: Store, fill: Callable[[int, int], None]) -> tuple[float, float]:
    fill(1, FEW)
    few = look_ms(store)
    fill(FEW + 1, MANY)
    return few, look_ms(store)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_first_of_a_line_is_found_at_once_however_long_it_is(
    kind: str, server: Server, tmp_path: Path, figure: Figure
) -> None:
    if kind == "sqlite":
        store: Store = SqliteStore(tmp_path / "r.db", SystemClock())
        few, many = compared(store, lambda least, most: fill_sqlite(tmp_path / "r.db", least, most))
    else:
        url = server.database()
        store = PostgresStore(url, SystemClock())
        few, many = compared(store, lambda least, most: fill_postgres(server, url, least, most))
    store.close()
    assert many <= max(4 * few, MAX_MS)
    figure(
        "G12", f"{kind}: a worker's look at its lines takes {many:.1f} ms with {MANY:,} queued, {few:.1f} with {FEW}"
    )
