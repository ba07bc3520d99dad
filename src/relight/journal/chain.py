"""The digest chain of steps and the seal of rows, by which a flipped bit is detected.

A step's digest covers its columns, its body and the digest before it, so that no step can change, vanish or move
unnoticed. Identity and head are rewritten in place, and are therefore sealed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

import msgspec

from relight.journal.codec import Undecodable, decode_head, decode_identity, encode_record, encoded
from relight.values.session import Head, Identity
from relight.values.step import Step

SEAL_BYTES: Final = 16
_DIGESTS_TRIED: Final = 3
"""digests of earlier steps tried for one link after damage"""
_OF_STEPS: Final = sha256(b"relight step 1\n")
"""the beginning of every step's digest, never changed: a copy costs less than a new one"""
_SEAL_DOMAIN: Final = b"relight row 1\n"


def step_digest(before: bytes, step: Step) -> bytes:
    """What `step.digest` must be, given the digest of the step before it."""
    columns = (
        step.session,
        step.seq,
        step.kind,
        step.at_us,
        step.attempt,
        step.base,
        step.since,
        step.message_count,
        step.turns,
        step.open,
        step.label,
        step.key,
    )
    return digest_of(before, columns, step.body)


def digest_of(before: bytes, columns: tuple[Any, ...], body: bytes) -> bytes:
    """The digest of a step given as columns, in the order of `step_digest`, and body."""
    row, digest = encoded(columns), _OF_STEPS.copy()
    digest.update(b"".join((before, len(row).to_bytes(4, "big"), row, body)))
    return digest.digest()


class Break(msgspec.Struct, frozen=True, kw_only=True):
    """One step that is not what was written."""

    seq: int
    what: str


def broken_links(steps: Iterable[Step], *, after: int, digest: bytes | None) -> Iterator[Break]:
    """Check steps that should follow `after` without a gap; yield every one that fails.

    `digest` is that of step `after`; if None, the link of the first step cannot be checked and is trusted. A damaged
    step is judged alone: the next one may follow from the stored digest or, if that is what was damaged, from the
    computed one.
    """
    expected = after + 1
    before: tuple[bytes, ...] = () if digest is None else (digest,)
    for step in steps:
        for missing in range(expected, step.seq):
            yield Break(seq=missing, what="the step is missing")
            before = ()
        if before and step_digest(before[0], step) != step.digest:
            computed = tuple(step_digest(one, step) for one in before)
            if step.digest not in computed:
                yield Break(seq=step.seq, what="the step fails its digest")
                # Either the stored digest or the content is damaged. Only the next step can tell which, so both
                # candidates are carried to it; otherwise one flipped bit would be reported as two broken steps.
                before = (step.digest, *computed[:_DIGESTS_TRIED]) if step.digest else ()
                expected = step.seq + 1
                continue
        before = (step.digest,)
        expected = step.seq + 1


def seal(record: Head | Identity) -> bytes:
    """A record as stored: its seal, then its bytes."""
    body = encode_record(record)
    return sha256(_SEAL_DOMAIN + body).digest()[:SEAL_BYTES] + body


def unseal_head(stored: bytes) -> Head:
    """The head, or Undecodable if the seal does not match."""
    return decode_head(_unsealed(stored))


def unseal_identity(stored: bytes) -> Identity:
    """The identity, or Undecodable if the seal does not match."""
    return decode_identity(_unsealed(stored))


def _unsealed(stored: bytes) -> bytes:
    body = stored[SEAL_BYTES:]
    if sha256(_SEAL_DOMAIN + body).digest()[:SEAL_BYTES] != stored[:SEAL_BYTES]:
        raise Undecodable("the row fails its seal")
    return body
