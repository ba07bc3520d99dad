"""A server as tests use it: the real application over a real store, with a token for every scope."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

import relight
from relight.ports.clock import Clock
from relight.server.app import create_app, make_guard
from relight.server.http.guard import Guard
from relight.server.http.server import HttpServer
from relight.server.metrics import Metrics
from relight.server.service import Service
from relight.server.settings import ServerSettings
from relight.server.timed_store import time_commits
from relight.server.tokens import SCOPES
from relight.stores.sqlite.store import SqliteStore
from relight.system.machine import SystemClock

HOST = "127.0.0.1:7878"


class ServerHarness:
    """One application, and clients for it."""

    def __init__(self, store: Path, *, clock: Clock | None = None, again: bool = False, **settings: Any) -> None:
        metrics = Metrics()
        self.store = store
        self.rl = relight.open(time_commits(SqliteStore(store, SystemClock()), metrics))
        self.settings = ServerSettings(directory=Path(f"{store}.run") / "server", **{"sweep": False, **settings})
        self.guard: Guard = make_guard(self.settings, clock)
        self.app: FastAPI = create_app(self.rl, guard=self.guard, settings=self.settings, clock=clock, metrics=metrics)
        self.tokens: dict[str, str] = {} if again else {scope: self.guard.tokens.add(scope, scope) for scope in SCOPES}

    @classmethod
    def again(cls, store: Path, **settings: Any) -> ServerHarness:
        """Another server over the same files, after the first has ended."""
        return cls(store, again=True, **settings)

    @property
    def service(self) -> Service:
        found = self.app.state.service
        assert isinstance(found, Service)
        return found

    def headers(self, scope: str = "admin", **more: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[scope]}", **more}

    def client(self, scope: str | None = "admin") -> TestClient:
        """In this process; without a scope, nobody's."""
        headers = self.headers(scope) if scope is not None and self.tokens else {}
        return TestClient(
            self.app, base_url=f"http://{HOST}", headers=headers, raise_server_exceptions=False, follow_redirects=False
        )

    @property
    def own_host(self) -> str:
        """Where a browser is logged in."""
        return f"{self.guard.own_name}:7878"

    def browser(self) -> TestClient:
        """Nobody yet, at the server's own name."""
        client = self.client(None)
        client.base_url = f"http://{self.own_host}"
        return client

    def close(self) -> None:
        self.service.starter.detach()  # as a server does that ends
        self.guard.tokens.state.close()
        self.rl.close()


class Answer:
    """A problem document, as a test looks at it."""

    def __init__(self, response: Any) -> None:
        self.status: int = response.status_code
        self.document: Mapping[str, Any] = response.json()
        assert response.headers["content-type"] == "application/problem+json", response.text
        assert self.document["status"] == self.status
        assert {"type", "title", "detail", "code", "evidence", "hints"} <= self.document.keys()

    @property
    def code(self) -> str:
        return str(self.document["code"])


@contextmanager
def listening(harness: ServerHarness) -> Iterator[int]:
    """The same application on a real port, on a thread of its own."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    server = HttpServer(harness.app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.started
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()
        listener.close()
