"""The OpenAPI document: generated from the routes, plus the problem schema, both security schemes and examples."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response

from relight.server.http.examples import add_examples
from relight.server.http.routes import answer, get
from relight.server.http.schemas import ProblemDocument, describe, event_schemas

_ABOUT = """Every route requires a token: `Authorization: Bearer TOKEN`. Its scope is read, operate or admin; `x-scope`
names the one that a route requires. Errors are problem documents (RFC 9457) with a stable code and hints."""


def install(app: FastAPI) -> None:
    """Add the document, generated at first use, and the route /openapi.json to the application."""
    made: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if not made:
            made.update(_generate(app))
        return made

    app.openapi = document  # type: ignore[method-assign]
    router = APIRouter()

    @get(router, "/openapi.json", model=dict[str, Any], tag="about")
    def openapi(request: Request) -> Response:
        """Get the OpenAPI document of this server."""
        return answer(request, request.app.openapi())

    app.include_router(router)


def _generate(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=_ABOUT,
        routes=app.routes,
        openapi_version="3.1.0",
    )
    made["servers"] = [{"url": "/", "description": "this server"}]
    cookie = app.state.service.guard.cookie_name
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    problem = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    schemas.update(event_schemas(schemas))
    describe(schemas)
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "The server's own token, or an API token."},
        "cookie": {"type": "apiKey", "in": "cookie", "name": cookie, "description": "Made by a launch link."},
    }
    # FastAPI declares a 422 for every route with parameters. Ours answers 400 with a problem document instead, and
    # declares 422 only where it means a reused idempotency key.
    for path in made["paths"].values():
        for operation in path.values():
            found = operation["responses"].get("422", {}).get("content", {}).get("application/json", {})
            if "HTTPValidationError" in str(found):
                del operation["responses"]["422"]
            for answered in operation["responses"].values():  # FastAPI adds JSON of any form to every other media type
                content = answered.get("content", {})
                if len(content) > 1 and not content.get("application/json", {}).get("schema", True):
                    del content["application/json"]
    add_examples(made)
    return made
