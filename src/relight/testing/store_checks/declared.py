"""What a store declares: durability, address, and the optional parts of the port."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from relight.ports.store import OPTIONAL, Store
from relight.testing.store_checks.trial import Check, Trial, equal, require
from relight.values.durability import LEVELS


def offered(store: Store) -> frozenset[str]:
    """The optional attributes that a store has."""
    return frozenset(name for name in OPTIONAL if hasattr(store, name))


def durability_is_one_of_the_known(trial: Trial) -> None:
    """The durability is a known one; a store that gives a reason for less than the best also gives a cure."""
    store = trial.store
    require(store.durability in LEVELS, f"{store.durability} is one of {', '.join(LEVELS)}")
    if "durability_reason" in offered(store):
        why, cures = getattr(store, "durability_reason", ""), getattr(store, "durability_cures", ())
        equal(bool(why), store.durability != "power-loss", "a reason, where it is not the best")
        equal(bool(cures), bool(why), "a cure for a reason")
        require(all(isinstance(cure, str) for cure in cures), "cures are lines that can be pasted")


def an_address_opens_it_again_and_shows_no_password(trial: Trial) -> None:
    """`url` is for programs, `place` for people."""
    store = trial.store
    require(isinstance(store.url, str) and store.url, "there is an address")
    require(store.blobs is None or isinstance(store.blobs, Path), "blobs is a directory, or none")
    shown = getattr(store, "place", "")
    require(isinstance(shown, str), "the place is a text")
    secret = store.url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    require(not secret or secret not in shown, "no password in the place")


def what_is_offered_is_what_it_is_called(trial: Trial) -> None:
    """The optional attributes have the declared types; a schema version is at least 1."""
    store = trial.store
    version = getattr(store, "schema_version", 1)
    require(isinstance(version, int) and version >= 1, "the version of the schema is a number from 1")
    equal(getattr(store, "read_only", False), False, "a store that was just written to can be written")
    trial.working(1)


CHECKS: Final[tuple[Check, ...]] = (
    durability_is_one_of_the_known,
    an_address_opens_it_again_and_shows_no_password,
    what_is_offered_is_what_it_is_called,
)
