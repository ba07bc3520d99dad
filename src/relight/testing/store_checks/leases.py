"""Leases: one live owner, epochs that only increase, refusals that change nothing."""

from __future__ import annotations

from functools import partial
from typing import Final

from relight.errors import Conflict, LeaseHeld, LeaseLost
from relight.testing.store_checks.trial import LEASE_SECONDS, Check, Trial, equal, refused, require


def a_claim_raises_the_epoch(trial: Trial) -> None:
    """Every claim raises the epoch by one, and the lease is the claimer's until its deadline."""
    session = trial.begin()
    for number, owner in enumerate(("a", "b", "c"), 1):
        head = trial.claim(session, owner, gone=True).head
        equal(head.epoch, number, "one higher")
        require(head.lease is not None and head.lease.owner.id == owner, f"{owner} has it")
        assert head.lease is not None
        equal(head.lease.remaining_seconds(trial.store.instant()), LEASE_SECONDS, "for as long as asked")


def a_live_lease_refuses_other_claims(trial: Trial) -> None:
    """A claim of a leased session is refused until the lease's deadline."""
    session = trial.working()
    trial.clock.advance(LEASE_SECONDS - 0.001)
    trial.unchanged(session, lambda: trial.claim(session, "second"), LeaseHeld)
    trial.clock.advance(0.001)
    equal(trial.claim(session, "second").head.epoch, 2, "expired, so it can be claimed")


def a_dead_owners_session_is_claimable_at_once(trial: Trial) -> None:
    """Evidence that the owner is dead allows a claim at once, under the epoch it was gathered for only."""
    session = trial.working()
    equal(trial.claim(session, "second", gone=True).head.epoch, 2, "claimed")
    trial.unchanged(session, lambda: trial.claim(session, "third", gone=True, epoch=1), Conflict)


def an_owner_that_wrote_after_the_evidence_is_not_taken_over(trial: Trial) -> None:
    """Evidence is void if the owner has written after it was gathered."""
    session = trial.working(1)
    seen = trial.head(session).seq
    trial.append(session, release=True)
    trial.unchanged(session, lambda: trial.claim(session, "second", gone=True, seq=seen), Conflict)
    equal(trial.claim(session, "second", seq=seen + 1).head.epoch, 2, "looked again, so it can be claimed")


def another_boot_ends_every_lease(trial: Trial) -> None:
    """A reboot of the owner's machine ends its leases."""
    session = trial.working()
    trial.clock.reboot("after the reboot")
    equal(trial.claim(session, "second").head.epoch, 2, "claimed")


def a_passed_epoch_is_refused(trial: Trial) -> None:
    """A writer under an old epoch can neither write, renew nor release."""
    session = trial.working(1)
    trial.claim(session, "second", gone=True)
    trial.unchanged(session, lambda: trial.append(session, "first", epoch=1), LeaseLost)
    trial.unchanged(session, lambda: trial.append(session, "second", epoch=1), LeaseLost)
    trial.unchanged(session, lambda: trial.append(session, "first", epoch=2), LeaseLost)
    trial.unchanged(session, lambda: trial.append(session, "second", epoch=3), LeaseLost)
    trial.unchanged(session, lambda: trial.store.renew(session, owner="first", epoch=1), LeaseLost)
    trial.unchanged(session, lambda: trial.store.release(session, owner="first", epoch=1), LeaseLost)
    equal(trial.append(session, "second", epoch=2).head.epoch, 2, "the owner writes")


def a_step_computed_from_an_older_one_is_refused(trial: Trial) -> None:
    """Writers that share a lease: who names the newest seq it knows is refused if there is a newer one."""
    session = trial.working(1)
    seen = trial.head(session).seq
    equal(trial.append(session, expected_seq=seen).head.seq, seen + 1, "the first one writes")
    trial.unchanged(session, lambda: trial.append(session, expected_seq=seen), Conflict)
    equal(trial.append(session, expected_seq=seen + 1).head.seq, seen + 2, "looked again, so it writes")


def an_unclaimed_expired_lease_still_writes(trial: Trial) -> None:
    """An expired lease that was not claimed still allows writes, and the next commit renews it."""
    session = trial.working()
    trial.clock.advance(10 * LEASE_SECONDS)
    trial.append(session)
    refused(lambda: trial.claim(session, "second"), LeaseHeld)


def a_commit_and_a_heartbeat_renew(trial: Trial) -> None:
    """A commit and a heartbeat both extend the lease; a heartbeat adds no step."""
    session = trial.working()
    seq = trial.head(session).seq
    for renew in (lambda: trial.append(session), lambda: trial.store.renew(session, owner="first", epoch=1)):
        trial.clock.advance(LEASE_SECONDS - 1)
        renew()
        trial.clock.advance(LEASE_SECONDS - 1)
        refused(lambda: trial.claim(session, "second"), LeaseHeld)
    equal(trial.head(session).seq, seq + 1, "one step, not two")
    trial.clock.advance(1)
    trial.claim(session, "second")


def a_release_frees_the_session(trial: Trial) -> None:
    """A release, alone or with a step, frees the session; the epoch stays, and the former owner is refused."""
    for release in ("alone", "with a step"):
        session = trial.working(1)
        seq = trial.head(session).seq
        if release == "alone":
            trial.store.release(session, owner="first", epoch=1)
        else:
            trial.append(session, release=True)
            seq += 1
        head = trial.head(session)
        equal((head.lease, head.epoch, head.seq), (None, 1, seq), f"released {release}")
        trial.unchanged(session, partial(trial.append, session, "first", epoch=1), LeaseLost)
        equal(trial.claim(session, "second").head.epoch, 2, "claimable at once")


CHECKS: Final[tuple[Check, ...]] = (
    a_claim_raises_the_epoch,
    a_live_lease_refuses_other_claims,
    a_dead_owners_session_is_claimable_at_once,
    an_owner_that_wrote_after_the_evidence_is_not_taken_over,
    another_boot_ends_every_lease,
    a_passed_epoch_is_refused,
    a_step_computed_from_an_older_one_is_refused,
    an_unclaimed_expired_lease_still_writes,
    a_commit_and_a_heartbeat_renew,
    a_release_frees_the_session,
)
