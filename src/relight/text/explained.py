"""The base of relight's errors: an exception with a message, evidence and hints, which a traceback shows too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_COMMAND: Final = r"\b(relight|pip) [a-z]"
_FLAG: Final = r"(?<![\w-])--([a-z][a-z-]*)"
_CHOICES: Final = frozenset({"theirs", "ours", "force"})


class Explained(Exception):
    """An exception with evidence lines and hints. `str(error)` is the message alone."""

    def __init__(self, message: str, *, evidence: Iterable[str] = (), hints: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.evidence: tuple[str, ...] = tuple(evidence)
        self.hints: tuple[str, ...] = tuple(hints)
        self._notes: list[str] = []
        self._derived_notes = 0

    @property
    def __notes__(self) -> list[str]:
        """Evidence and hints, as a traceback prints them below the message of an uncaught error; then what
        `add_note` added."""
        # One list for the error's whole life, because `add_note` appends to what it is given. Ours are its beginning,
        # computed each time: code that passes an error on may complete its hints.
        derived = [*self.evidence, *(f"hint: {as_arguments(hint)}" for hint in self.hints)]
        self._notes[: self._derived_notes] = derived
        self._derived_notes = len(derived)
        return self._notes

    @__notes__.setter
    def __notes__(self, notes: list[str]) -> None:
        self._notes, self._derived_notes = list(notes), 0

    def name_session(self, name: str) -> None:
        """Replace REF in the hints by a session's name, which the code that raised the error did not know."""
        self.hints = tuple(hint.replace(" REF", f" {name}") for hint in self.hints)


def as_arguments(hint: str) -> str:
    """A hint in the words of the library: flags are arguments of the same name. Commands stay commands, to be typed."""
    if re.search(_COMMAND, hint):
        return hint
    return re.sub(_FLAG, lambda flag: f'choice="{flag[1]}"' if flag[1] in _CHOICES else flag[1].replace("-", "_"), hint)
