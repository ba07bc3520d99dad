"""Pages of sessions, at a cost that does not depend on how many sessions there are.

One condition leads: one whose index yields sessions newest first, so that a page ends after `limit` rows. They lead in
this order: key, fork of, child of, label, status, none. Several statuses are queried one after another and merged.
"""

from __future__ import annotations

from heapq import nlargest
from itertools import chain
from typing import Any, Final

import apsw
import msgspec

from relight.ports.store import Query
from relight.stores.sqlite.rows import Row, label_pairs, optional_text, read_text, to_search_text, to_text
from relight.stores.sqlite.statements import SQL
from relight.values.status import STATUSES, Status

_json: Final = msgspec.json.Encoder()


def page(cursor: apsw.Cursor, query: Query) -> list[Row]:
    """The rows of a page, newest first."""
    if query.statuses is not None and not _other_leads(query):
        pages = (_select(cursor, query, leading=status) for status in query.statuses)
        return nlargest(query.limit, chain.from_iterable(pages), key=lambda row: (row[2], row[1]))
    return _select(cursor, query, leading=None)


def _other_leads(query: Query) -> bool:
    return query.key is not None or query.parent is not None or bool(_labels(query))


def _labels(query: Query) -> list[tuple[str, str]]:
    return label_pairs(query.labels, query.spawned_by)


def _select(cursor: apsw.Cursor, query: Query, *, leading: Status | None) -> list[Row]:
    statement, conditions = _conditions(query, leading)
    where = " AND ".join(conditions)
    return cursor.execute(SQL[statement].replace("{where}", where), _values(query, leading)).fetchall()


def _conditions(query: Query, leading: Status | None) -> tuple[str, list[str]]:
    """The name of the statement, and its conditions, the leading one first."""
    statement, before = "list_page", "before_session"
    labels = range(len(_labels(query)))
    if query.key is not None:
        names = ["lead_key", *(["with_parent"] if query.parent is not None else [])]
    elif query.parent is not None:
        names = ["lead_parent"]
    elif labels:
        statement, before, names, labels = "list_page_labelled", "before_labelled", ["lead_label"], labels[1:]
    else:
        names = ["lead_created" if leading is None else "lead_status"]
    asked = {
        before: query.before,
        "created_since": query.created_since_us,
        "with_agent": query.agent,
        "with_provider": query.provider,
        "with_status": query.statuses if leading is None else None,
        "with_text": query.text,
    }
    names += [name for name, value in asked.items() if value is not None]
    return statement, [SQL[name] for name in names] + [SQL["with_label"].replace("{n}", str(n)) for n in labels]


def _values(query: Query, leading: Status | None) -> dict[str, Any]:
    before_us, before_id = query.before or (0, "")
    values: dict[str, Any] = {
        "key": optional_text(query.key),
        "parent": optional_text(query.parent),
        "status": leading,
        "statuses": _json.encode(sorted(query.statuses or ())).decode(),
        "agent": optional_text(query.agent),
        "provider": optional_text(query.provider),
        "text": to_search_text(query.text.casefold()) if query.text is not None else None,
        "created_since_us": query.created_since_us,
        "before_us": before_us,
        "before_id": to_text(before_id),
        "limit": max(query.limit, 0),
    }
    for n, pair in enumerate(_labels(query)):
        values[f"k{n}"], values[f"v{n}"] = pair
    return values


def counts(cursor: apsw.Cursor) -> dict[Status, int]:
    """Number of sessions by status. Rows of an unknown status are skipped; `check` reports them."""
    known: dict[str | None, Status] = {status: status for status in STATUSES}
    rows = cursor.execute(SQL["read_counts"]).fetchall()
    return {known[word]: n for status, n in rows if (word := read_text(status)) in known and type(n) is int}
