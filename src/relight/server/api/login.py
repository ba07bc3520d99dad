"""`/login?code=`: exchanges the one-time code of a launch link for a login cookie.

At a shared host such as 127.0.0.1 the client is redirected to the server's secret host name first, and the cookie is
set there, where no other site and no other port can use it."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from relight.server.http.refusals import Unauthorised
from relight.server.service import Served

router = APIRouter()
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    303: {"description": "logged in, or redirected to this server's own host name to log in there"},
    400: {"description": "code missing", "content": {"application/problem+json": {}}},
    401: {"description": "the code was used, has expired or is unknown", "content": {"application/problem+json": {}}},
    429: {"description": "too many login attempts", "content": {"application/problem+json": {}}},
}


@router.get(
    "/login", status_code=303, response_model=None, tags=["about"], responses=_RESPONSES, openapi_extra={"security": []}
)
def login(
    request: Request,
    served: Served,
    code: Annotated[str, Query(max_length=200)],
    next: Annotated[str, Query(max_length=500, description="a page of this server to go to")] = "/",
) -> Response:
    """Log in with the code of a launch link. Open to everyone who has one."""
    served.guard.count_login(request)
    # The redirect reveals the secret host name, so the code is checked before, without redeeming it.
    if not served.guard.accepts_cookies(request):
        if not served.guard.tokens.has_code(code):
            raise _refused()
        query = urlencode({"code": code, "next": _local_path(next)})
        return RedirectResponse(served.guard.own_address(request, f"/login?{query}"), status_code=303)
    made = served.guard.tokens.redeem_code(code, served.settings.login_days)
    if made is None:
        raise _refused()
    answer = RedirectResponse(_local_path(next), status_code=303)
    answer.set_cookie(
        served.guard.cookie_name,
        made,
        max_age=round(served.settings.login_days * 86_400),
        httponly=True,
        samesite="strict",
        secure=served.settings.secure,
        path="/",
    )
    return answer


def _refused() -> Unauthorised:
    hints = ["a link works once, within a minute; print a new one: relight serve --link"]
    return Unauthorised("this link was used, has expired or is unknown", hints=hints)


def _local_path(target: str) -> str:
    """The target if it is a path of this server, else "/": no open redirect."""
    plain = (
        target.startswith("/") and not target.startswith(("//", "/\\")) and target.isascii() and target.isprintable()
    )
    return target if plain and "\\" not in target else "/"
