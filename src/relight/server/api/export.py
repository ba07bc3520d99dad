"""`GET /api/sessions/{ref}/export`: a session with its ancestors and captured files as one file, without secrets."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from relight.server.http.refusals import TooMany
from relight.server.http.routes import Ref, get
from relight.server.service import Served
from relight.system import private_directories

router = APIRouter()
_DIRECTORY: Final = "exports"
_CHUNK: Final = 256 * 1024
_LEFTOVER_SECONDS: Final = 3600.0
"""age of a file that a killed server left behind"""
_MAX_CONCURRENT: Final = 2
_slots: Final = threading.BoundedSemaphore(_MAX_CONCURRENT)


@get(router, "/api/sessions/{ref}/export", model=None, errors=(404, 409), media="application/octet-stream")
def export(request: Request, served: Served, ref: Ref) -> Response:
    """Download a session as a bundle, which `relight import` reads. Secrets are removed. The session is not changed."""
    if not _slots.acquire(blocking=False):
        raise TooMany(f"{_MAX_CONCURRENT} exports are running already", hints=["retry in a moment"])
    try:
        info = served.rl.sessions.get(ref)
        directory = served.settings.directory / _DIRECTORY
        private_directories.make_trusted(directory, marked=True)
        _clear(directory)
        path = directory / f"{secrets.token_hex(16)}.relight"
        try:
            served.rl.history.export(ref, path)
            file = open(path, "rb")  # noqa: SIM115 closed by the response's iterator
        finally:
            path.unlink(missing_ok=True)
    finally:
        _slots.release()
    size = os.fstat(file.fileno()).st_size
    name = "".join(one for one in info.title if one.isascii() and (one.isalnum() or one in "._-")) or info.id[:8]
    headers = {"Content-Disposition": f'attachment; filename="{name}.relight"', "Content-Length": str(size)}
    return StreamingResponse(_chunks(file), media_type="application/octet-stream", headers=headers)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _clear(directory: Path) -> None:
    for path in directory.glob("*.relight"):
        if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
            path.unlink(missing_ok=True)
