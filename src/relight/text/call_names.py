"""Display names of tool calls in a session's history: the tool and its argument, never a bare call id.

A history may be printed from the middle of a journal, beginning with the result of an earlier call. The session is then
loaded, once and only if needed, to find the name of that call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from relight.errors import RelightError

if TYPE_CHECKING:
    from relight.library.reading import Loaded

EARLIER: Final = "an earlier call"
"""name of a call that is in no conversation any more"""


class CallNames:
    """Maps call ids to display names."""

    def __init__(self, line_of: Callable[[str, Any], str], load: Callable[[], Loaded] | None = None) -> None:
        """`line_of`: display name for a tool and its arguments. `load`: loads the session; called at most once."""
        self._line_of, self._load = line_of, load
        self._lines: dict[str, str] = {}

    def learn(self, call: str, name: str, arguments: Any) -> str:
        """Record a call; returns its display name."""
        line = self._lines[call] = self._line_of(name, arguments)
        return line

    def known(self, call: str) -> str | None:
        """The name of a call that was recorded before, else None."""
        return self._lines.get(call)

    def of(self, call: str) -> str:
        """The name of a call, looked up in the session if it was not recorded."""
        if call not in self._lines and self._load is not None:
            load, self._load = self._load, None
            try:
                earlier = {one.id: self._line_of(one.name, one.arguments) for one in load().calls}
            except RelightError:  # damaged, or removed meanwhile: reported elsewhere
                earlier = {}
            self._lines = earlier | self._lines
        return self._lines.get(call, EARLIER)
