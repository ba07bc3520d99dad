"""Compression of responses: zstd or gzip, as the client accepts, for texts of more than a few packets.

Only answers to reading requests are compressed, whole: an event stream is sent frame by frame as it is, and an answer
to a change may hold a new token. An attacker who can make a victim's browser ask and see the size of the answer could
guess a secret beside text of his own (BREACH): a request that a page of another site caused is answered uncompressed.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from typing import Final

import zstandard
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES: Final = 1000
_IN_THREAD_BYTES: Final = 256 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS
_LEVEL: Final = 5
_TEXTS: Final = ("text/", "application/json", "application/problem+json", "image/svg+xml")
_STREAM: Final = "text/event-stream"


def _gzip(body: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush()


def _zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(body)


CODINGS: Final[dict[str, Callable[[bytes], bytes]]] = {"zstd": _zstd, "gzip": _gzip}
"""by name, the preferred one first"""


class CompressionMiddleware:
    """Compresses the responses that come in one piece; each has the length and the ETag of what is sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        coding = accepted(Headers(scope=scope))
        start: Message | None = None

        async def send_compressed(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            if start is not None:
                begun, start = start, None
                if begun["status"] == 304:  # as the answer that it stands for
                    MutableHeaders(scope=begun).add_vary_header("Accept-Encoding")
                elif _is_text(begun):
                    body = message.get("body", b"")
                    MutableHeaders(scope=begun).add_vary_header("Accept-Encoding")
                    if coding is not None and len(body) >= MIN_BYTES and not message.get("more_body"):
                        message = {**message, "body": await _packed(begun, body, coding)}
                await send(begun)
            await send(message)

        await self._app(scope, receive, send_compressed)


def accepted(headers: Headers) -> str | None:
    """The coding for a response to these request headers; None: as it is."""
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return None
    asked = {}
    for one in headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = one.partition(";")
        asked[name.strip()] = weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return next((name for name in CODINGS if asked.get(name)), None)


def without_coding(tag: str) -> str:
    """An ETag as it was before the compression named its coding in it."""
    for name in CODINGS:
        tag = tag.replace(f'-{name}"', '"')
    return tag


def _is_text(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    kind = headers.get("content-type", "")
    return kind.startswith(_TEXTS) and not kind.startswith(_STREAM) and "content-encoding" not in headers


async def _packed(start: Message, body: bytes, coding: str) -> bytes:
    pack = CODINGS[coding]
    # Other requests wait while the event loop packs; a few hundred kB take some milliseconds.
    packed = pack(body) if len(body) < _IN_THREAD_BYTES else await asyncio.to_thread(pack, body)
    headers = MutableHeaders(scope=start)
    headers["Content-Encoding"] = coding
    headers["Content-Length"] = str(len(packed))
    # Two codings of one document are different bytes, which a strong ETag must tell apart.
    if (tag := headers.get("etag", "")).endswith('"'):
        headers["ETag"] = f'{tag[:-1]}-{coding}"'
    return packed
