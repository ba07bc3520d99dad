"""What the pages' routes share: the library, the clock, the frame around a page, and who is looking."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from relight.library.facade import Relight
from relight.server.pages.frame import frame_of
from relight.server.pages.rendering import render
from relight.server.service import Service
from relight.values.checkpoint import at

_REMEMBERED: Final = 1000


class Site:
    """One server's pages."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._known: OrderedDict[tuple[str, str, int], Any] = OrderedDict()

    @property
    def rl(self) -> Relight:
        """The library behind the server."""
        return self.service.rl

    def remembered(self, key: tuple[str, str, int], make: Callable[[], Any]) -> Any:
        """Something that takes a while to find out and does not change under this key. What is raised is not kept."""
        try:
            return self._known[key]
        except KeyError:
            found = self._known[key] = make()
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return found

    def now(self) -> datetime:
        """By the server's clock."""
        return at(self.service.clock.now_us())

    def page(self, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
        """A whole page in its frame."""
        frame = frame_of(self.rl, self.now())
        return HTMLResponse(render(template, frame=frame, **values), status_code=status)

    def strip(self) -> str:
        """What needs somebody, as a fragment."""
        return render("strip.html", frame=frame_of(self.rl, self.now()))


def address(path: str, given: Mapping[str, str], *keep: str) -> Any:
    """A function that makes the address of the same page with something changed."""
    kept = {name: given[name] for name in keep if given.get(name)}

    def here(**changes: object) -> str:
        asked = {**kept, **{name: str(value) for name, value in changes.items() if value not in (None, "")}}
        return path + (f"?{urlencode(asked)}" if asked else "")

    return here
