"""Read-only access to stores of LangGraph's own savers: SqliteSaver files, PostgresSaver tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from relight.errors import MissingExtra, NotAStore, NotFound, StoreUnavailable
from relight.frameworks.langgraph.foreign import Foreign, Refusal
from relight.frameworks.langgraph.redaction import MARK

_POSTGRES: Final = ("postgresql://", "postgres://")
_PREFIX: Final = "sqlite:///"
_EMPTY: Final = "empty"


class ForeignCheckpoint(NamedTuple):
    """One checkpoint as data; no object of it was constructed."""

    ns: str
    id: str
    parent: str | None
    rest: dict[str, Any]
    values: dict[str, Any]
    metadata: dict[str, Any]


class ForeignWrite(NamedTuple):
    """One write of a task."""

    ns: str
    checkpoint: str
    task: str
    path: str
    at: int
    channel: str
    value: Any


class Source(Protocol):
    """A store to import from."""

    def threads(self) -> list[str]:
        """The ids of all threads."""
        ...

    def checkpoints(self, thread: str, foreign: Foreign) -> Iterator[ForeignCheckpoint]:
        """The checkpoints of a thread, oldest first. Refusal."""
        ...

    def writes(self, thread: str, foreign: Foreign) -> Iterator[ForeignWrite]:
        """The writes of a thread, in order. Refusal."""
        ...


@contextmanager
def opened(url: str) -> Iterator[Source]:
    """The store behind an address: a PostgreSQL URL, or the path of an SQLite file."""
    if url.startswith(_POSTGRES):
        with _postgres(url) as source:
            yield source
        return
    path = Path(url.removeprefix(_PREFIX))
    if not path.is_file():
        raise NotFound(str(path), what="file")
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        yield SqliteSource(connection, str(path))
    except sqlite3.Error as error:
        raise NotAStore(str(path), f"not a store of SqliteSaver's: {error}") from None
    finally:
        connection.close()


class SqliteSource:
    """Tables `checkpoints` and `writes` of SqliteSaver."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        connection.execute("BEGIN")  # one moment of the store, whatever is written meanwhile
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"checkpoints", "writes"} <= tables:
            raise NotAStore(path, "not a store of SqliteSaver's: it has no tables `checkpoints` and `writes`")
        columns = {row[1] for row in connection.execute("PRAGMA table_info(writes)")}
        self._path = "task_path" if "task_path" in columns else "''"

    def threads(self) -> list[str]:
        """The ids of all threads."""
        rows = self._connection.execute(
            "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes ORDER BY 1"
        )
        return [str(row[0]) for row in rows]

    def checkpoints(self, thread: str, foreign: Foreign) -> Iterator[ForeignCheckpoint]:
        """The checkpoints of a thread, oldest first."""
        rows = self._connection.execute(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints"
            " WHERE thread_id = ? ORDER BY checkpoint_id",
            (thread,),
        )
        for ns, id, parent, kind, data, metadata in rows:
            rest, values = _apart(foreign.value(kind, data))
            yield ForeignCheckpoint(ns, id, parent, rest, values, _fields(foreign.value("json", metadata)))

    def writes(self, thread: str, foreign: Foreign) -> Iterator[ForeignWrite]:
        """The writes of a thread, in order."""
        rows = self._connection.execute(
            f"SELECT checkpoint_ns, checkpoint_id, task_id, {self._path}, idx, channel, type, value FROM writes"
            " WHERE thread_id = ? ORDER BY checkpoint_ns, checkpoint_id, task_id, idx",
            (thread,),
        )
        for ns, checkpoint, task, path, at, channel, kind, data in rows:
            yield ForeignWrite(ns, checkpoint, task, path, at, channel, foreign.value(kind, data))


@contextmanager
def _postgres(url: str) -> Iterator[Source]:
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("postgres", needed_for="a store on PostgreSQL") from None
    try:
        with psycopg.connect(url) as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            yield PostgresSource(connection)
    except psycopg.errors.UndefinedTable:
        raise NotAStore(_shown(url), "not a store of PostgresSaver's: its tables are missing") from None
    except psycopg.Error as error:
        line = (str(error).splitlines() or ["no reason given"])[0]
        raise StoreUnavailable(f"{_shown(url)}: {line}") from None


def _shown(url: str) -> str:
    """The address without credentials and parameters, for messages."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def _apart(found: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a checkpoint into metadata and values. Refusal if it is not one."""
    if found is None:
        raise Refusal("a checkpoint without fields")
    rest = _fields(found)
    rest.pop("id", None)
    return rest, _fields(rest.pop("channel_values", None))


def _fields(found: Any) -> dict[str, Any]:
    if found is not None and (not isinstance(found, dict) or MARK in found):
        raise Refusal("a checkpoint without fields")
    return found or {}


class PostgresSource:
    """Tables `checkpoints`, `checkpoint_blobs` and `checkpoint_writes` of PostgresSaver."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def threads(self) -> list[str]:
        """The ids of all threads."""
        rows = self._connection.execute(
            "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM checkpoint_writes ORDER BY 1"
        )
        return [row[0] for row in rows]

    def checkpoints(self, thread: str, foreign: Foreign) -> Iterator[ForeignCheckpoint]:
        """The checkpoints of a thread, oldest first. Small values are inline, others in rows of their own."""
        blobs = {
            (ns, channel, version): (kind, bytes(data) if data is not None else None)
            for ns, channel, version, kind, data in self._connection.execute(
                "SELECT checkpoint_ns, channel, version, type, blob FROM checkpoint_blobs WHERE thread_id = %s",
                (thread,),
            )
        }
        rows = self._connection.execute(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint::text, metadata::text"
            " FROM checkpoints WHERE thread_id = %s ORDER BY checkpoint_id",
            (thread,),
        )
        for ns, id, parent, data, metadata in rows:
            rest, values = _apart(foreign.value("json", data))
            for channel, version in _fields(rest.get("channel_versions")).items():
                kind, blob = blobs.get((ns, channel, str(version)), (_EMPTY, None))
                if kind != _EMPTY:
                    values[channel] = foreign.value(kind, blob)
            yield ForeignCheckpoint(ns, id, parent, rest, values, _fields(foreign.value("json", metadata)))

    def writes(self, thread: str, foreign: Foreign) -> Iterator[ForeignWrite]:
        """The writes of a thread, in order."""
        rows = self._connection.execute(
            "SELECT checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob FROM checkpoint_writes"
            " WHERE thread_id = %s ORDER BY checkpoint_ns, checkpoint_id, task_id, idx",
            (thread,),
        )
        for ns, checkpoint, task, path, at, channel, kind, data in rows:
            value = foreign.value(kind, bytes(data))
            yield ForeignWrite(ns, checkpoint, task, path or "", at, channel, value)
