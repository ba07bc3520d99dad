"""Named SQL statements of the SQLite store: `SQL["insert_step"]`. Python code contains no SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from relight.stores.named_statements import load_statements

HERE: Final = Path(__file__).parent
SQL: Final = load_statements(HERE / "sql")
