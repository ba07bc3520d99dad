"""The tables of `relight sql`: `sessions` and `steps`, read-only, over a store of any kind.

They are of an SQLite database in memory that has nothing else in it. They are read from the store while the query runs,
session by session and step by step, so a query takes no more memory than its own result. Nothing can be written: every
statement but a reading one is refused before it runs. Bodies are compressed in the store; here they are JSON in the
public form of events, so that `body ->> '$.messages[0].content'` means the same on every store.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import apsw
import apsw.ext
import msgspec

from relight.errors import RelightError, UsageError
from relight.journal.search.words import joined_texts

if TYPE_CHECKING:
    from relight.history.events import Event
    from relight.library.facade import Relight
    from relight.values.info import SessionInfo

SESSIONS: Final = (
    *("id", "name", "key", "agent", "provider", "model", "task", "labels", "metadata", "status", "reason", "seq"),
    *("attempt", "cost", "tokens", "parent", "spawned_by", "created_at", "updated_at"),
)
STEPS: Final = ("session", "name", "seq", "kind", "at", "attempt", "base", "label", "text", "body")
_READING: Final = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE})
_MAX_VALUE_BYTES: Final = 256 * 1024 * 1024

Row = tuple[Any, ...]


@contextmanager
def query(rl: Relight, sql: str) -> Iterator[tuple[list[str], Iterator[Row]]]:
    """The names of the columns, and the rows as they are read. UsageError for a statement that writes, for several, and
    for what SQLite does not understand."""
    connection = apsw.Connection(":memory:")
    try:
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
        for name, table in (("sessions", _sessions(rl)), ("steps", _steps(rl))):
            apsw.ext.make_virtual_module(connection, name, table, eponymous_only=True)
        connection.authorizer = _authorize
        with _explained():
            if apsw.ext.query_info(connection, sql).query_remaining:
                raise UsageError("one statement at a time; nothing was run")
            cursor = connection.execute(sql)
            columns = [str(name) for name, *_ in cursor.get_description()]
        yield columns, _read(cursor)
    finally:
        connection.close(True)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    return apsw.SQLITE_OK if action in _READING else apsw.SQLITE_DENY


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except apsw.AuthError:
        raise UsageError("only reading statements: SELECT ... FROM sessions, steps; nothing was run") from None
    except apsw.ExecutionCompleteError:
        raise UsageError("no statement") from None
    except apsw.Error as error:
        hints = [f"sessions: {', '.join(SESSIONS)}", f"steps: {', '.join(STEPS)}"]
        raise UsageError(f"SQLite: {error}", hints=hints) from None


def _read(cursor: apsw.Cursor) -> Iterator[Row]:
    with _explained():
        yield from cursor


def _sessions(rl: Relight) -> Any:
    def sessions() -> Iterator[Row]:
        for info in rl.sessions.list():
            built = msgspec.to_builtins(info)
            values = {**built, "tokens": info.usage.tokens}
            yield tuple(_value(values.get(name)) for name in SESSIONS)

    return _table(sessions, SESSIONS)


def _steps(rl: Relight) -> Any:
    def steps(ref: str | None = None) -> Iterator[Row]:
        found = rl.sessions.list() if ref is None else iter([rl.sessions.get(ref)])
        for info in found:
            try:
                for event in rl.history.events(ref or info.id, after=_inherited(info)):
                    yield _step_row(info, event)
            except RelightError as error:  # the other sessions are whole: the damage is a row of its own
                yield (info.id, info.name, None, "damage", *[None] * 4, error.message, None)

    return _table(steps, STEPS)


def _inherited(info: SessionInfo) -> int:
    """The steps of a fork that belong to the session it was forked from."""
    return int(info.parent.rpartition("@")[2]) if info.parent is not None else 0


def _step_row(info: SessionInfo, event: Event) -> Row:
    body = msgspec.to_builtins(event)
    text = joined_texts(event.messages, event.intents, event.outcomes, event.status, event.answer, event.note)
    values = {**body, "name": info.name, "text": text, "body": body}
    return tuple(_value(values.get(name)) for name in STEPS)


def _table(function: Any, columns: tuple[str, ...]) -> Any:
    function.columns = columns
    function.column_access = apsw.ext.VTColumnAccess.By_Index
    return function


def _value(value: Any) -> Any:
    """As SQLite has it: JSON for what is nested, and lone surrogates, which UTF-8 has not, replaced."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | tuple) else value
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text
