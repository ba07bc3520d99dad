"""`/healthz`, `/metrics` and `/api/store`: health, metrics, and facts about the store."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from relight.errors import Corrupt, StoreError
from relight.history.documents import encoded
from relight.library.facade import Relight
from relight.server.http.problems import Problem
from relight.server.http.routes import answer, get
from relight.server.http.schemas import FindingDocument, HealthDocument
from relight.server.metrics import MEDIA
from relight.server.service import Served

router = APIRouter()
DURABILITY: Final = {
    "power-loss": "every acknowledged step survives a power cut",
    "process-crash": "an acknowledged step survives a crash, not a power cut",
    "none": "nothing survives the end of the process",
}


@router.get(
    "/healthz",
    response_model=None,
    tags=["about"],
    responses={
        200: {"model": HealthDocument, "description": "the store answers"},
        503: {
            "description": "the store is unavailable or damaged",
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        },
    },
    openapi_extra={"security": []},
)
def healthz(served: Served) -> Response:
    """Check whether the store answers. Open to everyone, so its location and what is wrong are left out."""
    try:
        sessions = sum(served.rl.sessions.counts().values())
    except StoreError as error:
        detail = "the store is damaged" if isinstance(error, Corrupt) else "the store is unavailable"
        return Problem(status=503, code=error.code, detail=detail, commands=("relight doctor",)).response()
    document = {"ok": True, **_store(served.rl), "version": version("relight"), "sessions": sessions}
    return Response(encoded(document), media_type="application/json")


@get(router, "/metrics", model=None, tag="about", media="text/plain")
def metrics(served: Served) -> Response:
    """Get the metrics in the Prometheus text format."""
    return Response(served.metrics.exposition(), media_type=MEDIA)


@get(router, "/api/store", model=FindingDocument, tag="operations")
def store(request: Request, served: Served) -> Response:
    """Get the store's location, durability, size and session counts."""
    rl = served.rl
    seen = _store(rl)
    document = {
        "url": rl.store.info.location,
        **{key: seen[key] for key in ("durability", "durability_text", "schema_version")},
        "size_bytes": rl.store.size_bytes(),
        "file_bytes": rl.files.size_bytes(),
        "counts": rl.sessions.counts(),
    }
    return answer(request, document)


def _store(rl: Relight) -> dict[str, Any]:
    kind = rl.store.url.partition(":")[0]
    info = rl.store.info
    durability = info.durability
    return {
        "store": kind if kind in ("memory", "postgresql", "postgres", "redis", "rediss") else "sqlite",
        "durability": durability,
        "durability_text": DURABILITY.get(durability, durability),
        "schema_version": info.schema_version,
    }
