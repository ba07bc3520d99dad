"""Compares a native transcript with the journal: what of it is new.

Lines are compared by keys that survive rewriting and redaction. A transcript that continues the journal adds its rest.
One that took another way (compacted by the agent, or continued from an older message) replaces the conversation; the
journal keeps both. One that ends before the journal has lost lines: they are written back before the agent continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Relation = Literal["same", "ahead", "behind", "apart"]


class TranscriptMatch(msgspec.Struct, frozen=True, kw_only=True):
    """How a transcript relates to the journal."""

    relation: Relation
    common: int
    """number of equal lines from the beginning"""


def compare(journal: Sequence[str], transcript: Sequence[str]) -> TranscriptMatch:
    """Compare both, given as keys in the order of the conversation."""
    shorter = min(len(journal), len(transcript))
    if journal[:shorter] == transcript[:shorter]:
        common = shorter
    else:
        common = next(index for index in range(shorter) if journal[index] != transcript[index])
    if common == len(journal):
        return TranscriptMatch(relation="same" if common == len(transcript) else "ahead", common=common)
    return TranscriptMatch(relation="behind" if common == len(transcript) else "apart", common=common)
