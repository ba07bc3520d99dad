"""A store of one's own: what passes the kit is opened like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

import relight
from relight.errors import UnknownStore, UsageError
from relight.stores.memory import MemoryStore
from relight.testing.clock import ManualClock
from relight.values.step import Committed, Draft


class Counting(MemoryStore):
    """A third party's: it counts what it is asked to write."""

    commits = 0
    closed = False

    def commit(self, session: str, draft: Draft) -> Committed:
        self.commits += 1
        return super().commit(session, draft)

    def close(self) -> None:
        self.closed = True
        super().close()


def test_a_store_object_is_opened_used_and_closed(tmp_path: Path) -> None:
    store = Counting(ManualClock())
    (tmp_path / "f").write_text("one")
    with relight.open(store) as rl:
        assert rl.store is store
        with rl.session("a", workspace=tmp_path) as s:
            s.append({"role": "user", "content": "hello"})
            (tmp_path / "f").write_text("two")
        assert rl.history.load("a").messages == [{"role": "user", "content": "hello"}]
        rl.files.restore("a@2", choice="force")
        rl.history.fork("a", name="b")
        assert rl.history.verify().ok
    assert store.commits >= 3 and store.closed


@pytest.mark.parametrize("wrong", [3, object(), MemoryStore, b"p.db"], ids=["number", "object", "class", "bytes"])
def test_what_is_no_store_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match="a store is an address, a path or a Store"):
        relight.open(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["", "a\0b"])
def test_an_address_that_cannot_be_one_is_refused(wrong: str) -> None:
    with pytest.raises(UnknownStore):
        relight.open(wrong)
