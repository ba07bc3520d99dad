"""Detects whether a command's program uses this library, without running it.

It does if a word of the command, or a file that a word names, imports relight. Anything else counts as no.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

_IMPORT: Final = re.compile(
    rb"^[ \t]*(?:import|from)[ \t]+(?:[\w., ]*[, ])?relight\b|[;:] *(?:import|from) +relight\b", re.M
)
_MAX_BYTES: Final = 1 << 20
_MAX_WORDS: Final = 50


def uses_library(command: Sequence[str], directory: str) -> bool:
    """Whether a word of the command, or the beginning of a file that it names, imports relight."""
    for word in command[:_MAX_WORDS]:
        if _IMPORT.search(word.encode("utf-8", "surrogateescape")) or _IMPORT.search(_read_file(directory, word)):
            return True
    return False


def _read_file(directory: str, word: str) -> bytes:
    """The beginning of the file that a word names; empty if it names none."""
    path = os.path.join(directory, word)
    if "\0" in word or not os.path.isfile(path):
        return b""
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""
