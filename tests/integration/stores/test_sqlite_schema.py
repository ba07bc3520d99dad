"""Migrations can be repeated from any state, the schema is what they make, and nothing is stored in vain."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import cast

import apsw
import pytest

from relight.journal.files.store_marks import APPLICATION_ID
from relight.ports.store import OrderedStore, Query
from relight.stores.sqlite import listing, migrate
from relight.stores.sqlite.statements import HERE, SQL
from tests.support.store_sessions import history, trial

SCHEMA = (HERE / "schema.sql").read_text(encoding="utf-8")
PREFIXES = [
    (number, applied)
    for number, path in enumerate(migrate.MIGRATIONS, 1)
    for applied in range(len(migrate.statements_of(path)) + 1)
]


def empty() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    migrate.add_functions(connection)
    return connection


def test_the_schema_is_what_the_migrations_make() -> None:
    connection = empty()
    migrate.migrate(connection)
    assert migrate.dump(connection) == SCHEMA
    assert connection.pragma("user_version") == migrate.VERSION == len(list((HERE / "migrations").glob("*.sql")))
    assert connection.pragma("application_id") == APPLICATION_ID


def test_a_new_store_is_made_in_one_transaction() -> None:
    """Each costs a sync of the disk."""
    connection, commits = empty(), iter(range(100))
    connection.set_commit_hook(lambda: next(commits) < 0)  # true would be a refusal
    migrate.migrate(connection)
    assert next(commits) == 1


def test_migrations_are_numbered_without_gap_and_explained() -> None:
    for number, path in enumerate(migrate.MIGRATIONS, 1):
        assert path.name.startswith(f"{number:04}_")
        blocks = [block for block in path.read_text(encoding="utf-8").split("\n\n") if block.strip()]
        assert [block for block in blocks if not block.startswith("-- ")] == [], path.name


def test_migrations_can_run_twice() -> None:
    connection = empty()
    migrate.migrate(connection)
    connection.pragma("user_version", 0)
    migrate.migrate(connection)
    assert migrate.dump(connection) == SCHEMA


def make_old(path: Path, version: int) -> None:
    """Take a store back to what an older version had made of it."""
    connection = apsw.Connection(str(path))
    newer = empty()
    for number in range(1, version + 1):
        for statement in migrate.statements_of(migrate.MIGRATIONS[number - 1]):
            newer.execute(statement)
    kept = {name for (name,) in newer.execute("SELECT name FROM sqlite_schema")}
    for kind, name in connection.execute("SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL").fetchall():
        if name not in kept and kind in ("trigger", "table", "index"):
            connection.execute(f"DROP {kind} IF EXISTS {name}")
    for (table,) in newer.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        columns = {name for (name,) in newer.execute(SQL["columns"], (table,))}
        for (name,) in connection.execute(SQL["columns"], (table,)).fetchall():
            if name not in columns:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
    connection.pragma("user_version", version)
    connection.close()


def fill(path: Path) -> tuple[str, str, list[bytes]]:
    world = trial(path)
    first = world.working(4, name="old", labels={"team": "core"})
    world.append(first, label="best")
    world.append(first, label="later")
    second = world.begin(status="completed")
    expected = history(world.store, first)
    world.store.close()
    return first, second, expected


def check_filled(path: Path, first: str, second: str, expected: list[bytes]) -> None:
    world = trial(path)
    assert history(world.store, first) == expected
    assert world.store.find_label(first, "best") == 7
    assert [row.label for row in world.store.checkpoints(first, after=6)] == ["best", "later"]
    assert world.store.count_sessions() == {"working": 1, "completed": 1}
    assert world.store.find(second) is not None
    for order in ("name", "updated", "steps", "cost"):
        assert {one.identity.id for one in cast(OrderedStore, world.store).list_ordered(Query(), order, None)} == {
            first,
            second,
        }
    assert world.append(first, label="new").step.seq == 9
    assert world.store.check() == []
    world.store.close()


@pytest.mark.parametrize("version", range(1, migrate.VERSION + 1))
def test_an_old_store_is_upgraded_with_its_data(tmp_path: Path, version: int) -> None:
    path = tmp_path / "relight.db"
    filled = fill(path)
    make_old(path, version)
    check_filled(path, *filled)


def test_names_with_accents_of_an_older_store_are_found_without_them(tmp_path: Path) -> None:
    path = tmp_path / "relight.db"
    world = trial(path)
    session = world.begin(name="zoë", task="nach Köln", status="completed")
    world.store.close()
    make_old(path, 4)  # that of 0.1.0
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE sessions SET searchable = ?", (f"zoë\n{session}\nnach köln",))
    connection.close()
    world = trial(path)
    for text in ("zoe", "zoë", "koln", "nach köln"):
        assert [one.identity.id for one in world.store.list_sessions(Query(text=text))] == [session], text
    assert world.store.check() == []
    world.store.close()


@pytest.mark.parametrize("column", ["id", "status", "name", "key", "agent", "searchable", "record"])
def test_an_older_store_with_a_damaged_row_is_upgraded_and_its_other_sessions_are_whole(
    tmp_path: Path, column: str
) -> None:
    """A text that is no UTF-8 ended the migration: no session could be read any more."""
    path = tmp_path / "relight.db"
    world = trial(path)
    damaged = world.begin(name="hit", key="k", agent="a", status="completed")
    whole = world.begin(name="other", status="completed")
    world.store.close()
    make_old(path, 4)
    connection = apsw.Connection(str(path))
    connection.execute(
        f"UPDATE sessions SET {column} = CAST(x'ff' || substr(CAST({column} AS BLOB), 2) AS "
        f"{'BLOB' if column == 'record' else 'TEXT'}) WHERE id = ?",
        (damaged,),
    )
    connection.close()
    world = trial(path)
    found = {one.identity.id: one for one in world.store.list_sessions(Query())}
    assert found[whole].head is not None and len(found) == 2
    for order in ("name", "updated", "steps", "cost"):
        assert whole in {one.identity.id for one in cast(OrderedStore, world.store).list_ordered(Query(), order, None)}
    world.store.close()


@pytest.mark.parametrize(("number", "applied"), PREFIXES)
def test_a_half_applied_migration_is_finished(tmp_path: Path, number: int, applied: int) -> None:
    """Every first part of every migration, on a store with data where there can be some."""
    path = tmp_path / "relight.db"
    filled = fill(path) if number > 1 else None
    if filled:
        make_old(path, number - 1)
    connection = apsw.Connection(str(path))
    migrate.add_functions(connection)
    for statement in migrate.statements_of(migrate.MIGRATIONS[number - 1])[:applied]:
        migrate.apply(connection, statement)
    connection.pragma("application_id", APPLICATION_ID)
    connection.close()
    if filled:
        check_filled(path, *filled)
    else:
        check_filled(path, *fill(path))
    connection = apsw.Connection(str(path))
    assert migrate.dump(connection) == SCHEMA
    connection.close()


def test_an_added_column_is_added_once() -> None:
    """SQLite has no ADD COLUMN IF NOT EXISTS; the runner looks first."""
    connection = empty()
    migrate.migrate(connection)
    for _ in range(2):
        migrate.apply(connection, "ALTER TABLE heads ADD COLUMN extra TEXT")
    assert [name for (name,) in connection.execute(SQL["columns"], ("heads",))] == ["sid", "record", "extra"]


OPEN = """
import sys
from relight.stores.sqlite.store import SqliteStore
from relight.testing.clock import ManualClock
SqliteStore(sys.argv[1], ManualClock()).close()
"""


@pytest.mark.parametrize("version", [0, 1])
def test_several_processes_migrate_at_once(tmp_path: Path, version: int) -> None:
    path = tmp_path / "relight.db"
    if version:
        filled = fill(path)
        make_old(path, version)
    children = [
        subprocess.Popen([sys.executable, "-c", OPEN, str(path)], stderr=subprocess.PIPE, text=True) for _ in range(6)
    ]
    assert [(child.communicate()[1], child.returncode) for child in children] == [("", 0)] * 6
    check_filled(path, *(filled if version else fill(path)))


# -- nothing in vain -------------------------------------------------------------------------------------------


def statements() -> dict[str, str]:
    """Every whole statement, with a condition where one is to be filled in, and for every order."""
    filled = {name: text.replace("{where}", "TRUE").replace("{version}", "1") for name, text in SQL.items()}
    for order, (column, index) in listing.ORDERS.items():
        where = f"s.ended_us IS NOT NULL AND {SQL['after_place']}"
        parts = {"where": where, "index": index, "way": "DESC", "beyond": "<"}
        text = re.sub(r"\{(\w+)\}", lambda part, parts=parts: parts.get(part[1], part[0]), SQL["list_ordered"])  # type: ignore[misc]
        filled[order] = text.replace("{column}", column).replace("{beyond}", "<")
    del filled["list_ordered"]
    return {name: text for name, text in filled.items() if text.split()[0] in {"SELECT", "INSERT", "UPDATE", "DELETE"}}


def conditions() -> list[str]:
    """Every fragment that is put into a page's statement, in the statement it belongs to."""
    names = [name for name in SQL if name.startswith(("lead_", "with_", "before_", "created_"))]
    base = SQL["list_page_labelled"]
    return [base.replace("{where}", SQL[name].replace("{n}", "0")) for name in names]


def test_every_statement_is_explained_and_used() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in HERE.rglob("*.py"))
    parts = set(re.findall(r"\{(\w+)\}", "".join(path.read_text() for path in (HERE / "sql").glob("*.sql"))))
    assert [name for name in SQL if f'"{name}"' not in sources and name not in parts] == []
    names = re.findall(r'SQL\["(\w+)"\]', sources)
    assert [name for name in names if name not in SQL] == []
    for path in (HERE / "sql").glob("*.sql"):
        found = re.findall(r"^-- name: (\w+)\n(.*)\n", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert [name for name, purpose in found if not purpose.startswith("-- ")] == []


def test_every_column_has_a_writer_and_a_reader() -> None:
    """Asked of SQLite itself: what each production statement reads and writes."""
    connection = empty()
    migrate.migrate(connection)
    written, read = set[tuple[str, str]](), set[tuple[str, str]]()

    def authorizer(action: int, first: str | None, second: str | None, _: str | None, __: str | None) -> int:
        if action == apsw.SQLITE_READ:
            read.add((first or "", second or ""))
        elif action == apsw.SQLITE_UPDATE:
            written.add((first or "", second or ""))
        return apsw.SQLITE_OK

    for text in [*statements().values(), *conditions()]:
        # What an INSERT, UPDATE or DELETE reads only serves to write; readers are SELECTs.
        before = set(read)
        connection.authorizer = authorizer
        connection.execute("EXPLAIN " + re.sub(r"\?\d*|:\w+", "NULL", text)).fetchall()
        connection.authorizer = None
        if not text.startswith("SELECT"):
            read.intersection_update(before)
        if inserted := re.match(r"INSERT (?:OR \w+ )?INTO (\w+)\s+\(([^)]+)\)", text):
            written.update((inserted[1], column.strip()) for column in inserted[2].split(","))

    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    ours = [table for table in tables if not table.startswith("sqlite_")]
    assert len(ours) >= 8
    for table in ours:
        for name, hidden in connection.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (table,)).fetchall():
            generated = hidden == 2
            by_itself = (table, name) in {("sessions", "sid"), ("checkpoint_labels", "id")}  # SQLite numbers the rows
            by_trigger = table == "status_counts"
            by_migration = table == "older_bodies"
            assert (table, name) in read, f"nothing reads {table}.{name}"
            by_other = generated or by_itself or by_trigger or by_migration
            assert by_other or (table, name) in written, f"nothing writes {table}.{name}"
