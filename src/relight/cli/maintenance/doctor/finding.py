"""One thing that `relight doctor` looked at: fine, or with a cure."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """A line of the screen."""

    what: str
    text: str
    fine: bool = True
    cure: str = ""
