"""Templates and assets. Every printed value is escaped and made inert; nothing is evaluated.

Assets are read once and addressed by their digest, so that browsers may cache them forever. Third-party ones
(assets/vendor) are in the wheel or fetched by `tools/assets.py`; pages work without them.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from relight.server.http.routes import known_tag
from relight.server.pages.files import diff_lines
from relight.server.reading.code import coloured, language_of
from relight.server.reading.inert import finalize
from relight.server.reading.markup import markdown
from relight.server.reading.terminal import plain, terminal
from relight.text import format as words

HERE: Final = Path(__file__).resolve().parent.parent
ASSETS: Final = HERE / "assets"
VENDOR_JS: Final = ("vendor/htmx.js", "vendor/uplot.js", "vendor/diff2html.js")
VENDOR_CSS: Final = ("vendor/uplot.css", "vendor/diff2html.css")
SHEETS: Final = ("relight.css", "acts.css")
SCRIPTS: Final = ("relight.js", "dialogs.js", "acts.js", "panes.js", "live.js", "push.js")
CACHE_FOREVER: Final = "private, max-age=31536000, immutable"
_MARK_WORDS: Final = {"✓": "ok", "✗": "failed", "!": "in doubt", "…": "open", "?": "waits"}
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@cache
def assets() -> dict[str, tuple[bytes, str, str]]:
    """Name -> (content, media type, digest). Read once: no request can reach another file."""
    found: dict[str, tuple[bytes, str, str]] = {}
    for path in sorted(ASSETS.rglob("*")):
        if path.is_file() and path.suffix in _TYPES and not path.name.startswith("."):
            body = path.read_bytes()
            digest = hashlib.sha256(body).hexdigest()[:12]
            found[path.relative_to(ASSETS).as_posix()] = (body, _TYPES[path.suffix], digest)
    return found


def asset_address(name: str) -> str:
    """The URL of an asset with its digest, so that a new version has a new URL."""
    known = assets().get(name)
    return f"/assets/{name}?v={known[2]}" if known is not None else f"/assets/{name}"


def asset_response(request: Request, name: str) -> Response | None:
    """The response for an asset; None if there is none of this name. Only under its digest it is cached forever."""
    known = assets().get(name)
    if known is None:
        return None
    body, kind, digest = known
    forever = request.query_params.get("v") == digest
    headers = {"Cache-Control": CACHE_FOREVER if forever else "private, no-cache", "ETag": f'"{digest}"'}
    if (tag := known_tag(request, headers["ETag"])) is not None:
        return Response(status_code=304, headers={**headers, "ETag": tag})
    return Response(body, media_type=kind or mimetypes.guess_type(name)[0], headers=headers)


def _local_clock(at: datetime) -> str:
    return f"{at.astimezone():%H:%M:%S}"


def _local_long(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _short_ref(ref: str) -> str:
    session, at, seq = ref.partition("@")
    return f"{session[:8]}{at}{seq}"


@cache
def environment() -> jinja2.Environment:
    """The Jinja environment: autoescaping, undefined names are errors."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=200,
    )
    filters: dict[str, Callable[..., Any]] = {
        "money": words.money,
        "lasting": words.duration,
        "count": words.count,
        "place": words.display_path,
        "size": words.size,
        "local_clock": _local_clock,
        "local_long": _local_long,
        "short_ref": _short_ref,
        "mark_word": lambda mark: _MARK_WORDS.get(mark, ""),
        "thousands": lambda number: f"{number:,}",
        "diff_lines": diff_lines,
        "markdown": markdown,
        "terminal": terminal,
        "plain": plain,
        "coloured": coloured,
        "language": language_of,
    }
    made.filters.update(filters)
    made.globals.update(asset=asset_address, q="", nav="", frame=None)
    return made


def render(template: str, **values: Any) -> str:
    """Render a page or fragment to text."""
    present = assets()
    return (
        environment()
        .get_template(template)
        .render(
            vendor_js=[name for name in VENDOR_JS if name in present],
            vendor_css=[name for name in VENDOR_CSS if name in present],
            sheets=SHEETS,
            scripts=SCRIPTS,
            **values,
        )
    )


def answer(template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A rendered template as an HTML response."""
    return HTMLResponse(render(template, **values), status_code=status)
