"""`/api/search`: find text in what any session says."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from relight.history.search import search_document
from relight.server.api.sessions import Limit, Since, moment
from relight.server.http.routes import Cursor, answer, from_cursor, get, page_document, to_cursor
from relight.server.http.schemas import FoundPage
from relight.server.service import Served

router = APIRouter()
_SECONDS: Final = 1.0
"""how long a request adds steps to the index; housekeeping adds the rest"""


@get(router, "/api/search", model=FoundPage, errors=(404,))
def search_all(
    request: Request,
    served: Served,
    q: Annotated[
        str, Query(min_length=1, max_length=1000, description='Words, "phrases", beginnings*; all must match.')
    ],
    session: Annotated[str | None, Query(max_length=250, description="Only in this session.")] = None,
    since: Since = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Response:
    """Search the content of all sessions, newest first. `note` says what was not searched, if not `complete`."""
    found = served.rl.sessions.search(
        q,
        session=session or None,
        since_us=moment(since, served.clock.now_us()),
        most=limit,
        before=from_cursor(cursor, int)[0] if cursor is not None else None,
        seconds=_SECONDS,
    )
    document = search_document(found)
    following = to_cursor(found.next) if found.next is not None else None
    more = {name: document[name] for name in ("complete", "note")}
    return answer(request, page_document(document["items"], following, cursor=cursor, **more))
