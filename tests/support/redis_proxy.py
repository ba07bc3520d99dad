"""A small loopback proxy before a Redis server that a test tells where to cut.

It knows just enough to see where a request that writes begins: one that names EVALSHA.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Literal

Cut = Literal["before", "within", "after", "late"]
"""The next write is dropped unsent, sent in part, done without an answer, or held back until `deliver`."""


class Proxy:
    """Listens on a port of its own; every connection is passed on to the socket of the server."""

    def __init__(self, server: Path) -> None:
        self._server = str(server)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._cut: Cut | None = None
        self._held: tuple[socket.socket, bytes] | None = None
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def cut(self, where: Cut) -> None:
        """At the next request that writes, once."""
        self._cut = where

    @property
    def is_cut(self) -> bool:
        """Has it happened?"""
        return self._cut is None

    def deliver(self) -> bytes:
        """Send what was held back; the server's answer, which nobody else will hear."""
        assert self._held is not None
        upstream, request = self._held
        upstream.sendall(request)
        upstream.settimeout(10)
        answer = upstream.recv(65536)
        upstream.close()
        return answer

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        upstream = socket.socket(socket.AF_UNIX)
        upstream.connect(self._server)
        held = False
        with client, contextlib.suppress(OSError):
            while True:
                request = client.recv(1 << 20)
                if not request:
                    break
                if self._cut is not None and b"EVALSHA" in request:
                    held = self._act(self._cut, upstream, request)
                    self._cut = None
                    break
                upstream.sendall(request)
                self._answer(upstream, client)
        if not held:
            upstream.close()

    def _answer(self, upstream: socket.socket, client: socket.socket) -> None:
        """Pass on one answer or several, until the server is quiet and the client speaks again."""
        answer = upstream.recv(1 << 20)
        while answer:
            client.sendall(answer)
            upstream.settimeout(0.002)
            try:
                answer = upstream.recv(1 << 20)
            except TimeoutError:
                break
            finally:
                upstream.settimeout(None)

    def _act(self, cut: Cut, upstream: socket.socket, request: bytes) -> bool:
        if cut == "within":
            upstream.sendall(request[: len(request) // 2])
        if cut == "after":
            upstream.sendall(request)
            upstream.recv(1 << 20)
        if cut == "late":
            self._held = upstream, request
            return True
        return False
