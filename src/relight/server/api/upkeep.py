"""`/api/upkeep`: results of the daily verification and restore drill."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from relight.server.http.routes import answer, get
from relight.server.http.schemas import UpkeepDocument
from relight.server.service import Served
from relight.values.checkpoint import at

router = APIRouter()


@get(router, "/api/upkeep", model=UpkeepDocument, tag="operations")
def upkeep(request: Request, served: Served) -> Response:
    """Get the newest verification, restore drill and growth of the store; each is made once a day."""
    found = served.upkeep
    document = {"verified": _dated(found.verified), "drilled": _dated(found.drilled), "growth": found.growth}
    return answer(request, msgspec.to_builtins(document))


def _dated(found: msgspec.Struct | None) -> dict[str, Any] | None:
    if found is None:
        return None
    built = msgspec.to_builtins(found)
    return {"at": at(built.pop("at_us")), **built}
