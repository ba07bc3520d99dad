"""How help is broken into lines: at spaces only, so that a command in it can be pasted, and never wider than the
terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click

_HYPHEN: Final = "\N{NON-BREAKING HYPHEN}"
_NARROWEST: Final = 30
_TWO_COLUMNS: Final = 48
"""below that what a term means has a line of its own"""


class HelpLines(click.HelpFormatter):
    """As click's, which breaks lines at hyphens too, and takes no terminal for narrower than 50 columns."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        import shutil

        fitting = min(shutil.get_terminal_size().columns, max_width or 80) - 2
        super().__init__(indent_increment, width or max(fitting, _NARROWEST), max_width)

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        held = [(term, meaning.replace("-", _HYPHEN)) for term, meaning in rows]
        if self.width < _TWO_COLUMNS:
            held, col_max = [(term.rstrip(), meaning) for term, meaning in held], 0
        super().write_dl(held, col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_HYPHEN, "-")


class HelpContext(click.Context):
    """The context of a command whose help has such lines."""

    formatter_class = HelpLines
