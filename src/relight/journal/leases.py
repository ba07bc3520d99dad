"""Who may write: pure decisions about claims and writes. Evidence is gathered elsewhere and handed in.

Only a raised epoch refuses a write: an expired lease that nobody claimed is renewed by its owner's next commit.
"""

from __future__ import annotations

import msgspec

from relight.errors import Conflict, LeaseHeld, LeaseLost
from relight.values.lease import Instant, Lease
from relight.values.session import Head
from relight.values.step import Claim, Draft


def take(head: Head, claim: Claim, now: Instant) -> Head:
    """The head after a claim: one epoch higher and owned; or LeaseHeld, or Conflict where the evidence is old."""
    if head.epoch != claim.expected_epoch:
        raise Conflict(f"{head.session}: somebody else claimed it first (epoch {head.epoch})")
    lease = head.lease
    if lease is not None and not claim.owner_gone and not lease.expired(now):
        raise held(head, lease, until=f"{lease.remaining_seconds(now):.0f} s from now")
    if claim.expected_seq is not None and head.seq != claim.expected_seq:
        raise Conflict(f"{head.session}: its owner wrote meanwhile (it stands at @{head.seq}); nothing was written")
    return msgspec.structs.replace(head, epoch=head.epoch + 1, lease=granted(claim, now))


def granted(claim: Claim, now: Instant) -> Lease:
    """The lease a successful claim gives."""
    return Lease(owner=claim.owner, seconds=claim.seconds, deadline=_deadline(claim.seconds, now))


def check_writer(head: Head, draft: Draft) -> None:
    """Refuse a writer whose epoch has passed, or who was never given one."""
    owner = head.lease.owner.id if head.lease is not None else None
    if draft.epoch != head.epoch or owner != draft.owner:
        raise LeaseLost(head.session, mine=draft.epoch, current=head.epoch)


def renewed(lease: Lease | None, now: Instant) -> Lease | None:
    """The same lease, from now on. Nothing where it was given back."""
    if lease is None:
        return None
    return msgspec.structs.replace(lease, deadline=_deadline(lease.seconds, now))


def held(head: Head, lease: Lease, *, until: str, name: str | None = None) -> LeaseHeld:
    """The refusal that says who has it and for how long."""
    return LeaseHeld(name or head.session, owner=lease.owner.label, until=until, epoch=head.epoch)


def _deadline(seconds: float, now: Instant) -> Instant:
    return Instant(timeline=now.timeline, us=now.us + round(seconds * 1e6))
