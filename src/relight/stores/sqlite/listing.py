"""Pages of sessions, at a cost that does not depend on how many sessions there are.

One condition leads: one whose index yields sessions newest first, so that a page ends after `limit` rows. They lead in
this order: key, fork of, child of, label, status if it is not that of most sessions, agent, provider, none. Several
statuses are queried one after another and merged.

Another order has an index too, of sessions that have ended: what orders a live one changes with every step, and a step
must not pay for it. So the live ones are read whenever a list is in such an order.
"""

from __future__ import annotations

from heapq import nlargest
from itertools import chain
from typing import Any, Final

import apsw
import msgspec

from relight.ports.store import Place, Query
from relight.stores.sqlite.rows import ROWS, read_text, to_search_text, to_text
from relight.stores.sqlite.statements import SQL
from relight.stores.stored_rows import Row, label_count
from relight.values.status import STATUSES, Status

MAX_FEW: Final = 200
"""sessions that match: so many are read rather than looked for in the index of an order"""
_ALL: Final = 2**62
ORDERS: Final = {
    "created": ("s.created_us", "sessions_created"),
    "name": ("s.sort_name", "sessions_by_name"),
    "updated": ("s.ended_us", "sessions_by_updated"),
    "steps": ("s.ended_steps", "sessions_by_steps"),
    "cost": ("s.ended_cost", "sessions_by_cost"),
}
"""column and index"""
_OF_ALL: Final = frozenset({"created", "name"})
"""orders whose index has the sessions that have not ended too"""
_json: Final = msgspec.json.Encoder()


def page(cursor: apsw.Cursor, query: Query) -> list[Row]:
    """The rows of a page, newest first."""
    if query.statuses is not None and not _other_leads(cursor, query):
        pages = (_select(cursor, query, leading=status) for status in query.statuses)
        return nlargest(query.limit, chain.from_iterable(pages), key=lambda row: (row[2], row[1]))
    return _select(cursor, query, leading=None)


def in_order(cursor: apsw.Cursor, query: Query, order: str, before: Place | None) -> list[Row]:
    """The first `query.limit` rows of an order behind a place, and perhaps others, in no order."""
    few = _few(cursor, query)
    if few is not None:
        return few
    rows = _ordered(cursor, query, order, before)
    if order.removeprefix("-") not in _OF_ALL:
        rows += cursor.execute(_with(SQL["list_not_ended"], _filters(query)), _values(query, None)).fetchall()
    return rows


def _few(cursor: apsw.Cursor, query: Query) -> list[Row] | None:
    """All that match, if they are few or an index has them together; None if they may be very many."""
    if query.key is not None or query.parent is not None or query.spawned_by is not None:
        return page(cursor, msgspec.structs.replace(query, limit=_ALL))
    if query == Query(statuses=query.statuses, limit=query.limit):
        known = counts(cursor)
        if sum(known.values() if query.statuses is None else (known.get(one, 0) for one in query.statuses)) > MAX_FEW:
            return None
    found = page(cursor, msgspec.structs.replace(query, limit=MAX_FEW + 1))
    return found if len(found) <= MAX_FEW else None


def _ordered(cursor: apsw.Cursor, query: Query, order: str, before: Place | None) -> list[Row]:
    """The page of an order, from its index."""
    name, descending = order.removeprefix("-"), order.startswith("-")
    column, index = ORDERS[name]
    conditions = [] if name in _OF_ALL else [SQL["lead_ended"]]
    values = _values(query, None)
    if before is not None:
        conditions.append(SQL["after_place"].replace("{beyond}", "<" if descending else ">"))
        place, session = before
        values |= {"place": to_search_text(place) if isinstance(place, str) else place, "place_id": to_text(session)}
    statement = _with(SQL["list_ordered"], conditions + _filters(query)).replace("{index}", index)
    return cursor.execute(
        statement.replace("{column}", column).replace("{way}", "DESC" if descending else "ASC"), values
    ).fetchall()


def _with(statement: str, conditions: list[str]) -> str:
    return statement.replace("{where}", " AND ".join(conditions) or "TRUE")


def _other_leads(cursor: apsw.Cursor, query: Query) -> bool:
    """Whether something else than the statuses leads: an agent or provider, if most sessions have one of them."""
    if query.key is not None or query.parent is not None or label_count(query):
        return True
    if query.agent is None and query.provider is None:
        return False
    known = counts(cursor)
    return 2 * sum(known.get(one, 0) for one in query.statuses or ()) > sum(known.values())


def _select(cursor: apsw.Cursor, query: Query, *, leading: Status | None) -> list[Row]:
    statement, conditions = _conditions(query, leading)
    return cursor.execute(_with(SQL[statement], conditions), _values(query, leading)).fetchall()


def _conditions(query: Query, leading: Status | None) -> tuple[str, list[str]]:
    """The name of the statement, and its conditions, the leading one first."""
    if query.key is not None:
        lead = "lead_key"
    elif query.parent is not None:
        lead = "lead_parent"
    elif label_count(query):
        lead = "lead_label"
    elif leading is not None:
        lead = "lead_status"
    elif query.agent is not None:
        lead = "lead_agent"
    else:
        lead = "lead_created" if query.provider is None else "lead_provider"
    statement = "list_page_labelled" if lead == "lead_label" else "list_page"
    return statement, [SQL[lead], *_filters(query, lead=lead)]


def _filters(query: Query, *, lead: str = "") -> list[str]:
    """The conditions that do not lead."""
    asked = {
        "before_labelled" if lead == "lead_label" else "before_session": query.before,
        "created_since": query.created_since_us,
        "with_key": query.key,
        "with_parent": query.parent,
        "with_agent": query.agent,
        "with_provider": query.provider,
        "with_status": query.statuses,
        "with_text": query.text,
    }
    asked.pop(lead.replace("lead_", "with_"), None)
    names = [name for name, value in asked.items() if value is not None]
    labels = range(1 if lead == "lead_label" else 0, label_count(query))
    return [SQL[name] for name in names] + [SQL["with_label"].replace("{n}", str(n)) for n in labels]


def _values(query: Query, leading: Status | None) -> dict[str, Any]:
    statuses = _json.encode(sorted(query.statuses or ())).decode()
    return {**ROWS.query_values(query), "status": leading, "statuses": statuses}


def counts(cursor: apsw.Cursor) -> dict[Status, int]:
    """Number of sessions by status. Rows of an unknown status are skipped; `check` reports them."""
    known: dict[str | None, Status] = {status: status for status in STATUSES}
    rows = cursor.execute(SQL["read_counts"]).fetchall()
    return {known[word]: n for status, n in rows if (word := read_text(status)) in known and type(n) is int}
