"""Stores for the frameworks: memory, SQLite and PostgreSQL, the last on one server for all tests of a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import relight
from relight.library.facade import Relight
from tests.support.postgres_server import Server, running

Open = Callable[[], Relight]
"""another opening of the same store, as another program would have; memory has only one"""


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running(fsync="off") as one:
        yield one


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens a new, empty store each time; all are closed at the end."""
    opened: list[Relight] = []
    numbers = count()

    def make() -> Relight:
        if request.param == "memory":
            address: str | Path = "memory:"
        elif request.param == "sqlite":
            address = tmp_path / f"{next(numbers)}.db"
        else:
            address = request.getfixturevalue("postgres").emptied()
        opened.append(relight.open(address))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def location(tmp_path: Path) -> Iterator[Open]:
    """Opens the same SQLite file each time."""
    opened: list[Relight] = []

    def make() -> Relight:
        opened.append(relight.open(tmp_path / "r.db"))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
