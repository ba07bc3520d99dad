"""Every route refuses who may not come, and a new route without a guard fails here: the matrix is made from the app."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.routing import BaseRoute
from starlette.testclient import TestClient

from relight.server.http.guard import OPEN
from relight.server.tokens import SCOPES
from relight.testing.clock import ManualClock
from tests.support.figures import Figure
from tests.support.server_harness import HOST, Answer, ServerHarness
from tests.unit.server.conftest import fill

MUTATING = {"POST", "PUT", "PATCH", "DELETE"}


class EntryPoint(NamedTuple):
    """One method of one path, as it is called in the matrix: about a session that is not there."""

    method: str
    path: str
    scope: str
    """what the document says that it needs; pages that read need `read`, those that change `operate`"""

    @property
    def streams(self) -> bool:
        return self.path.endswith("/events")


def entry_points(harness: ServerHarness) -> list[EntryPoint]:
    """All of them: what the router has, with the scope that the OpenAPI document declares."""
    documented = harness.app.openapi()["paths"]
    found = []
    for path, methods in routes(harness.app.routes):
        for method in sorted(methods - {"HEAD"}):
            operation = documented.get(path, {}).get(method.lower())
            scope = operation.get("x-scope", "") if operation is not None else ""
            plain = re.sub(r"\{[^}]*\}", "nobody", path)
            found.append(EntryPoint(method, plain, scope or ("operate" if method in MUTATING else "read")))
    return found


def routes(found: list[BaseRoute]) -> Iterator[tuple[str, set[str]]]:
    for route in found:
        inner = getattr(route, "original_router", None)
        path: str = getattr(route, "path", "")
        if inner is not None:
            yield from routes(inner.routes)
        elif getattr(route, "methods", None):
            yield path, set(route.methods)  # type: ignore[attr-defined]
        else:
            yield f"{path}/nobody", {"GET"}  # a mount: files


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerHarness, list[EntryPoint]]]:
    harness = ServerHarness(tmp_path_factory.mktemp("guard") / "p.db", failures_burst=10_000, rate_burst=10_000)
    fill(harness.rl)
    yield harness, entry_points(harness)
    harness.close()


def asked(client: TestClient, entry_point: EntryPoint, headers: dict[str, str]) -> Any:
    body = {"content": b"{}"} if entry_point.method in ("POST", "PUT", "PATCH") else {}
    kind = {"Content-Type": "application/json"} if body else {}
    return client.request(entry_point.method, entry_point.path, headers={**kind, **headers}, **body)  # type: ignore[arg-type]


@pytest.mark.guarantee("G22")
def test_every_route_refuses_who_may_not_come(matrix: tuple[ServerHarness, list[EntryPoint]], figure: Figure) -> None:
    harness, every = matrix
    closed = [entry_point for entry_point in every if entry_point.path not in OPEN]
    assert {entry_point.path for entry_point in every} - {entry_point.path for entry_point in closed} == OPEN
    client, refused = harness.client(None), 0
    admin = harness.headers("admin")
    for entry_point in closed:
        hostile: list[tuple[str, dict[str, str], int]] = [
            ("no token", {}, 401),
            ("wrong token", {"Authorization": "Bearer rl_wrong"}, 401),
            ("empty token", {"Authorization": "Bearer "}, 401),
            ("another scheme", {"Authorization": f"Basic {harness.tokens['admin']}"}, 401),
            ("a made-up cookie", {"Cookie": f"{harness.guard.cookie_name}=x"}, 401),
            ("foreign host", {**admin, "Host": "evil.example"}, 403),
            ("a name bound to this address", {**admin, "Host": "127.0.0.1.evil.example:7878"}, 403),
            ("a host that leads to an open path", {**admin, "Host": "127.0.0.1:80/healthz?x="}, 403),
            ("no host that is one", {**admin, "Host": "[127.0.0.1"}, 403),
        ]
        if entry_point.method in MUTATING or entry_point.streams:
            hostile += [
                ("foreign origin", {**admin, "Origin": "https://evil.example"}, 403),
                ("no origin to speak of", {**admin, "Origin": "null"}, 403),
                ("another port is another origin", {**admin, "Origin": "http://127.0.0.1:9999"}, 403),
                ("cross site", {**admin, "Sec-Fetch-Site": "cross-site"}, 403),
                ("same site is not same origin", {**admin, "Sec-Fetch-Site": "same-site"}, 403),
            ]
        for smaller in SCOPES[: SCOPES.index(entry_point.scope)]:
            hostile.append((f"scope {smaller}", harness.headers(smaller, Origin=f"http://{HOST}"), 403))
        for what, headers, status in hostile:
            answered = asked(client, entry_point, headers)
            assert answered.status_code == status, (entry_point, what, answered.status_code, answered.text[:200])
            assert "traceback" not in answered.text.lower()
            refused += 1
    figure("G22", f"{len(closed)} routes x who may not come: {refused} requests, {refused} refused")


def test_a_form_of_a_web_page_cannot_change_anything(matrix: tuple[ServerHarness, list[EntryPoint]]) -> None:
    harness, every = matrix
    client = harness.client()
    for entry_point in every:
        if entry_point.method != "POST" or not entry_point.path.startswith("/api/"):
            continue
        for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", ""):
            answered = client.post(entry_point.path, content=b"{}", headers={"Content-Type": kind})
            assert Answer(answered).code == "RL-6006", (entry_point, kind)
            assert answered.status_code == 415


def test_the_scope_that_a_route_names_is_enough(matrix: tuple[ServerHarness, list[EntryPoint]]) -> None:
    harness, every = matrix
    client = harness.client(None)
    for entry_point in every:
        if entry_point.path in OPEN or entry_point.path == "/api/events":
            continue
        answered = asked(client, entry_point, harness.headers(entry_point.scope, Origin=f"http://{HOST}"))
        assert answered.status_code not in (401, 403) and answered.status_code < 500, (entry_point, answered.text[:200])


def test_every_route_of_the_interface_says_which_scope_it_needs(matrix: tuple[ServerHarness, list[EntryPoint]]) -> None:
    harness, _ = matrix
    for path, operations in harness.app.openapi()["paths"].items():
        for method, operation in operations.items():
            if path in OPEN:
                assert operation["security"] == []
                continue
            assert operation["x-scope"] in SCOPES, (method, path)
            assert {"401", "403", "429"} <= operation["responses"].keys(), (method, path)
            assert method == "get" or operation["x-scope"] != "read", (method, path)


def test_no_way_of_writing_an_address_opens_a_closed_one(matrix: tuple[ServerHarness, list[EntryPoint]]) -> None:
    harness, _ = matrix
    client = harness.client(None)
    for path in (
        "/healthz%3F",
        "/healthz%23/api/sessions",
        "//healthz",
        "/healthz/../api/sessions",
        "/login%2F..%2Fapi",
    ):
        assert client.get(path).status_code == 401, path


def test_every_answer_carries_the_strict_headers(matrix: tuple[ServerHarness, list[EntryPoint]]) -> None:
    harness, _ = matrix
    client = harness.client()
    for path in ("/healthz", "/api/sessions", "/nothing/here", "/login?code=x", "/openapi.json"):
        answered = client.get(path)
        csp = answered.headers["content-security-policy"]
        assert csp.startswith("default-src 'none'") and "unsafe" not in csp and "frame-ancestors 'none'" in csp
        assert answered.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answered.headers
    preflight = client.options("/api/sessions", headers={"Origin": "https://evil.example"})
    assert preflight.status_code in (403, 405) and "access-control-allow-origin" not in preflight.headers


def test_a_launch_link_is_good_once_and_becomes_a_strict_cookie(harness: ServerHarness) -> None:
    client = harness.browser()
    code = harness.guard.tokens.new_code(60)
    first = client.get("/login", params={"code": code, "next": "/operations"})
    assert first.status_code == 303 and first.headers["location"] == "/operations"
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
    assert client.get("/api/sessions").status_code == 200  # the client has it now
    assert Answer(harness.client(None).get("/login", params={"code": code})).status == 401
    assert Answer(client.post("/api/sweep", json={})).code == "RL-6003"  # a browser says where it comes from
    assert client.post("/api/sweep", json={}, headers={"Origin": f"http://{harness.own_host}"}).status_code == 200


def test_a_login_counts_under_the_servers_own_name_alone(harness: ServerHarness) -> None:
    """S-H5: whatever is sent to every port of 127.0.0.1 opens nothing."""
    login = harness.guard.tokens.redeem_code(harness.guard.tokens.new_code(60), days=7)
    cookie = {"Cookie": f"{harness.guard.cookie_name}={login}"}
    client = harness.client(None)
    for host in ("127.0.0.1:7878", "localhost:7878", "[::1]:7878", "localhost"):
        for origin in (host, harness.own_host):
            headers = {**cookie, "Host": host, "Origin": f"http://{origin}"}
            assert client.get("/api/sessions", headers=headers).status_code == 401, host
            assert client.post("/api/sessions", json={"command": ["true"]}, headers=headers).status_code == 401
    own = {**cookie, "Host": harness.own_host}
    assert client.get("/api/sessions", headers=own).status_code == 200
    assert client.get("/api/sessions", headers={**cookie, "Host": f"x.{harness.own_host}"}).status_code == 403
    assert client.get("/api/sessions", headers={**harness.headers(), "Host": "127.0.0.1"}).status_code == 200


def test_only_a_valid_code_is_told_the_servers_own_name(harness: ServerHarness) -> None:
    label = harness.guard.own_name.partition(".")[0]
    client, code = harness.client(None), harness.guard.tokens.new_code(60)
    for answered in (
        client.get("/login", params={"code": "made-up"}),
        client.get("/", headers={"Accept": "text/html"}),
        client.get("/healthz"),
        client.get("/login"),
        harness.client("read").get("/api/store"),
        harness.client("read").get("/openapi.json"),
    ):
        assert label not in answered.text + str(answered.headers)
    led = client.get("/login", params={"code": code, "next": "/operations"})
    assert led.status_code == 303 and "set-cookie" not in led.headers
    assert led.headers["location"] == f"http://{harness.own_host}/login?code={code}&next=%2Foperations"
    assert harness.browser().get("/login", params={"code": code}).status_code == 303, "it was not used up"
    assert client.get("/login", params={"code": code}).status_code == 401
    assert len(label) >= 20 and harness.again(harness.store).guard.own_name == harness.guard.own_name


def test_a_name_of_its_own_or_tls_or_the_users_word_keeps_logins(tmp_path: Path) -> None:
    reported: list[tuple[dict[str, Any], str, bool]] = [
        ({"hosts": ("relight.example.com",)}, "relight.example.com", True),
        ({"secure": True}, "127.0.0.1", True),
        ({"shared_host": True}, "localhost:7878", True),
        ({"any_address": True}, "192.0.2.7:7878", True),
        ({"any_address": True}, "127.0.0.2:7878", False),
    ]
    for number, (settings, host, counts) in enumerate(reported):
        harness = ServerHarness(tmp_path / f"{number}.db", **settings)
        login = harness.guard.tokens.redeem_code(harness.guard.tokens.new_code(60), days=7)
        headers = {"Cookie": f"{harness.guard.cookie_name}={login}", "Host": host}
        assert (harness.client(None).get("/api/sessions", headers=headers).status_code == 200) is counts, settings
        harness.close()


def test_a_launch_link_ends_after_a_minute(tmp_path: Path) -> None:
    clock = ManualClock()
    harness = ServerHarness(tmp_path / "p.db", clock=clock)
    code = harness.guard.tokens.new_code(60)
    clock.advance(61)
    assert Answer(harness.client(None).get("/login", params={"code": code})).status == 401
    login = harness.guard.tokens.redeem_code(harness.guard.tokens.new_code(60), days=7)
    assert login is not None and harness.guard.tokens.cookie(login) is not None
    clock.advance(8 * 86_400)
    assert harness.guard.tokens.cookie(login) is None
    harness.close()


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil", "a", "/é"])
def test_a_login_never_leads_outside(harness: ServerHarness, target: str) -> None:
    code = harness.guard.tokens.new_code(60)
    answered = harness.browser().get("/login", params={"code": code, "next": target})
    assert answered.headers["location"] == "/"


def test_tokens_are_kept_hashed_and_for_the_user_alone(harness: ServerHarness) -> None:
    directory = harness.settings.directory
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    kept = b"".join(path.read_bytes() for path in directory.iterdir() if path.name != "token")
    for path in directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for value in harness.tokens.values():
        assert value.encode() not in kept
    own = (directory / "token").read_text().strip()
    assert len(own) > 40 and own.encode() not in kept
    headers = {"Authorization": f"Bearer {own}"}
    assert harness.client(None).get("/api/tokens", headers=headers).status_code == 200


def test_a_tokens_name_that_holds_a_secret_is_refused(harness: ServerHarness) -> None:
    """It would be stored redacted: the token could not be told from another, nor revoked by its name."""
    client = harness.client()
    before = client.get("/api/tokens").json()["items"]
    for name in ("ghp_" + "a1B2c3D4" * 4 + "x9Z8", "ghp_" + "b1B2c3D4" * 4 + "x9Z8"):
        answer = Answer(client.post("/api/tokens", json={"name": name}))
        assert answer.status == 400
        assert "holds a secret" in answer.document["detail"]
        assert name not in str(answer.document)
    assert client.get("/api/tokens").json()["items"] == before


def test_a_revoked_token_opens_nothing_any_more(harness: ServerHarness) -> None:
    client = harness.client()
    made = client.post("/api/tokens", json={"name": "ci", "scope": "operate"}).json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert harness.client(None).get("/api/sessions", headers=headers).status_code == 200
    listed = client.get("/api/tokens").json()["items"]
    assert [one["scope"] for one in listed if one["name"] == "ci"] == ["operate"]
    assert made["token"] not in str(listed)
    assert client.delete("/api/tokens/ci").status_code == 200
    assert harness.client(None).get("/api/sessions", headers=headers).status_code == 401
    assert Answer(client.delete("/api/tokens/ci")).status == 404


def test_who_listens_everywhere_is_addressed_by_number_and_by_no_foreign_name(tmp_path: Path) -> None:
    harness = ServerHarness(tmp_path / "p.db", any_address=True)
    client = harness.client()
    for host, status in (
        ("10.1.2.3:7878", 200),
        ("[fd00::1]:7878", 200),
        ("evil.example", 403),
        ("10.1.2.3.evil", 403),
    ):
        assert client.get("/api/sessions", headers={"Host": host}).status_code == status
    harness.close()


def test_too_many_requests_are_refused_and_come_through_again_later(tmp_path: Path) -> None:
    clock = ManualClock()
    harness = ServerHarness(
        tmp_path / "p.db", clock=clock, rate_per_second=1, rate_burst=5, failures_per_second=1, failures_burst=3
    )
    client = harness.client()
    assert [client.get("/api/sessions").status_code for _ in range(7)] == [200] * 5 + [429] * 2
    clock.advance(2)
    assert client.get("/api/sessions").status_code == 200
    nobody = harness.client(None)
    assert [nobody.get("/api/sessions").status_code for _ in range(5)] == [401] * 3 + [429] * 2
    assert Answer(nobody.get("/api/sessions")).document["hints"] is not None
    harness.close()
