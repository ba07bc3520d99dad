"""SQL statements by name, read from the .sql files beside a store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PART: Final = re.compile(r"\{(\w+)\}")


def load_statements(directory: Path) -> dict[str, str]:
    """All statements of the .sql files by name, without comments, so that a statement cache sees one text for each.

    A statement begins with `-- name: NAME` and a line of purpose, and ends where the next begins. `{NAME}` inside one
    is replaced by another. Names are unique over all files.
    """
    found: dict[str, str] = {}
    for path in sorted(directory.glob("*.sql")):
        _, *parts = _NAME.split(path.read_text(encoding="utf-8"))
        found.update((name, uncommented(text)) for name, text in zip(parts[::2], parts[1::2], strict=True))
    return {name: _PART.sub(lambda part: found.get(part[1], part[0]), text) for name, text in found.items()}


def uncommented(text: str) -> str:
    """The text without comment lines and empty lines."""
    lines = (line.rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("--"))
