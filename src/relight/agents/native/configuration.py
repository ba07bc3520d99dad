"""JSON files with which a user configures an agent. They are read only."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

_MAX_BYTES: Final = 1024 * 1024
_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
"""a text, which is kept as it is, or a comment"""


def read_configuration(path: Path) -> dict[str, Any]:
    """The object in the file, which may have comments; empty if it is missing, too large, or cannot be read."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return {}
        found = json.loads(_COMMENT.sub(lambda part: part[1] or " ", path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
