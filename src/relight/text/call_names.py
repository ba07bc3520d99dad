"""What calls are called by who tells a session's history: by their tool, never by a bare id.

A teller may begin in the middle of a journal, with a result whose call was asked for before. Such a call is looked up
in the session, once and only then, so that a teller that sees everything reads nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from relight.errors import RelightError

if TYPE_CHECKING:
    from relight.library.reading import Loaded

EARLIER: Final = "an earlier call"
"""of one that is in no conversation any more"""


class CallNames:
    """Call ids to lines."""

    def __init__(self, line_of: Callable[[str, Any], str], load: Callable[[], Loaded] | None = None) -> None:
        """`line_of`: from a tool's name and arguments. `load`: the session, asked at most once."""
        self._line_of, self._load = line_of, load
        self._lines: dict[str, str] = {}

    def learn(self, call: str, name: str, arguments: Any) -> str:
        """A call that was asked for; its line."""
        line = self._lines[call] = self._line_of(name, arguments)
        return line

    def known(self, call: str) -> str | None:
        """The line of a call that was told before."""
        return self._lines.get(call)

    def of(self, call: str) -> str:
        """The line of a call, looked up where it was not told."""
        if call not in self._lines and self._load is not None:
            load, self._load = self._load, None
            try:
                earlier = {one.id: self._line_of(one.name, one.arguments) for one in load().calls}
            except RelightError:  # damaged, or removed meanwhile: that is told elsewhere
                earlier = {}
            self._lines = earlier | self._lines
        return self._lines.get(call, EARLIER)
