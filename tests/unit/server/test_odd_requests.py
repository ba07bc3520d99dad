"""Requests that nobody means well: numbers that fit nowhere, digits that are none, words where a text was expected."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from relight.server.api.events import EventStream
from tests.support.server_harness import HOST, Answer, ServerHarness, listening
from tests.unit.server.conftest import fill

PAGED = (
    "/api/sessions",
    "/api/checkpoints",
    "/api/actions",
    "/api/sessions/fix-login/checkpoints",
    "/api/sessions/fix-login/steps",
    "/api/sessions/fix-login/messages",
    "/api/sessions/fix-login/calls",
    "/api/sessions/fix-login/search?q=a",
)


def cursor(*parts: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def test_a_cursor_with_a_number_that_no_store_has_is_refused_everywhere(
    some: ServerHarness, client: TestClient
) -> None:
    for number in (2**63, -(2**63) - 1, 10**30, -(10**30), -1):
        for path in PAGED:
            for made in (cursor(number), cursor(number, "x")):
                given = f"{path}{'&' if '?' in path else '?'}cursor={made}"
                assert Answer(client.get(given)).status == 400, given


def test_a_last_event_id_of_digits_that_are_no_number_is_refused(some: ServerHarness) -> None:
    with listening(some) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = some.headers() | {"Host": HOST, "Last-Event-ID": "\xb2"}  # one byte, which Python takes for a digit
        connection.request("GET", "/api/sessions/fix-login/events", headers=headers)
        assert connection.getresponse().status == 400
        connection.close()


async def _first(harness: ServerHarness, last: str) -> list[bytes]:
    frames = harness.service.hub.everything(last)
    return [await anext(frames), await anext(frames)]


def test_the_general_stream_tells_who_has_a_strange_last_id_to_reload(harness: ServerHarness) -> None:
    frames = asyncio.run(_first(harness, f"{harness.service.hub.run}-\xb2"))
    assert b"event: reload" in frames[1]


@pytest.mark.parametrize("result", [5, 1.5, True, 10**60, [1], {"a": 1}])
def test_a_result_that_is_no_text_is_refused_or_taken_and_never_a_fault(
    harness: ServerHarness, client: TestClient, result: Any
) -> None:
    fill(harness.rl)
    answered = client.post("/api/sessions/fix-login/settle", json={"call": "nobody", "result": result})
    assert Answer(answered).status == 404
    (entry,) = client.get("/api/actions").json()["items"]
    assert entry["asked"]["result"].endswith("characters)")  # how long it was, not what


def test_a_made_up_method_leaves_nothing_in_memory(some: ServerHarness, client: TestClient) -> None:
    for number in range(20):
        assert client.request(f"MADEUP{number}", "/healthz").status_code == 405
    exposed = client.get("/metrics").text
    assert "MADEUP" not in exposed and 'method="other"' in exposed


def test_whoever_has_no_token_is_told_so_on_every_route_one_after_the_other(harness: ServerHarness) -> None:
    nobody = harness.client(None)
    routes = [(method, path) for path, verbs in harness.app.openapi()["paths"].items() for method in verbs]
    for method, path in routes:
        if path in ("/healthz", "/login"):
            continue
        answered = nobody.request(method, path, headers={"Host": HOST, "Content-Type": "application/json"})
        assert answered.status_code == 401, (method, path)


NO_HTTP = {
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "a byte that is none of a path": b"GET /\xe9 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a header without end": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 100_000,
    "a length that is none": b"POST /api/sweep HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST /api/sweep HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a chunk without size": b"POST /api/sweep HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a socket for the web": b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    "nothing, for too long": b"",
    "half a request, for too long": b"GET /healthz HT",
}


def answered(port: int, sent: bytes) -> tuple[int, dict[str, Any]]:
    """The status and the document of the first answer to some bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.sendall(sent)
        answer = http.client.HTTPResponse(peer)
        answer.begin()
        assert answer.headers["content-type"] == "application/problem+json", (sent, answer.read())
        assert answer.headers["x-content-type-options"] == "nosniff"
        document = json.loads(answer.read())
    assert document["status"] == answer.status and document["code"].startswith("RL-6")
    return answer.status, document


def test_what_never_becomes_a_request_is_refused_as_a_problem_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    harness = ServerHarness(tmp_path / "p.db", head_seconds=0.3, failures_burst=4, failures_per_second=1e-6)
    with listening(harness) as port:
        for what, sent in NO_HTTP.items():
            status, _ = answered(port, sent)
            assert status == (408 if "too long" in what else 401 if "web" in what else 400), what
        # the answer has begun, and then it is no HTTP any more: that ends, without a word and without a fault
        begun = b"GET /api/sweep HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
            peer.sendall(begun)
            assert peer.recv(4096).startswith(b"HTTP/1.1 401")
            peer.sendall(b"zz\r\n")
            while peer.recv(4096):
                continue
        # nobody comes from elsewhere by saying so: attempts are counted together, wherever they say that they come from
        claim = "GET /api/sweep HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: 198.51.100.%d\r\n\r\n"
        assert 429 in [answered(port, (claim % number).encode())[0] for number in range(4)]
    assert not [one for one in caplog.records if one.exc_info or one.levelname == "ERROR"]
    harness.close()


def test_a_request_that_breaks_off_is_not_acted_on(some: ServerHarness) -> None:
    """A resume without the prompt that was on its way would be another resume."""
    sent: list[Any] = []

    async def ask(*arriving: dict[str, Any]) -> None:
        coming = iter((*arriving, {"type": "http.disconnect"}))
        headers = {**some.headers(), "Host": HOST, "Content-Type": "application/json", "Content-Length": "40"}
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/sessions/changelog/fork",
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
        }

        async def receive() -> Any:
            return next(coming)

        async def send(message: Any) -> None:
            sent.append(message)

        await some.app(scope, receive, send)

    before = list(some.rl.sessions.list())
    for parts in ((), ({"type": "http.request", "body": b"{}", "more_body": True},)):
        asyncio.run(ask(*parts))
    assert list(some.rl.sessions.list()) == before and sent == []
    assert some.service.state.rows("SELECT * FROM actions") == []


READ_TWO_WAYS = (
    b'{"name": "a", "name": "b"}',
    b'{"why": {"deep": NaN}}',
    b'{"name": -Infinity}',
    b"[" * 200_000,
    '{"name": "a"}'.encode("utf-16"),
    b'{"name": "\xff"}',
    b'{"name": 1' + b"0" * 5000 + b"}",
    b"{} {}",
)


def test_a_body_that_two_readers_could_read_differently_is_refused(harness: ServerHarness) -> None:
    client, headers = harness.client(), {"Content-Type": "application/json"}
    for body in READ_TWO_WAYS:
        refused = Answer(client.post("/api/sessions/nobody/fork", content=body, headers=headers))
        assert refused.status == 400 and refused.document["detail"].startswith("invalid JSON"), body[:30]


def test_what_is_said_twice_or_only_looks_right_is_refused(harness: ServerHarness) -> None:
    client, path = harness.client(), "/api/sessions/nobody/fork"
    for name in ("If-Match", "Idempotency-Key", "Last-Event-ID"):
        twice = [("Content-Type", "application/json"), (name, "a"), (name, "b")]
        refused = Answer(client.post(path, content=b"{}", headers=twice))
        assert refused.status == 400 and refused.document["detail"] == f"duplicate header: {name.lower()}"
    long = {"Content-Type": "application/json", "Content-Length": "2", "Transfer-Encoding": "chunked"}
    assert Answer(client.post(path, content=b"{}", headers=long)).status == 400
    for verb, body in (("undo", {"redo": "yes"}), ("resume", {"retries": True}), ("resume", {"now": 1})):
        assert Answer(client.post(f"/api/sessions/nobody/{verb}", json=body)).status == 400, body


def test_a_name_that_a_token_cannot_have_is_told_as_one(harness: ServerHarness) -> None:
    assert "token name" in Answer(harness.client().post("/api/tokens", json={"name": "a/b"})).document["detail"]


def test_a_fault_inside_a_stream_is_not_kept_quiet(harness: ServerHarness) -> None:
    async def frames() -> AsyncIterator[bytes]:
        yield b"retry: 2000\n\n"
        raise RuntimeError("a fault of ours")

    async def listen() -> None:
        request = Request({"type": "http", "path": "/api/events", "headers": []})
        stream = EventStream(harness.service, request, frames())
        silence = asyncio.Event()

        async def receive() -> Any:
            await silence.wait()

        async def send(message: Any) -> None:
            return None

        await stream({}, receive, send)

    with pytest.raises(RuntimeError, match="a fault of ours"):
        asyncio.run(listen())


ZEROES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("", {"command": ["true"], "prompt": "a\0b"}),
    ("", {"command": ["sh", "-c", "a\0b"]}),
    ("", {"command": ["sh", "-c", "a\0b"], "queue": "night"}),
    ("/fix-login/fork", {"prompt": "a\0b"}),
    ("/fix-login/send", {"text": "a\0b"}),
    ("/fix-login/resume", {"prompt": "a\0b", "queue": "night"}),
)


def test_a_zero_byte_that_no_process_could_be_given_is_refused_before_anything_is_made(
    some: ServerHarness, tmp_path: Path
) -> None:
    client, before = some.client(), list(some.rl.sessions.list())
    for path, body in ZEROES:
        where = {"directory": str(tmp_path)} if not path else {}
        assert Answer(client.post(f"/api/sessions{path}", json=body | where)).status == 400, (path, body)
        assert list(some.rl.sessions.list()) == before


def test_a_store_that_is_broken_is_unhealthy_and_strangers_learn_no_more(harness: ServerHarness) -> None:
    connection = apsw.Connection(str(harness.store))
    connection.execute("DROP TABLE status_counts")
    connection.close()
    answered = harness.client(None).get("/healthz")
    sick = Answer(answered)
    assert (sick.status, sick.code) == (503, "RL-5002") and str(harness.store.parent) not in answered.text
    assert Answer(harness.client().get("/api/sessions")).status == 409


def test_a_method_that_a_path_does_not_have_is_told_all_that_it_has(client: TestClient) -> None:
    assert client.put("/api/sessions", json={}).headers["allow"] == "GET, HEAD, POST"
    assert client.put("/api/sessions/x", json={}).headers["allow"] == "DELETE, GET, HEAD, PATCH"
    assert client.post("/healthz", json={}).headers["allow"] == "GET, HEAD"
