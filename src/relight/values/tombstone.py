"""What remains of removed sessions: that they were removed, when, and why. Nothing of their content.

A session that a person removed is remembered only by the digest of its id, so that no byte of it remains. One that a
retention policy removed is also listed by its id, which is a random number, for audits of the policy. Names, labels and
messages are never included.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

MAX_TOMBSTONES: Final = 1000
"""removals that are remembered; the oldest are dropped, and links to what they removed are then unknown"""
_DIGEST_BYTES: Final = 16


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One removal, of one or several sessions."""

    at_us: int
    digests: list[bytes]
    """of the ids"""
    by: str = ""
    """what removed them under the policy: serve, a worker, a supervisor, expiry in the store; empty: a person"""
    finished_days: float | None = None
    """the policy's days; None: a person removed them"""
    sessions: list[str] = []
    """ids, if a policy removed them"""
    steps: int = 0
    size_bytes: int = 0

    def name(self, now_us: int) -> str:
        """Its key in the store: unique per removal, and ordered by time. The time may be earlier than the real one,
        but a reader that continues from a name misses none."""
        return f"{now_us:020d}-{self.digests[0].hex()[:8]}"

    @property
    def by_policy(self) -> bool:
        """Whether a policy, not a person, removed these sessions."""
        return self.finished_days is not None


def digest_of(session: str) -> bytes:
    """The digest by which a removed session is found by its id."""
    return sha256(b"relight removed session\n" + session.encode("utf-8", "surrogatepass")).digest()[:_DIGEST_BYTES]
