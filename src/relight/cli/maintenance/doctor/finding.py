"""The result of one check of `relight doctor`."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """Subject and result; `cure` is the remedy if it is not fine."""

    what: str
    text: str
    fine: bool = True
    cure: str = ""
