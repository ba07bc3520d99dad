"""A reader of event streams, on bare sockets: many of them in one process, none of them clever."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple


class Heard(NamedTuple):
    """One event."""

    id: str
    event: str
    data: Any
    at: float


class Listener:
    """One client of a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.status = 0
        self.comments = 0

    @classmethod
    @asynccontextmanager
    async def open(
        cls, port: int, path: str, token: str, last: str | None = None, **more: str
    ) -> AsyncIterator[Listener]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        headers = {"Host": f"127.0.0.1:{port}", "Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = last
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**headers, **more}.items())
        try:
            writer.write(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
            await writer.drain()
            made = cls(reader, writer)
            made.status = int((await reader.readline()).split()[1])
            while (await reader.readline()).strip():
                continue
            yield made
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def heard(self) -> Heard | None:
        """The next event; None at the end."""
        fields: dict[str, str] = {}
        while True:
            raw = await self.reader.readline()
            if not raw:
                return None
            line = raw.decode().rstrip("\r\n")
            if line.startswith(":"):
                self.comments += 1
            elif not line and "data" in fields:
                return Heard(
                    fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"]), time.monotonic()
                )
            elif ": " in line:
                name, _, value = line.partition(": ")
                fields[name] = value

    async def take(self, count: int, seconds: float = 20.0) -> list[Heard]:
        """So many events, within a bound."""
        found: list[Heard] = []
        async with asyncio.timeout(seconds):
            while len(found) < count:
                one = await self.heard()
                if one is None:
                    break
                found.append(one)
        return found
