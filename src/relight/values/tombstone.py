"""What stays of sessions that were removed: that they were, when, and why. Nothing of what they held.

A session that a person removed is remembered by the digest of its id alone, so that no byte of it is left, its id
included. One that a retention policy removed is also listed by its id, which is a random number: whoever audits the
policy can say which sessions went. Names, labels and everything that was said are never in it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

MAX_TOMBSTONES: Final = 1000
"""removals that are remembered; the oldest are forgotten, and the addresses of what they removed are simply unknown"""
_DIGEST_BYTES: Final = 16


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One removal, of one session or of several at once."""

    at_us: int
    digests: list[bytes]
    """of the ids"""
    by: str = ""
    """who removed them under the policy: serve, a worker, a supervisor, the expiry of a store; empty: a person asked"""
    finished_days: float | None = None
    """what the policy was; None: there was none, a person asked for it"""
    sessions: list[str] = []
    """ids, where a policy removed them"""
    steps: int = 0
    size_bytes: int = 0

    def name(self, now_us: int) -> str:
        """Under which it is kept from now on: two removals never have the same, and names in order are times in order.
        It may tell of an earlier time, but whoever reads on from a name misses none."""
        return f"{now_us:020d}-{self.digests[0].hex()[:8]}"

    @property
    def by_policy(self) -> bool:
        """Did nobody ask for these sessions in particular?"""
        return self.finished_days is not None


def digest_of(session: str) -> bytes:
    """By which a removed session is found again, by whoever knows its id."""
    return sha256(b"relight removed session\n" + session.encode("utf-8", "surrogatepass")).digest()[:_DIGEST_BYTES]
