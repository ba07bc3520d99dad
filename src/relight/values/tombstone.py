"""What stays of sessions that were removed: that they were, when, and why. Nothing of what they held.

A session that a person removed is remembered by the digest of its id alone, so that no byte of it is left, its id
included. One that a retention policy removed is also listed by its id, which is a random number: whoever audits the
policy can say which sessions went. Names, labels and everything that was said are never in it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

_DIGEST_BYTES: Final = 16


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One removal, of one session or of several at once."""

    at_us: int
    digests: list[bytes]
    """of the ids"""
    by: str = ""
    """which process removed them under the policy: serve, a worker, a supervisor; empty: a person asked for it"""
    finished_days: float | None = None
    """what the policy was; None: there was none, a person asked for it"""
    sessions: list[str] = []
    """ids, where a policy removed them"""
    steps: int = 0
    size_bytes: int = 0

    @property
    def by_policy(self) -> bool:
        """Did nobody ask for these sessions in particular?"""
        return self.finished_days is not None


def digest_of(session: str) -> bytes:
    """By which a removed session is found again, by whoever knows its id."""
    return sha256(b"relight removed session\n" + session.encode("utf-8", "surrogatepass")).digest()[:_DIGEST_BYTES]
