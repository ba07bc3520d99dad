"""Named SQL statements of the PostgreSQL store: `SQL["lock_head"]`. Python code contains no SQL.

As bytes: psycopg takes those without checking for literal strings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from relight.stores.named_statements import load_statements

HERE: Final = Path(__file__).parent
SQL: Final = {name: text.encode() for name, text in load_statements(HERE / "sql").items()}
BEGIN: Final = b"BEGIN"
COMMIT: Final = b"COMMIT"
ROLLBACK: Final = b"ROLLBACK"
