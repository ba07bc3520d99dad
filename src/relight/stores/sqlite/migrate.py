"""Schema migrations, and the check that a database has the schema of its version.

Migrations are numbered files of repeatable statements. Those that are missing run in one transaction, which reads the
version again and raises it: several processes may run them at once, a database may already have the first part of one,
and a new store is there whole, after one sync of the disk.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

import apsw

from relight.errors import Corrupt, NewerStore, NotAStore
from relight.journal.files.store_marks import APPLICATION_ID
from relight.stores.named_statements import uncommented
from relight.stores.sqlite.rows import ended_order, read_text, searchable_text, sort_name
from relight.stores.sqlite.statements import HERE, SQL
from relight.stores.stored_rows import label_seal

_ADD_COLUMN: Final = ("ALTER", "TABLE", "ADD", "COLUMN")


def statements_of(path: Path) -> list[str]:
    """The statements of a migration, in order. A trigger's inner semicolons do not end it."""
    statements, pending = [], ""
    for line in uncommented(path.read_text(encoding="utf-8")).splitlines():
        pending += line + "\n"
        if apsw.complete(pending):
            statements.append(pending.strip())
            pending = ""
    return statements


MIGRATIONS: Final = tuple(sorted((HERE / "migrations").glob("[0-9]*.sql")))
VERSION: Final = len(MIGRATIONS)


def version_of(connection: apsw.Connection, where: str) -> int:
    """The schema version; NotAStore or NewerStore if this version must not touch it."""
    # One read transaction: another process may be creating the store right now, and half of it looks like no store.
    connection.execute(SQL["begin_reading"])
    try:
        application = connection.execute(SQL["application_id"]).get
        version: int = connection.execute(SQL["user_version"]).get
        is_empty = application == 0 and version == 0 and not _schema_of(connection)
    finally:
        connection.execute(SQL["commit"])
    if application != APPLICATION_ID and not is_empty:
        raise NotAStore(where, "a database of another application")
    if version > VERSION:
        raise NewerStore(where, found=version, known=VERSION)
    return version


def add_functions(connection: apsw.Connection) -> None:
    """What migrations compute in Python."""
    for name, function, arguments in (
        ("label_seal", label_seal, 3),
        ("sort_name", _sort_name, 2),
        ("searchable_text", searchable_text, 1),
        ("ended_order", ended_order, 4),
    ):
        connection.create_scalar_function(name, cast(Any, function), arguments, deterministic=True)


def _sort_name(name: bytes | None, session: bytes) -> str:
    """From the columns as they are read, which may be damaged."""
    return sort_name(read_text(name), read_text(session) or "")


def migrate(connection: apsw.Connection, upto: int = VERSION) -> None:
    """Run the missing migrations, up to a version."""
    add_functions(connection)
    connection.execute(SQL["begin"])
    try:
        version: int = connection.execute(SQL["user_version"]).get
        if version < upto:  # else another process was first
            for path in MIGRATIONS[version:upto]:
                for statement in statements_of(path):
                    apply(connection, statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {upto}")
        connection.execute(SQL["commit"])
    except BaseException:
        if connection.in_transaction:
            connection.execute(SQL["rollback"])
        raise


def apply(connection: apsw.Connection, statement: str) -> None:
    """Run one statement of a migration. SQLite has no ADD COLUMN IF NOT EXISTS, so existing columns are skipped."""
    words = statement.split()
    if (words[0], words[1], *words[3:5]) == _ADD_COLUMN:
        present = {name for (name,) in connection.execute(SQL["columns"], (words[2],))}
        if words[5] in present:
            return
    connection.execute(statement)


def check_schema(connection: apsw.Connection, where: str) -> None:
    """Corrupt unless every object of the schema is there, verbatim; a missing one is never recreated silently."""
    if _schema_of(connection) != EXPECTED:
        raise Corrupt(f"the store {where} is damaged (its schema is not that of version {VERSION})")


def _schema_of(connection: apsw.Connection) -> list[str]:
    return [
        sql.decode("utf-8", "replace") if isinstance(sql, bytes) else "" for (sql,) in connection.execute(SQL["schema"])
    ]


def dump(connection: apsw.Connection) -> str:
    """The schema in the form of `schema.sql`."""
    return "".join(f"{sql};\n\n" for sql in _schema_of(connection)).rstrip("\n") + "\n"


EXPECTED: Final = (HERE / "schema.sql").read_text(encoding="utf-8").rstrip(";\n").split(";\n\n")
