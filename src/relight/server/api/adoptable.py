"""`/api/adoptable`: native sessions of coding agents on the server's machine that relight does not manage yet."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from relight.server.api.sessions import Limit
from relight.server.http.routes import answer, get, page_document
from relight.server.http.schemas import AdoptableDocument, page_of
from relight.server.service import Served

router = APIRouter()


@get(router, "/api/adoptable", model=page_of(AdoptableDocument))
def list_adoptable(request: Request, served: Served, limit: Limit = 50) -> Response:
    """List the native sessions that `relight adopt` could take over, newest first. Their files are only read."""
    return answer(request, page_document([msgspec.to_builtins(one) for one in served.rl.adoptable(most=limit)], None))
