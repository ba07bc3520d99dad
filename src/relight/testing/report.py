"""Conformance report: all checks of the store port on several stores, side by side.

    python -m relight.testing.report                                        memory and SQLite
    python -m relight.testing.report postgresql://host/db redis://host/0    and these servers

On a PostgreSQL server a database is created and dropped again; on a Redis server the keys have a prefix of their own.
The exit code is 1 if a check fails, or if two stores do not pass the same checks.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from relight.ports.store import Store
from relight.testing.checks import PromiseResult, Report
from relight.testing.clock import ManualClock
from relight.testing.store_kit import CHECKS, run
from relight.values.store import StoreInfo

Make = Callable[[ManualClock], Store]
TOLD: Final = ("durability", "on_server", "schema_version", "expires")
"""what a store says about itself, as shown in a report"""
_OURS: Final = "relight_conformance_"
"""prefix of the databases created for a report"""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one store."""

    store: str
    report: Report
    info: StoreInfo

    def kept(self, room: str) -> tuple[int, int]:
        """Passed checks and all checks of one part of the port."""
        outcomes = [one for one in self.report.outcomes if _ROOMS[one.check] == room]
        return sum(one.problem is None for one in outcomes), len(outcomes)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The report over all stores."""

    columns: tuple[Column, ...]

    @property
    def broken(self) -> list[tuple[str, PromiseResult]]:
        """(store, result) of every failed check."""
        return [(column.store, outcome) for column in self.columns for outcome in column.report.broken]

    @property
    def is_same(self) -> bool:
        """Whether all stores ran the same checks with the same results."""
        seen = {tuple((one.check, one.problem is None) for one in column.report.outcomes) for column in self.columns}
        return len(seen) == 1

    def __str__(self) -> str:
        names = [column.store for column in self.columns]
        width = max(map(len, names), default=0) + 2
        lines = [" " * 20 + "".join(name.ljust(max(width, 12)) for name in names)]
        for room in dict.fromkeys(_ROOMS.values()):
            cells = [_cell(*column.kept(room)).ljust(max(width, 12)) for column in self.columns]
            lines.append(room.ljust(20) + "".join(cells))
        for name in TOLD:
            cells = [str(getattr(column.info, name)).ljust(max(width, 12)) for column in self.columns]
            lines.append(name.ljust(20) + "".join(cells))
        lines += [f"{store}: {one.check}: {one.promise}\n    {one.problem}" for store, one in self.broken]
        return "\n".join(line.rstrip() for line in lines)


def compare(stores: Mapping[str, Make]) -> Comparison:
    """Run every check on each store."""
    return Comparison(columns=tuple(_column(name, make) for name, make in stores.items()))


def _column(name: str, make: Make) -> Column:
    first = make(ManualClock())
    info = first.info
    first.close()
    return Column(store=name, report=run(make), info=info)


def _cell(kept: int, promises: int) -> str:
    return f"{kept} of {promises} {'✓' if kept == promises else '✗'}"


_ROOMS: Final = {check.__name__: check.__module__.rpartition(".")[2] for check in CHECKS}
"""check -> part of the port"""


# -- stores to compare -----------------------------------------------------------------------------------------


@contextmanager
def stores(addresses: Sequence[str]) -> Iterator[dict[str, Make]]:
    """Factories of empty stores: memory, SQLite in a temporary directory, and one per server address."""
    from relight.stores.memory import MemoryStore

    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relight-report-")))
        made: dict[str, Make] = {"memory": MemoryStore, "sqlite": partial(_sqlite, directory, count(1))}
        for address in addresses:
            kind = "redis" if address.startswith(("redis", "unix")) else "postgres"
            keeper = redis_stores if kind == "redis" else postgres_stores
            made[kind] = stack.enter_context(keeper(address))
        yield made


def _sqlite(directory: Path, numbers: Iterator[int], clock: ManualClock) -> Store:
    from relight.stores.sqlite.store import SqliteStore

    return SqliteStore(directory / f"{next(numbers)}.db", clock)


@contextmanager
def postgres_stores(address: str) -> Iterator[Make]:
    """A factory of PostgreSQL stores, one at a time, in a temporary database."""
    import psycopg
    from psycopg.conninfo import make_conninfo

    from relight.stores.postgres.store import PostgresStore

    def make(clock: ManualClock) -> Store:
        store = PostgresStore(ours, clock, instead=clock.instant)
        # Emptied, not dropped: creating a database for each of a hundred checks would take minutes.
        with psycopg.connect(ours) as connection:
            tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'relight'").fetchall()
            for (table,) in tables:
                if table != "store":
                    connection.execute(f'DELETE FROM relight."{table}"'.encode())
        return store

    database = _OURS + token_hex(4)
    ours = make_conninfo(address, dbname=database)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
        try:
            yield make
        finally:
            connection.execute(f"DROP DATABASE {database} WITH (FORCE)".encode())


@contextmanager
def redis_stores(address: str) -> Iterator[Make]:
    """A factory of Redis stores, each under its own prefix; their keys are deleted at the end."""
    import redis

    from relight.stores.redis.store import RedisStore

    numbers, prefix = count(1), f"relight-conformance-{token_hex(4)}"

    def make(clock: ManualClock) -> Store:
        return RedisStore(
            f"{address}{'&' if '?' in address else '?'}prefix={prefix}-{next(numbers)}", clock, leases=clock
        )

    try:
        yield make
    finally:
        with redis.Redis.from_url(address.partition("?")[0]) as client:
            for key in client.scan_iter(match=f"{prefix}-*", count=1000):
                client.delete(key)


def main(addresses: Sequence[str]) -> int:
    """Print the report; the exit code."""
    with stores(addresses) as made:
        comparison = compare(made)
    print(comparison)
    return 0 if comparison.is_same and not comparison.broken else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
