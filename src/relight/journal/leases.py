"""Who may write: pure decisions about claims and writes. Evidence is gathered by the caller.

Only a newer epoch refuses a write: an expired lease that no other process claimed is renewed by its owner's next
commit.
"""

from __future__ import annotations

import msgspec

from relight.errors import Conflict, LeaseHeld, LeaseLost
from relight.values.lease import Instant, Lease, Owner
from relight.values.session import Head
from relight.values.status import Status, headline
from relight.values.step import AttemptStart, Claim, Draft


def claim_on(head: Head, owner: Owner, *, seconds: float, owner_gone: bool, slot: bool = False) -> Claim:
    """A claim on a session as it was read: it fails if another process has claimed it, or its owner has written, since.
    `owner_gone`: the present owner was seen to be dead; `slot`: take a slot of the session's queue with it."""
    return Claim(
        owner=owner,
        seconds=seconds,
        expected_epoch=head.epoch,
        expected_seq=head.seq,
        owner_gone=owner_gone,
        slot=slot,
    )


def next_attempt(
    head: Head, owner: Owner, ended: tuple[Status, str | None], *, handle: str | None = None
) -> AttemptStart:
    """The attempt that begins with a claim. `ended`: the status of the one before it and why, which is its reason."""
    status, why = ended
    return AttemptStart(
        number=head.attempt + 1,
        resumed_from=head.head,
        reason=None if head.attempt == 0 else f"{status}: {headline(why)}" if why else status,
        owner=owner.label,
        handle=handle,
    )


def take(head: Head, claim: Claim, now: Instant) -> Head:
    """The head after a claim: owned, one epoch higher. LeaseHeld, or Conflict if the evidence is outdated."""
    if head.epoch != claim.expected_epoch:
        raise Conflict(f"{head.session}: another process claimed it first (epoch {head.epoch})")
    lease = head.lease
    # Checked here again, inside the transaction: the claimant's evidence may be older than the last renewal.
    if lease is not None and not claim.owner_gone and not lease.expired(now):
        raise held(head, lease, until=f"{lease.remaining_seconds(now):.0f} s from now")
    # The epoch alone is not enough: an owner judged dead may have committed since it was judged. A claim that names the
    # seq it saw then fails instead of building on a state it has not read.
    if claim.expected_seq is not None and head.seq != claim.expected_seq:
        raise Conflict(f"{head.session}: its owner wrote meanwhile (now at @{head.seq}); nothing was written")
    return msgspec.structs.replace(head, epoch=head.epoch + 1, lease=granted(claim, now))


def granted(claim: Claim, now: Instant) -> Lease:
    """The lease that a successful claim gets."""
    return Lease(owner=claim.owner, seconds=claim.seconds, deadline=_deadline(claim.seconds, now))


def check_writer(head: Head, draft: Draft) -> None:
    """LeaseLost for a writer whose epoch is over, or that never claimed. Conflict if it names the seq it saw, and there
    is a newer one: another writer shares its lease."""
    owner = head.lease.owner.id if head.lease is not None else None
    if draft.epoch != head.epoch or owner != draft.owner:
        raise LeaseLost(head.session, mine=draft.epoch, current=head.epoch)
    if draft.expected_seq is not None and head.seq != draft.expected_seq:
        raise Conflict(f"{head.session}: written meanwhile (now at @{head.seq}); nothing was written")


def renewed(lease: Lease | None, now: Instant) -> Lease | None:
    """The lease with a deadline counted from now; None if it was released."""
    if lease is None:
        return None
    return msgspec.structs.replace(lease, deadline=_deadline(lease.seconds, now))


def held(
    head: Head, lease: Lease, *, until: str, name: str | None = None, is_mine: bool = False, tools_run: bool = False
) -> LeaseHeld:
    """The refusal, with owner and remaining time. `is_mine`: the owner is the process that asks. `tools_run`: it only
    waits for tools that outlived their session's block."""
    said, owner = name or head.session, lease.owner.label
    return LeaseHeld(said, owner=owner, until=until, epoch=head.epoch, is_mine=is_mine, tools_run=tools_run)


def _deadline(seconds: float, now: Instant) -> Instant:
    return Instant(timeline=now.timeline, us=now.us + round(seconds * 1e6))
