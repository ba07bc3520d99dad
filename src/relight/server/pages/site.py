"""What all page routes share: the library, the clock, a cache, and rendering inside the frame."""

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

_MAX_CACHED: Final = 1000


class Site:
    """The pages of one server."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._cache: OrderedDict[tuple[str, str, int], Any] = OrderedDict()

    @property
    def rl(self) -> Relight:
        return self.service.rl

    def cached(self, key: tuple[str, str, int], make: Callable[[], Any]) -> Any:
        """The cached value of a key, computed at first use. Exceptions are not cached."""
        try:
            return self._cache[key]
        except KeyError:
            found = self._cache[key] = make()
        if len(self._cache) > _MAX_CACHED:
            self._cache.popitem(last=False)
        return found

    def now(self) -> datetime:
        """The time by the server's clock."""
        return at(self.service.clock.now_us())

    def page(self, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
        """Render a whole page with its frame."""
        frame = frame_of(self.rl, self.now())
        return HTMLResponse(render(template, frame=frame, **values), status_code=status)

    def strip(self) -> str:
        """Render the strip of sessions that need a person."""
        return render("strip.html", frame=frame_of(self.rl, self.now()))


def address(path: str, given: Mapping[str, str], *keep: str) -> Any:
    """A function that builds the URL of the same page with some query values changed."""
    kept = {name: given[name] for name in keep if given.get(name)}

    def here(**changes: object) -> str:
        asked = {**kept, **{name: str(value) for name, value in changes.items() if value not in (None, "")}}
        return path + (f"?{urlencode(asked)}" if asked else "")

    return here
