"""Following a native transcript: what of it is new to the journal.

Lines are told apart by keys that survive rewriting and redaction. A transcript that goes on where the journal stands
adds its rest. One that went another way (the agent compacted it, or a person chose an older message to go on from)
takes the place of the conversation; the journal keeps both. One that ends before the journal does has lost lines: the
journal knows better, and writes them back before the agent goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Relation = Literal["same", "ahead", "behind", "apart"]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a transcript stands to the journal."""

    relation: Relation
    common: int
    """so many lines, from the beginning, are the same"""


def compare(journal: Sequence[str], transcript: Sequence[str]) -> Standing:
    """Both as keys, in the order of the conversation."""
    shorter = min(len(journal), len(transcript))
    if journal[:shorter] == transcript[:shorter]:
        common = shorter
    else:
        common = next(index for index in range(shorter) if journal[index] != transcript[index])
    if common == len(journal):
        return Standing(relation="same" if common == len(transcript) else "ahead", common=common)
    return Standing(relation="behind" if common == len(transcript) else "apart", common=common)
