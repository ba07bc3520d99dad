"""Requests that nobody means well: numbers that fit nowhere, digits that are none, words where a text was expected."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.server.conftest import fill
from tests.server.desk import HOST, Answer, Desk, listening

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


def test_a_cursor_with_a_number_that_no_store_has_is_refused_everywhere(some: Desk, client: TestClient) -> None:
    for number in (2**63, -(2**63) - 1, 10**30, -(10**30), -1):
        for path in PAGED:
            for made in (cursor(number), cursor(number, "x")):
                given = f"{path}{'&' if '?' in path else '?'}cursor={made}"
                assert Answer(client.get(given)).status == 400, given


def test_a_last_event_id_of_digits_that_are_no_number_is_refused(some: Desk) -> None:
    with listening(some) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        headers = some.headers() | {"Host": HOST, "Last-Event-ID": "\xb2"}  # one byte, which Python takes for a digit
        connection.request("GET", "/api/sessions/fix-login/events", headers=headers)
        assert connection.getresponse().status == 400
        connection.close()


async def _first(desk: Desk, last: str) -> list[bytes]:
    frames = desk.service.hub.everything(last)
    return [await anext(frames), await anext(frames)]


def test_the_general_stream_tells_who_has_a_strange_last_id_to_reload(desk: Desk) -> None:
    frames = asyncio.run(_first(desk, f"{desk.service.hub.run}-\xb2"))
    assert b"event: reload" in frames[1]


@pytest.mark.parametrize("result", [5, 1.5, True, 10**60, [1], {"a": 1}])
def test_a_result_that_is_no_text_is_refused_or_taken_and_never_a_fault(
    desk: Desk, client: TestClient, result: Any
) -> None:
    fill(desk.rl)
    answered = client.post("/api/sessions/fix-login/settle", json={"call": "nobody", "result": result})
    assert Answer(answered).status == 404
    (entry,) = client.get("/api/actions").json()["items"]
    assert entry["asked"]["result"].endswith("characters)")  # how long it was, not what


def test_a_made_up_method_leaves_nothing_in_memory(some: Desk, client: TestClient) -> None:
    for number in range(20):
        assert client.request(f"MADEUP{number}", "/healthz").status_code == 405
    exposed = client.get("/metrics").text
    assert "MADEUP" not in exposed and 'method="other"' in exposed


def test_whoever_has_no_token_is_told_so_on_every_route_one_after_the_other(desk: Desk) -> None:
    nobody = desk.client(None)
    routes = [(method, path) for path, verbs in desk.app.openapi()["paths"].items() for method in verbs]
    for method, path in routes:
        if path in ("/healthz", "/login"):
            continue
        answered = nobody.request(method, path, headers={"Host": HOST, "Content-Type": "application/json"})
        assert answered.status_code == 401, (method, path)
