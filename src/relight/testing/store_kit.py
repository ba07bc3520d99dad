"""Conformance kit of the store port: checks for the whole contract of `relight.ports.store`.

    class TestMyStore(StoreKit):
        def make_store(self, clock):
            return MyStore(..., clock)

is all that pytest needs. Without pytest:

    report = run(lambda clock: MyStore(..., clock))
    print(report)

Each check gets a new, empty store on a manual clock. A durable store overrides `bytes_at_rest`, so that complete
deletion can be checked; one whose rows can be damaged from outside overrides `break_head`, so that repair can be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from relight.ports.store import Store
from relight.testing.checks import Report, add_tests, report_of
from relight.testing.clock import ManualClock
from relight.testing.store_checks import (
    adoption,
    declared,
    deletion,
    indexing,
    journal,
    labels,
    leases,
    listing,
    queues,
    sessions,
    snapshots,
    threads,
)
from relight.testing.store_checks.trial import Check, Hooks, Trial

CHECKS: tuple[Check, ...] = tuple(
    check
    for room in (
        *(sessions, listing, journal, leases, queues, labels, snapshots),
        *(deletion, indexing, adoption, declared, threads),
    )
    for check in room.CHECKS
)


def run(make_store: Callable[[ManualClock], Store], hooks: Hooks | None = None) -> Report:
    """Run every check; a failure ends its check, not the run."""
    return report_of(CHECKS, lambda check: try_one(check, make_store, hooks or Hooks()))


def try_one(check: Check, make_store: Callable[[ManualClock], Store], hooks: Hooks) -> None:
    """Run one check on a new store, which is closed afterwards."""
    clock = ManualClock()
    store = make_store(clock)
    try:
        check(Trial(store, clock, hooks))
    finally:
        store.close()


class StoreKit(ABC):
    """For pytest: a subclass whose name begins with `Test` has one test for every check."""

    @abstractmethod
    def make_store(self, clock: ManualClock) -> Store:
        """A new, empty store on the given clock."""

    def bytes_at_rest(self, store: Store) -> bytes | None:
        """Everything the store has on disk, logs included; None if it has no files."""
        return None

    def break_head(self, store: Store, session: str) -> bool:
        """Damage the stored head of a session from outside; False if that is not possible."""
        return False

    def _try(self, check: Check) -> None:
        try_one(check, self.make_store, Hooks(bytes_at_rest=self.bytes_at_rest, break_head=self.break_head))

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        add_tests(cls, CHECKS, cls._try)
