"""`/login?code=`: a launch link, once, within a minute, becomes a cookie that no other site and no other port can use.

At 127.0.0.1 the link leads to the same address under the server's own name, where the cookie is set."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from relight.server.http.refusals import Unauthorised
from relight.server.service import Served

router = APIRouter()
_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    303: {"description": "logged in; or on to this server's own host name, to be logged in there"},
    400: {"description": "no code", "content": {"application/problem+json": {}}},
    401: {"description": "the code was used, is over or never was", "content": {"application/problem+json": {}}},
    429: {"description": "too many attempts", "content": {"application/problem+json": {}}},
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
    """Open to whoever has the link."""
    served.guard.count_login(request)
    if not served.guard.accepts_cookies(request):  # only who has a valid code is told where this server is alone
        if not served.guard.tokens.has_code(code):
            raise _refused()
        again = urlencode({"code": code, "next": _inside(next)})
        return RedirectResponse(served.guard.own_address(request, f"/login?{again}"), status_code=303)
    made = served.guard.tokens.redeem_code(code, served.settings.login_days)
    if made is None:
        raise _refused()
    answer = RedirectResponse(_inside(next), status_code=303)
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
    hints = ["a link is good once, for a minute; a new one: relight serve --link"]
    return Unauthorised("this link was used, is over or never was", hints=hints)


def _inside(target: str) -> str:
    """A path of ours, or the first page: never another site."""
    plain = (
        target.startswith("/") and not target.startswith(("//", "/\\")) and target.isascii() and target.isprintable()
    )
    return target if plain and "\\" not in target else "/"
