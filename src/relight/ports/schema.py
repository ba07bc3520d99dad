"""Schema versions of a store and of a wakeup engine.

Both can report their version without changing anything; migrating is idempotent and safe in several processes at once.
"""

from __future__ import annotations

import msgspec


class SchemaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The version of one schema, and the one this release needs."""

    part: str
    """store or engine"""
    place: str
    """its address, for display"""
    found: int | str | None
    """None: it does not exist yet"""
    wanted: int | str

    @property
    def is_current(self) -> bool:
        """Whether no migration is needed."""
        return self.found == self.wanted
