"""Pages of sessions, at a cost that does not depend on how many sessions there are.

For every selective condition there is an index that yields sessions newest first, so that a page ends after `limit`
rows. Several statuses give a page each, merged by the server.
"""

from __future__ import annotations

from typing import Any

from relight.ports.store import Query
from relight.stores.postgres.connections import Cursor
from relight.stores.postgres.rows import ROWS
from relight.stores.postgres.statements import SQL
from relight.stores.stored_rows import Row, label_count
from relight.values.status import STATUSES, Status


def page(cursor: Cursor, query: Query) -> list[Row]:
    """The rows of a page, newest first."""
    statement, values = statement_for(query)
    return cursor.execute(statement, values).fetchall()


def statement_for(query: Query) -> tuple[bytes, dict[str, Any]]:
    """The statement and bindings for a query."""
    name, conditions = _conditions(query)
    where = b" AND ".join(conditions) or SQL["all_sessions"]
    values = {**ROWS.query_values(query), "statuses": sorted(query.statuses or ())}
    return SQL[name].replace(b"{where}", where), values


def _conditions(query: Query) -> tuple[str, list[bytes]]:
    """The name of the statement, and its conditions."""
    statement, before = "list_page", "before_session"
    labels = range(label_count(query))
    led = query.key is not None or query.parent is not None
    if labels and not led:
        statement, before, labels = "list_page_labelled", "before_labelled", labels[1:]
    elif query.statuses is not None and not led:
        statement = "list_page_by_status"
    asked = {
        "with_key": query.key,
        "with_parent": query.parent,
        before: query.before,
        "created_since": query.created_since_us,
        "with_agent": query.agent,
        "with_provider": query.provider,
        "with_status": query.statuses if statement != "list_page_by_status" else None,
        "with_text": query.text,
    }
    names = [name for name, value in asked.items() if value is not None]
    more = [SQL["with_label"].replace(b"{n}", str(n).encode()) for n in labels]
    return statement, [SQL[name] for name in names] + more


def counts(cursor: Cursor) -> dict[Status, int]:
    """Number of sessions by status. Rows of an unknown status are skipped; `check` reports them."""
    known: dict[object, Status] = {status: status for status in STATUSES}
    return {known[word]: n for word, n in cursor.execute(SQL["read_counts"]).fetchall() if word in known}
