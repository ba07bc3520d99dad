"""What a person has acknowledged: the reason why a session needed attention, as it was at that step."""

from __future__ import annotations

from typing import Final

import msgspec

from relight.values.info import AttentionKind

MAX_ACKNOWLEDGED: Final = 200
"""acknowledgements in a store; each is looked up whenever sessions that need attention are counted"""


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    """The acknowledgement of one session. A new step, or another kind, is a new reason, which it does not cover."""

    seq: int
    kind: AttentionKind
    until_us: int | None = None
    """it needs attention again then; None: when something new happens"""

    def covers(self, seq: int, kind: AttentionKind, now_us: int) -> bool:
        """Whether this reason is the acknowledged one, now."""
        return self.seq == seq and self.kind == kind and (self.until_us is None or now_us < self.until_us)
