"""Short ways for tests of stores to fill one."""

from __future__ import annotations

from pathlib import Path

from relight.ports.store import Store
from relight.stores.sqlite.store import SqliteStore
from relight.testing.clock import ManualClock
from relight.testing.store_checks.trial import Hooks, Trial


def trial(path: Path, clock: ManualClock | None = None) -> Trial:
    """A store at this path, with short ways to use it."""
    clock = clock or ManualClock()
    return Trial(SqliteStore(path, clock), clock, Hooks())


def history(store: Store, session: str) -> list[bytes]:
    """What was said, step by step."""
    return [step.body for step in store.steps(session)]
