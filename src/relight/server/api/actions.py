"""`/api/actions`: the audit log; who did what, when and why, with state before and after."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from relight.server.api.sessions import Limit
from relight.server.http.routes import Cursor, answer, from_cursor, get, page_document, to_cursor
from relight.server.http.schemas import ActionDocument, page_of
from relight.server.service import Served
from relight.values.checkpoint import at

router = APIRouter()
_COLUMNS = "id, at_us, who, scope, verb, session, name, why, asked, before, after, outcome, undo"


@get(router, "/api/actions", model=page_of(ActionDocument), tag="operations")
def list_actions(
    request: Request,
    served: Served,
    limit: Limit = 100,
    cursor: Cursor = None,
    session: Annotated[str | None, Query(max_length=250, description="Only about this session (full id).")] = None,
) -> Response:
    """List the entries of the audit log, newest first."""
    before = from_cursor(cursor, int)[0] if cursor is not None else 2**62
    which, values = ("AND session = ?", (session,)) if session is not None else ("", ())
    rows = served.state.rows(
        f"SELECT {_COLUMNS} FROM actions WHERE id < ? {which} ORDER BY id DESC LIMIT ?",
        (min(before, 2**62), *values, limit + 1),
    )
    following = to_cursor(rows[limit - 1][0]) if len(rows) > limit else None
    return answer(request, page_document([action_document(row) for row in rows[:limit]], following, cursor=cursor))


def action_document(row: tuple[Any, ...]) -> dict[str, Any]:
    """A row of the audit log as JSON."""
    names = [name.strip() for name in _COLUMNS.split(",")]
    built = dict(zip(names, row, strict=True))
    built["at"] = at(built.pop("at_us")).isoformat()
    for part in ("asked", "before", "after"):
        built[part] = json.loads(built[part]) if built[part] is not None else None
    return built
