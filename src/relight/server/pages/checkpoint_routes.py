"""Routes of `/checkpoints/{id}`: the page, and single file differences that it loads on demand."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from relight.server.pages.checkpoint import COMPARES, Compare, actions_of, checkpoint_view, compared, differences
from relight.server.pages.files import Files, body_of
from relight.server.pages.rendering import answer
from relight.server.pages.site import Site
from relight.server.pages.window import position

_COMPARES: Final = (("disk", "disk now"), ("previous", "previous checkpoint"), ("head", "head"), ("other", "other"))


def add(router: APIRouter, site: Site) -> None:
    """Add the routes to the router."""

    @router.get("/checkpoints/{ref}", response_class=HTMLResponse)
    def checkpoint(request: Request, ref: str) -> Response:
        sheet, info, plan = checkpoint_view(site.rl, ref, site.now())
        asked = request.query_params
        unreachable = plan.files is not None and bool(plan.files.missing)
        otherwise: Compare = "previous" if unreachable else "disk"
        compare: Compare = next((one for one in COMPARES if one == asked.get("compare")), otherwise)
        other = position(asked.get("other"))
        files = Files(lines=[], left_out=[], total=0, added=0, removed=0, trouble=_none(info.workspace))
        if sheet.has_files:
            files = compared(site.rl, sheet, plan, compare, other)
        return site.page(
            request,
            "checkpoint.html",
            nav="sessions",
            sheet=sheet,
            actions=actions_of(sheet, plan),
            compare=compare,
            compares=_COMPARES,
            other=other,
            files=files,
        )

    @router.get("/checkpoints/{ref}/difference", response_class=HTMLResponse)
    def difference(ref: str, root: str, path: str, compare: str = "disk", other: str = "") -> Response:
        sheet, _, _ = checkpoint_view(site.rl, ref, site.now())
        which: Compare = next((one for one in COMPARES if one == compare), "disk")
        text = body_of(differences(site.rl, sheet, which, position(other)), root, path)
        if text is None:
            raise HTTPException(404)
        return answer("difference.html", text=text)


def _none(workspace: dict[str, str]) -> str:
    if not workspace:
        return "The session has no workspace, so no files are captured; the conversation can still be rewound."
    return "No files were captured up to this checkpoint; the conversation can still be rewound."
