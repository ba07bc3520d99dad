"""The digest chain and the seal: how a flipped bit becomes visible.

A step's digest covers its own columns, its body and the digest before it, so that no step can change, vanish or move
unnoticed. A session's rows (identity, head) are rewritten in place and therefore sealed one by one instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

import msgspec

from relight.journal.codec import Undecodable, decode_head, decode_identity, encode_record
from relight.model.session import Head, Identity
from relight.model.step import Step

SEAL_BYTES: Final = 16
_STEP_DOMAIN: Final = b"relight step 1\n"
_SEAL_DOMAIN: Final = b"relight row 1\n"
_columns = msgspec.msgpack.Encoder()


def step_digest(before: bytes, step: Step) -> bytes:
    """What `step.digest` must be, given the digest of the step before it."""
    columns = _columns.encode(
        (
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
    )
    hasher = sha256(_STEP_DOMAIN + before + len(columns).to_bytes(4, "big") + columns)
    hasher.update(step.body)
    return hasher.digest()


class Break(msgspec.Struct, frozen=True, kw_only=True):
    """One place where the journal is not what was written."""

    seq: int
    what: str


def broken_links(steps: Iterable[Step], *, after: int, digest: bytes | None) -> Iterator[Break]:
    """Walk steps that should follow `after` without a gap; yield every one that fails.

    `digest` is that of step `after`; None where it is not known, and then the first step's link cannot be checked and
    is taken on trust. A damaged step is judged alone: the next one is compared with the digest that was stored.
    """
    expected = after + 1
    for step in steps:
        while expected < step.seq:
            yield Break(seq=expected, what="the step is missing")
            expected, digest = expected + 1, None
        if digest is not None and step_digest(digest, step) != step.digest:
            yield Break(seq=step.seq, what="the step fails its digest")
        expected, digest = step.seq + 1, step.digest


def seal(record: Head | Identity) -> bytes:
    """A record as stored: its seal, then its bytes."""
    body = encode_record(record)
    return sha256(_SEAL_DOMAIN + body).digest()[:SEAL_BYTES] + body


def unseal_head(stored: bytes) -> Head:
    """The head, or Undecodable where the seal does not fit."""
    return decode_head(_unsealed(stored))


def unseal_identity(stored: bytes) -> Identity:
    """The identity, or Undecodable where the seal does not fit."""
    return decode_identity(_unsealed(stored))


def _unsealed(stored: bytes) -> bytes:
    body = stored[SEAL_BYTES:]
    if sha256(_SEAL_DOMAIN + body).digest()[:SEAL_BYTES] != stored[:SEAL_BYTES]:
        raise Undecodable("the row fails its seal")
    return body
