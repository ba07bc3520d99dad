"""A regular expression that is compiled when it is first used.

Every session that is opened has its name checked for secrets, which needs few of the fifty expressions here; to compile
them all takes longer than the rest of the opening.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    def __init__(self, source: str, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        """A method of the compiled pattern; kept, so that the next use finds it like any attribute."""
        found = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, later."""
    return cast("re.Pattern[str]", _LazyPattern(source, flags))
