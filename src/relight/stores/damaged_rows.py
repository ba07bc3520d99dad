"""Rows that may be damaged: unsealed if they are whole, else None or a stand-in that fails its digest."""

from __future__ import annotations

from relight.journal.chain import unseal_head, unseal_identity
from relight.journal.codec import Undecodable
from relight.values.session import Head, Identity
from relight.values.step import Step


def damaged_step(session: str, seq: int, digest: bytes = b"") -> Step:
    """A stand-in for a row that holds no valid step: it fails its digest, so that verification names its seq."""
    return Step(session, seq, "mark", 0, 0, 0, 0, 0, 0, (), None, b"", digest, b"")


def unsealed_identity(record: object) -> Identity | None:
    """The identity in a sealed record, or None if it is damaged."""
    try:
        return unseal_identity(record)  # type: ignore[arg-type]
    except (Undecodable, TypeError):
        return None


def unsealed_head(record: object) -> Head | None:
    """The head in a sealed record, or None if it is damaged or missing."""
    try:
        return unseal_head(record)  # type: ignore[arg-type]
    except (Undecodable, TypeError):
        return None
