"""A schema: the layout of something that a store, or what wakes workers, keeps, by the number of its last change.

Whoever keeps one can say where it stands without changing anything, and bring it up to date any number of times, in
any number of processes at once.
"""

from __future__ import annotations

import msgspec


class SchemaStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where a schema stands."""

    part: str
    """whose it is: store, engine"""
    place: str
    """as it may be shown"""
    found: int | str | None
    """its version; None: it is not there yet"""
    wanted: int | str

    @property
    def is_current(self) -> bool:
        """Is there nothing to do?"""
        return self.found == self.wanted
