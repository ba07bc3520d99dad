"""Both stores keep every promise of the port."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from relight.ports.store import Store
from relight.stores.memory import MemoryStore
from relight.stores.sqlite.store import SqliteStore
from relight.testing.clock import ManualClock
from relight.testing.store_kit import StoreKit, run


class TestMemoryStore(StoreKit):
    def make_store(self, clock: ManualClock) -> Store:
        return MemoryStore(clock)

    def break_head(self, store: Store, session: str) -> bool:
        assert isinstance(store, MemoryStore)
        store._heads[session] = b"\0" * 40
        return True


class TestSqliteStore(StoreKit):
    path: Path

    @pytest.fixture(autouse=True)
    def _own_directory(self, tmp_path: Path) -> None:
        self.path = tmp_path / "relight.db"

    def make_store(self, clock: ManualClock) -> Store:
        return SqliteStore(self.path, clock)

    def bytes_at_rest(self, store: Store) -> bytes:
        return b"".join(path.read_bytes() for path in sorted(self.path.parent.iterdir()))

    def break_head(self, store: Store, session: str) -> bool:
        connection = apsw.Connection(str(self.path))
        connection.execute(
            "UPDATE heads SET record = zeroblob(40) WHERE sid = (SELECT sid FROM sessions WHERE id = ?)", (session,)
        )
        connection.close()
        return True


def test_the_kit_reports_without_pytest() -> None:
    report = run(MemoryStore)
    assert report.broken == ()
    assert str(report) == f"{len(report.outcomes)} of {len(report.outcomes)} promises kept"


class Forgetful(MemoryStore):
    """A store with a planted bug: a label once given stays."""

    def unlabel(self, session: str, seq: int) -> int:
        return 0


def test_the_kit_names_a_broken_promise() -> None:
    report = run(Forgetful)
    assert {outcome.check for outcome in report.broken} >= {"a_label_can_be_removed"}
    assert "a_label_can_be_removed: Removing the labels of a checkpoint" in str(report)
