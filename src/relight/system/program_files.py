"""Programs on this machine, looked at before they are started: does one use this library?

A command shows it where a word of it, or a file that it names, imports relight. Nothing is run to find out, and what is
not shown is not guessed.
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
    """Does a word of the command, or the beginning of a file that it names, import relight?"""
    for word in command[:_MAX_WORDS]:
        if _IMPORT.search(word.encode("utf-8", "surrogateescape")) or _IMPORT.search(_beginning(directory, word)):
            return True
    return False


def _beginning(directory: str, word: str) -> bytes:
    """Of the file that a word names; nothing where it names none."""
    path = os.path.join(directory, word)
    if "\0" in word or not os.path.isfile(path):
        return b""
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""
