"""The server: threads, sockets and the order of things.

A request is read, written to the log, and only then answered: whoever waits on the log knows that the agent is
waiting on us. Closing breaks every connection and ends every thread, also those that hang on purpose.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import select
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tests.support.fake_model import chat, gemini, messages, responses
from tests.support.fake_model.answer import Answer, error_of, frame
from tests.support.fake_model.conversation import read, turns
from tests.support.fake_model.fields import unknown_fields
from tests.support.fake_model.playing import Player
from tests.support.fake_model.record import Log, Request, shown
from tests.support.fake_model.script import Mode, Script, Turn, parse
from tests.support.fake_model.strict import problems
from tests.support.fake_model.tools import make, offered

_WIRES: Final[dict[str, ModuleType]] = {
    "messages": messages,
    "responses": responses,
    "chat": chat,
    "gemini": gemini,
}
_ENDS: Final = (
    ("/messages/count_tokens", "count_tokens"),
    ("/messages", "messages"),
    ("/responses", "responses"),
    ("/chat/completions", "chat"),
    (":generateContent", "gemini"),
    (":streamGenerateContent", "gemini"),
)
_STREAM_STATUS: Final = {"overloaded_error": 529, "rate_limit_error": 429}
_POLL_SECONDS: Final = 0.1
_JOIN_SECONDS: Final = 5.0


class FakeModel:
    """A scripted model on 127.0.0.1; a context manager, or `start` and `close`."""

    def __init__(
        self,
        script: Any = (),
        *,
        mode: Mode = "turns",
        strict: bool = False,
        exact: bool = False,
        sides: bool = True,
        log: Path | str | None = None,
        port: int = 0,
    ) -> None:
        """`exact`: also a field that a provider does not know, or that is null, is answered with 400.
        `sides`: requests without tools are side requests; turn it off to test an agent that has no tools.
        """
        self._player = Player(script if isinstance(script, Script) else parse(script, mode))
        self.strict = strict or exact
        self.exact = exact
        self.sides = sides
        self.log = Log(Path(log) if log is not None else None)
        self.stopped = threading.Event()
        self.answers: dict[int, Answer] = {}
        """by the number of the request: what was said, with its tokens, whether or not it was heard"""
        self._numbers = count(1)
        self._numbering = threading.Lock()
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The base URL; OpenAI clients want `url + "/v1"`."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> FakeModel:
        """Begin to serve."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop, break what is open, and wait for every thread."""
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._server.break_connections()
        self._thread.join(_JOIN_SECONDS)

    def __enter__(self) -> FakeModel:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def requests(self, *, sides: bool = False) -> list[Request]:
        """The model requests so far; with `sides`, everything that was asked."""
        return self.log.requests(sides=sides)

    def wait_for(self, count: int, seconds: float = 30.0) -> list[Request]:
        """Wait until so many model requests have come."""
        return self.log.wait(count, seconds)

    def take(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> tuple[Request, Turn | None]:
        """Number a request, choose its turn, write it down."""
        with self._numbering:
            number = next(self._numbers)
        body = _body(raw)
        api = next((name for end, name in _ENDS if path.partition("?")[0].endswith(end)), "other")
        reported = {"number": number, "method": method, "path": path, "headers": shown(headers), "body": body}
        if method != "POST" or api not in _WIRES or not isinstance(body, dict):
            request, turn = Request(api=api, side=True, **reported), None
        elif self.sides and not offered(body):
            request, turn = Request(api=api, side=True, **reported), Turn(text=_neutral(body))
        elif found := self._problems(api, body):
            request, turn = Request(api=api, problem=found[0], **reported), Turn(status=400)
        else:
            slot, turn = self._player.next(read(api, body), offered(body))
            request = Request(api=api, slot=slot, **reported)
        self.log.add(request)
        return request, turn

    def _problems(self, api: str, body: dict[str, Any]) -> list[str]:
        found = problems(api, body) if self.strict else []
        return found + (unknown_fields(api, body) if self.exact else [])


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], model: FakeModel) -> None:
        self.model = model
        self._open: dict[threading.Thread, socket.socket] = {}
        self._opening = threading.Lock()
        super().__init__(address, _Handler)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self._opening:
            self._open[threading.current_thread()] = request
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._opening:
                del self._open[threading.current_thread()]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left in the middle is what this server is for; everything else is told as usual."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)

    def break_connections(self) -> None:
        with self._opening:
            held = dict(self._open)
        for connection in held.values():
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the client was faster
        for thread in held:
            thread.join(_JOIN_SECONDS)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """The log is ours, not stderr."""

    def do_HEAD(self) -> None:
        self._take(b"")
        self._send(200, b"", {})

    def do_GET(self) -> None:
        self._take(b"")
        path = self.path.partition("?")[0]
        if path.endswith("/models"):
            self._json(200, {"object": "list", "data": [], "has_more": False, "models": []})
        else:
            self._json(404, responses.failure(404, f"no {path} here"))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        request, turn = self._take(raw)
        if request.api == "count_tokens":
            self._json(200, {"input_tokens": len(raw) // 4})
        elif turn is None:
            self._json(404, responses.failure(404, f"no {request.path} here"))
        else:
            self._play(request, turn, len(raw))

    def _take(self, raw: bytes) -> tuple[Request, Turn | None]:
        return self.server.model.take(self.command, self.path, dict(self.headers.items()), raw)

    # ---------------------------------------------------------------- playing a turn

    def _play(self, request: Request, turn: Turn, size: int) -> None:
        stopped = self.server.model.stopped
        while turn.until and not os.path.exists(turn.until) and not stopped.wait(0.02):
            pass
        if stopped.wait(turn.delay) or self._broke(turn, "before"):
            return
        wire = _WIRES[request.api]
        if turn.status != 200:
            text = request.problem or f"scripted {turn.status}"
            self._json(turn.status, wire.failure(turn.status, text) if turn.body is None else turn.body, turn.headers)
            return
        answer = self.server.model.answers[request.number] = _answer(request, turn, size)
        if request.body.get("stream") or ":streamGenerateContent" in request.path:
            self._stream([frame(piece) for piece in wire.stream(answer)], turn)
        elif turn.error is not None:
            self._json(_STREAM_STATUS.get(str(turn.error.get("type")), 500), {"type": "error", "error": error_of(turn)})
        else:
            body = json.dumps(wire.whole(answer)).encode()
            self._begin(200, {"content-type": "application/json", "content-length": str(len(body)), **turn.headers})
            self._write([body[: len(body) // 2], body[len(body) // 2 :]], turn)

    def _stream(self, frames: list[bytes], turn: Turn) -> None:
        head = {"content-type": "text/event-stream", "cache-control": "no-cache", "transfer-encoding": "chunked"}
        self._begin(200, {**head, **turn.headers})
        if self._write([b"%x\r\n%s\r\n" % (len(data), data) for data in frames], turn):
            self.wfile.write(b"0\r\n\r\n")

    def _write(self, pieces: list[bytes], turn: Turn) -> bool:
        """Send the pieces; False if the script ends the answer in the middle."""
        for location, piece in enumerate(pieces):
            if location == (len(pieces) + 1) // 2 and self._broke(turn, "mid"):
                return False
            if location and self.server.model.stopped.wait(turn.pace):
                return False
            self.wfile.write(piece)
            self.wfile.flush()
        return True

    def _broke(self, turn: Turn, where: str) -> bool:
        if where not in {turn.hang, turn.reset, turn.cut}:
            return False
        self.close_connection = True
        if turn.hang == where:
            self._hang(turn.hang_seconds)
        if turn.reset == where:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()  # with no linger: a reset, not an end
            self.wfile = io.BytesIO()
        return True

    def _hang(self, seconds: float) -> None:
        """Say nothing until the client leaves, the server stops, or the time is over."""
        for _ in range(int(seconds / _POLL_SECONDS) + 1):
            readable, _, _ = select.select([self.connection], [], [], 0)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                return
            if self.server.model.stopped.wait(_POLL_SECONDS):
                return

    # ---------------------------------------------------------------- plain answers

    def _json(self, status: int, body: Any, headers: Any = None) -> None:
        is_text = isinstance(body, str)
        data = body.encode() if is_text else json.dumps(body).encode()
        self._send(status, data, {"content-type": "text/html" if is_text else "application/json", **(headers or {})})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self._begin(status, {**headers, "content-length": str(len(data))})
        self.wfile.write(data)

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.send_header("request-id", f"req_fake_{self.server.model.port}")
        self.end_headers()


def _body(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw.decode("utf-8", "replace")


def _answer(request: Request, turn: Turn, size: int) -> Answer:
    tools = offered(request.body)
    # ids are new in every request, also after a restart of the server in the midst of a session
    stem = f"{'toolu' if request.api == 'messages' else 'call'}_{turns(request.items):03d}_{request.number:04d}"
    calls = tuple(make(call, tools, f"{stem}_{location}") for location, call in enumerate(turn.calls))
    used = turn.usage.get("input_tokens", size // 4)
    named = re.search(r"/models/([^/:]+):", request.path)
    model = str(request.body.get("model") or (named[1] if named else "fake-model"))
    return Answer(turn=turn, number=request.number, model=model, calls=calls, input_tokens=used)


def _neutral(body: dict[str, Any]) -> str:
    """A small answer to a side request: text, or the object its schema asks for."""
    for path in (("output_config", "format"), ("output_format",), ("text", "format"), ("response_format",)):
        form: Any = body
        for name in path:
            form = form.get(name) if isinstance(form, dict) else None
        schema = form.get("schema") or form.get("json_schema") if isinstance(form, dict) else None
        if isinstance(schema, dict):
            wanted = (schema.get("schema") or schema).get("required", [])
            return json.dumps(dict.fromkeys(wanted, "task"))
    return "task"
