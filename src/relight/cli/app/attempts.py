"""Commands for several sessions: each is attempted for itself, and a refusal does not stop the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from relight.cli.app.context import CliContext
from relight.cli.render.errors import print_error
from relight.cli.render.style import Span
from relight.errors import Corrupt, RelightError, StoreError
from relight.text.format import count


class Attempts:
    """Counts the sessions of one command that refused it, and prints each refusal when it happens."""

    def __init__(self, cli: CliContext, *, single: bool = False) -> None:
        """`single`: the command names one session, so that its refusal is that of the command and is raised."""
        self._cli = cli
        self._single = single
        self._tried: set[str] = set()
        self._refused: list[int] = []

    @contextmanager
    def of(self, title: str) -> Iterator[None]:
        """The block acts on one session. Its refusal is printed, with its hints; the block is left."""
        self._tried.add(title)
        try:
            yield
        except RelightError as error:
            # A store that cannot be reached or is full refuses every session: reported once, by the caller.
            if self._single or (isinstance(error, StoreError) and not isinstance(error, Corrupt)):
                raise
            self._cli.console.say(Span("✗ ", "bad"), Span(title, "bold"))
            self._refused.append(print_error(error, self._cli.console, debug=self._cli.debug))

    def exit_code(self, what: str) -> int:
        """0, or the exit code of the first refusal, after a line that counts them. `what`: "resumed", "removed"."""
        if not self._refused:
            return 0
        self._cli.console.say(f"{len(self._refused)} of {count(len(self._tried), 'session')} could not be {what}")
        return self._refused[0]
