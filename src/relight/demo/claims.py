"""Claims of the demo, checked against what was counted in the same run."""

from __future__ import annotations

from typing import Any

import msgspec


class CheckedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim, and whether it holds."""

    text: str
    expected: Any
    counted: Any
    kept: bool

    def __str__(self) -> str:
        return f"{self.text}: expected {self.expected}, counted {self.counted}"


class Claims:
    """The claims of a run, in the order they were made."""

    def __init__(self) -> None:
        self.made: list[CheckedClaim] = []

    def equal(self, text: str, counted: Any, expected: Any) -> bool:
        """CheckedClaim that something is exactly this."""
        return self._claim(text, counted, expected, kept=counted == expected)

    def at_most(self, text: str, counted: int, bound: int) -> bool:
        """CheckedClaim that something does not exceed a bound."""
        return self._claim(text, counted, f"at most {bound}", kept=counted <= bound)

    def at_least(self, text: str, counted: int, bound: int) -> bool:
        """CheckedClaim that something reaches a bound."""
        return self._claim(text, counted, f"at least {bound}", kept=counted >= bound)

    def _claim(self, text: str, counted: Any, expected: Any, *, kept: bool) -> bool:
        self.made.append(CheckedClaim(text=text, expected=expected, counted=counted, kept=kept))
        return kept

    @property
    def broken(self) -> list[CheckedClaim]:
        """The claims that do not hold."""
        return [claim for claim in self.made if not claim.kept]
