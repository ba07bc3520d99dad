"""What a store says about itself: durability, address, schema, what it can do beyond the port."""

from __future__ import annotations

from pathlib import Path
from typing import Final, cast

from relight.ports.store import ExpiringStore
from relight.testing.store_checks.trial import Check, Trial, equal, require
from relight.values.store import LEVELS


def durability_is_one_of_the_known(trial: Trial) -> None:
    """The durability is a known one; a store that gives a reason for less than the best also gives a cure."""
    info = trial.store.info
    require(info.durability in LEVELS, f"{info.durability} is one of {', '.join(LEVELS)}")
    require(not info.durability_reason or info.durability != "power-loss", "a reason only where it is not the best")
    equal(bool(info.durability_cures), bool(info.durability_reason), "a cure for a reason")


def an_address_opens_it_again_and_shows_no_password(trial: Trial) -> None:
    """`url` is for programs, `info.location` for people."""
    store = trial.store
    require(isinstance(store.url, str) and store.url, "there is an address")
    require(store.blobs is None or isinstance(store.blobs, Path), "blobs is a directory, or none")
    secret = store.url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    require(not secret or secret not in store.info.location, "no password in the location")


def what_it_says_about_itself_is_so(trial: Trial) -> None:
    """A schema version is at least 1, a store that was just written to is not read-only, one that says that it expires
    sessions can be told when."""
    trial.working(1)
    store, info = trial.store, trial.store.info
    require(info.kind and info.location, "it says what and where it is")
    require(info.schema_version is None or info.schema_version >= 1, "the version of the schema is a number from 1")
    equal(info.read_only, False, "a store that was just written to can be written")
    if info.expires:
        cast(ExpiringStore, store).expire_after(7.0)
        equal(cast(ExpiringStore, store).expired("0" * 32), None, "an unknown session did not expire")


CHECKS: Final[tuple[Check, ...]] = (
    durability_is_one_of_the_known,
    an_address_opens_it_again_and_shows_no_password,
    what_it_says_about_itself_is_so,
)
