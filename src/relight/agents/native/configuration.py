"""JSON files with which a user configures an agent. They are read only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

_MAX_BYTES: Final = 1024 * 1024


def read_configuration(path: Path) -> dict[str, Any]:
    """The object in the file; empty if it is missing, too large, or cannot be read."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
