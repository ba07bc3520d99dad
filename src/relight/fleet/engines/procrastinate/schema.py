"""Installs and migrates Procrastinate's schema in the store's database.

In one transaction under a lock: any number of workers may start at once, and it is never half installed.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final

import psycopg
from procrastinate.schema import SchemaManager

from relight.errors import StoreUnavailable
from relight.ports.schema import SchemaStatus

Connection = psycopg.Connection[tuple[Any, ...]]

OURS: Final = 1
"""version of install.sql; incremented with every change"""
_TIMEOUTS: Final[dict[str, Any]] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""as for the store's connections; parameters of the address take precedence"""
_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_MIGRATION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)_")


def _read(name: str) -> str:
    return (files("relight.fleet.engines.procrastinate") / "sql" / name).read_text(encoding="utf-8")


def _statements() -> dict[str, bytes]:
    _, *parts = _NAME.split(_read("engine.sql"))
    return {name: text.strip().encode() for name, text in zip(parts[::2], parts[1::2], strict=True)}


SQL: Final = _statements()
INSTALLED: Final = version("procrastinate")


def install(connection: Connection) -> bool:
    """Install or migrate the schema; whether anything was done."""
    if _found(connection) == (INSTALLED, OURS):
        return False
    with connection.transaction():
        connection.execute(SQL["lock"])
        found = _found(connection)
        if found == (INSTALLED, OURS):
            return False
        connection.execute(SQL["make_schema"])
        connection.execute(SQL["here"])
        if found is None:
            connection.execute(SchemaManager.get_schema().encode())
        else:
            for script in _between(found[0], INSTALLED):
                connection.execute(script.encode())
        connection.execute(_read("install.sql").encode())
        connection.execute(SQL["set_versions"], (INSTALLED, OURS))
    return True


def connect(url: str) -> Connection:
    """A connection with timeouts, so that a server that vanishes silently is noticed."""
    return psycopg.connect(autocommit=True, **{**_TIMEOUTS, **psycopg.conninfo.conninfo_to_dict(url)})


def away(error: psycopg.Error) -> StoreUnavailable:
    """StoreUnavailable for an error of this engine's connection."""
    text = str(error).strip().partition("\n")[0]
    hints = ["check the server: relight doctor"]
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        hints = ["as a user who may create tables, run: relight migrate", "or use no jobs: RELIGHT_ENGINE=embedded"]
    return StoreUnavailable(f"the wakeup engine's jobs cannot be reached: {text}", hints=hints)


def schema_status(url: str) -> SchemaStatus:
    """The schema's version in the database at an address. Changes nothing."""
    try:
        with connect(url) as connection:
            found = _found(connection)
    except psycopg.Error as error:
        raise away(error) from None
    there = None if found is None else f"{found[0]}-{found[1]}"
    return SchemaStatus(
        part="engine", place="procrastinate, in the same database", found=there, wanted=f"{INSTALLED}-{OURS}"
    )


def _found(connection: Connection) -> tuple[str, int] | None:
    there = connection.execute(SQL["is_there"]).fetchone()
    if there is None or not there[0]:
        return None
    row = connection.execute(SQL["versions"]).fetchone()
    return (row[0], row[1]) if row is not None else None


def _between(older: str, newer: str) -> list[str]:
    """Procrastinate's own migrations after one version, up to another, in order."""
    lowest, highest = _numbers(older), _numbers(newer)
    scripts = []
    for path in sorted((files("procrastinate.sql") / "migrations").iterdir(), key=lambda one: one.name):
        known = _MIGRATION.match(path.name)
        if known and lowest < tuple(map(int, known.groups())) <= highest:
            scripts.append(path.read_text(encoding="utf-8"))
    return scripts


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
