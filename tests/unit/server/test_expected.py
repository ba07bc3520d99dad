"""What clients of any HTTP interface expect: nothing is ignored, nothing lost between two readers, little is sent."""

from __future__ import annotations

import gzip
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from starlette.testclient import TestClient

from bench.server import addresses
from relight.server.http.compression import MIN_BYTES
from relight.values.status import STATUSES
from tests.support.server_harness import Answer, ServerHarness, listening

pytestmark = pytest.mark.usefixtures("some")

LOGIN = "/api/sessions/fix-login"


def test_no_query_parameter_is_ignored(client: TestClient) -> None:
    for path, wrong in (
        ("/api/sessions?stauts=failed", "'stauts'"),
        ("/api/sessions?status=failed&status=halted", "status"),
        ("/api/sessions?status=failing", "status"),
        ("/api/sessions?status=failed,", "status"),
        ("/api/sessions?sort=price", "sort"),
        ("/api/sessions?since=yesterday", "'yesterday'"),
        ("/api/sessions?since=99999999w&until=9999-99-99", "'99999999w'"),
        (f"{LOGIN}?fields=id", "'fields'"),
        (f"{LOGIN}/checkpoints?limit=1&limit=2", "limit"),
        ("/api/store?verbose", "'verbose'"),
    ):
        answered = Answer(client.get(path))
        assert answered.status == 400 and wrong in answered.document["detail"], (path, answered.document)
    known = Answer(client.get("/api/sessions?stauts=failed")).document["hints"][0]
    assert all(name in known for name in ("status", "sort", "since", "until", "q", "cursor")), known
    assert Answer(client.post(f"{LOGIN}/stop?force=1", json={})).status == 400
    assert client.get("/api/sessions?label=team=web&label=team=web").status_code == 200, "a label may be repeated"


def test_every_address_that_the_benchmark_measures_is_answered(client: TestClient) -> None:
    for path, _ in addresses("fix-login", "fix-login").values():
        assert client.get(path).status_code == 200, path


def test_every_order_has_every_session_once_over_its_pages(harness: ServerHarness, client: TestClient) -> None:
    for number in range(5):
        with harness.rl.session(f"Same-{number}") as s:
            s.append({"role": "assistant", "content": "x"}, {"cost": number % 2})
    whole = {one.name for one in harness.rl.sessions.list()}
    for sort in ("created", "updated", "name", "cost", "steps"):
        orders = []
        for asked in (sort, f"-{sort}"):
            names: list[str] = []
            page: dict[str, Any] = {"next": ""}
            while page["next"] is not None:
                params: dict[str, Any] = {"sort": asked, "limit": 2}
                params |= {"cursor": page["next"]} if page["next"] else {}
                page = client.get("/api/sessions", params=params).json()
                names += [one["name"] for one in page["items"]]
                assert page["total"] == len(whole) and page["exact"]
            assert len(names) == len(whole) and set(names) == whole, (asked, names)
            orders.append(names)
        assert orders[0] == orders[1][::-1]
    other = client.get("/api/sessions?sort=cost&limit=1").json()["next"]
    assert Answer(client.get("/api/sessions", params={"sort": "name", "cursor": other})).status == 400


def test_a_change_with_the_etag_of_what_was_read_is_refused_once_that_has_moved(
    harness: ServerHarness, client: TestClient
) -> None:
    tag = client.get(LOGIN).headers["etag"]
    packed = client.get(LOGIN, headers={"Accept-Encoding": "gzip"}).headers["etag"]
    assert client.get(LOGIN, headers={"If-None-Match": packed}).status_code == 304
    made = client.post(f"{LOGIN}@2/fork", json={"name": "two"}, headers={"If-Match": tag})
    assert made.status_code == 201, "the ETag of the session is good for its checkpoints"
    assert client.post(f"{LOGIN}/send", json={"text": "yes"}, headers={"If-Match": packed}).status_code == 200
    seq = harness.rl.sessions.get("fix-login").seq
    for stale in (tag, packed, f"W/{tag}", client.get("/api/sessions").headers["etag"]):
        for verb, body in (("send", {"text": "no"}), ("archive", {}), ("rewind", {"scope": "conversation"})):
            refused = Answer(client.post(f"{LOGIN}@2/{verb}", json=body, headers={"If-Match": stale}))
            assert (refused.status, refused.code) == (412, "RL-6009"), refused.document
            assert refused.document["plan"]["plan"] and "GET" in refused.document["hints"][0]
    assert Answer(client.request("DELETE", LOGIN, headers={"If-Match": tag})).status == 412
    assert harness.rl.sessions.get("fix-login").seq == seq, "nothing was done"
    plan = Answer(client.post(f"{LOGIN}/send", json={"text": "no"}, headers={"If-Match": "0" * 16}))
    assert plan.status == 409, "the hash of a plan is told as before"


def test_of_several_etags_the_one_of_the_present_state_counts(client: TestClient) -> None:
    for form in ('"stale", {}', 'W/{} , "stale"', "{},{}"):
        tag = client.get(LOGIN).headers["etag"]
        changed = client.patch(LOGIN, json={"labels": {"n": form}}, headers={"If-Match": form.format(tag, tag)})
        assert changed.status_code == 200, (form, changed.text)
        refused = client.patch(LOGIN, json={"labels": {"n": "no"}}, headers={"If-Match": form.format(tag, tag)})
        assert Answer(refused).status == 412, form
    assert client.get(LOGIN).json()["labels"]["n"] == "{},{}"


def test_who_names_a_checkpoint_neither_removes_nor_archives_its_session(client: TestClient) -> None:
    before = client.get(LOGIN).json()
    for method, path, body in (
        ("DELETE", f"{LOGIN}@2", None),
        ("DELETE", f"{LOGIN}@2?dry_run=true", None),
        ("DELETE", f"{LOGIN}@tests-red?with_forks=true", None),
        ("POST", f"{LOGIN}@2/archive", {}),
        ("POST", f"{LOGIN}@2/send", {"text": "yes"}),
        ("PATCH", f"{LOGIN}@2", {"name": "other"}),
    ):
        refused = Answer(client.request(method, path, json=body))
        assert refused.status == 400 and "is a checkpoint" in refused.document["detail"], (path, refused.document)
    several = client.post("/api/remove", json={"sessions": ["fix-login@2"]}).json()
    assert several["done"] == 0 and "is a checkpoint" in several["items"][0]["detail"]
    after = client.get(LOGIN).json()
    assert {**after, "evidence": []} == {**before, "evidence": []}


@pytest.mark.parametrize("what", ["checkpoints", "steps", "search"])
def test_a_list_of_a_checkpoint_ends_with_it_and_says_so(client: TestClient, what: str) -> None:
    for ref, last in (
        ("fix-login@3", 3),
        ("fix-login@tests-red", client.get("/api/checkpoints/fix-login@tests-red").json()["seq"]),
    ):
        found, cursor, pages = [], None, 0
        while pages == 0 or cursor is not None:
            given = {"limit": "2"} | ({"cursor": cursor} if cursor else {}) | ({"q": "e"} if what == "search" else {})
            page = client.get(f"/api/sessions/{ref}/{what}", params=given).json()
            assert page["items"], f"page {pages} of {ref} is empty"
            found += [one["seq"] for one in page["items"]]
            cursor, pages = page["next"], pages + 1
        assert page["total"] == len(found) and page["exact"] and max(found) <= last
        if what != "search":
            assert found == list(range(1, last + 1))
    refused = Answer(client.get("/api/sessions/fix-login@3/events"))
    assert refused.status == 400 and "GET /api/sessions/fix-login/events" in refused.document["hints"]


def test_no_condition_is_ignored_by_a_change_that_is_not_of_one_session(
    harness: ServerHarness, client: TestClient
) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    others = [
        (method.upper(), path, operation)
        for path, known in paths.items()
        for method, operation in known.items()
        if method in ("post", "delete") and "If-Match" not in str(operation.get("parameters"))
    ]
    before = harness.service.state.rows("SELECT count(*) FROM actions WHERE outcome NOT LIKE 'refused%'")
    for method, path, operation in others:
        assert "412" not in operation["responses"] and "{ref}" not in path, path
        content = operation.get("requestBody", {}).get("content", {"application/json": {"example": {}}})
        body = content["application/json"]["example"] if method == "POST" else None
        asked = path.replace("{name}", "0" * 32)
        refused = Answer(client.request(method, asked, json=body, headers={"If-Match": '"of-something-else"'}))
        assert refused.status == 400 and "If-Match" in refused.document["detail"], (path, refused.document)
    assert len(others) >= 14
    assert harness.service.state.rows("SELECT count(*) FROM actions WHERE outcome NOT LIKE 'refused%'") == before
    assert client.post("/api/unpause", json={}, headers={"If-Match": "*"}).status_code == 200


def test_a_removed_session_is_told_as_removed_wherever_it_is_named(client: TestClient) -> None:
    removed = client.get("/api/sessions/changelog").json()["id"]
    assert client.delete("/api/sessions/changelog").status_code == 200
    for ref in ("changelog", removed):
        for answered in (
            client.get(f"/api/sessions/{ref}/steps"),
            client.get("/api/search", params={"q": "log", "session": ref}),
            client.get("/api/checkpoints", params={"session": ref}),
            client.post("/api/agent/runs/resume", json={"checkpointId": f"{ref}@1", "prompt": "go on"}),
        ):
            gone = Answer(answered)
            assert (gone.status, gone.code) == (410, "RL-2001"), gone.document
            assert "was removed" in gone.document["detail"] and gone.document["evidence"], gone.document
        several = client.post("/api/archive", json={"sessions": [ref, "nobody"]}).json()["items"]
        assert "was removed" in several[0]["detail"] and "no session matches" in several[1]["detail"], several
    assert Answer(client.get("/api/search", params={"q": "log", "session": "nobody"})).status == 404


def test_a_session_is_renamed_and_labelled_without_a_step(harness: ServerHarness, client: TestClient) -> None:
    before = client.get(LOGIN)
    asked = {"name": "Anmeldung", "labels": {"team": None, "sprint": "4"}}
    changed = client.patch(LOGIN, json=asked, headers={"If-Match": before.headers["etag"]})
    assert changed.status_code == 200, changed.text
    assert (changed.json()["name"], changed.json()["labels"]) == ("Anmeldung", {"sprint": "4"})
    assert changed.json()["seq"] == before.json()["seq"]
    path = "/api/sessions/Anmeldung"
    # Whoever decided on the former labels is told, though no step was written since.
    for stale in (before.headers["etag"], '"of-another-server"'):
        refused = Answer(client.patch(path, json={"labels": {"sprint": "5"}}, headers={"If-Match": stale}))
        assert (refused.status, refused.code) == (412, "RL-6009"), refused.document
    now = client.get("/api/sessions/Anmeldung")
    assert now.json()["labels"] == {"sprint": "4"}
    again = client.patch("/api/sessions/Anmeldung", json=asked, headers={"If-Match": now.headers["etag"]})
    assert again.status_code == 200, again.text
    assert [one["name"] for one in client.get("/api/sessions?label=sprint=4").json()["items"]] == ["Anmeldung"]
    assert client.get("/api/sessions?label=team=web").json()["items"] == []
    assert client.patch(path, json={}).json()["name"] == "Anmeldung"
    for wrong, status in (({"name": "changelog"}, 409), ({"name": "a/b"}, 400), ({"status": "failed"}, 400)):
        assert Answer(client.patch(path, json=wrong)).status == status, wrong
    harness.rl.runs.send("Anmeldung", "yes")
    assert Answer(client.patch(path, json={}, headers={"If-Match": before.headers["etag"]})).status == 412
    with harness.client("read") as reader:
        assert Answer(reader.patch(path, json={"name": "x"})).status == 403


def test_what_was_created_is_found_at_its_location(client: TestClient) -> None:
    for key in ("k1", "k1"):  # the second is a replay
        made = client.post(f"{LOGIN}/fork", json={}, headers={"Idempotency-Key": key})
        assert made.status_code == 201
        found = client.get(made.headers["location"])
        assert found.status_code == 200 and found.json()["id"] == made.json()["id"]
    assert client.post("/api/tokens", json={"name": "ci"}).headers["location"] == "/api/tokens/ci"


def test_head_is_get_without_a_body(harness: ServerHarness, client: TestClient) -> None:
    paths = [LOGIN, "/api/sessions", "/", "/assets/relight.css", "/healthz", "/metrics", "/openapi.json", "/api/none"]
    for path in paths:
        asked, headed = client.get(path), client.head(path)
        assert headed.status_code == asked.status_code and headed.content == b"", path
        for name in ("content-type", "etag", "content-length"):
            if path not in ("/", "/metrics", "/healthz") or name == "content-type":
                assert headed.headers.get(name) == asked.headers.get(name), (path, name)
    code = harness.guard.tokens.new_code(60)
    assert client.head(f"/login?code={code}").status_code == 405, "a preview of a launch link does not use it up"
    assert harness.guard.tokens.has_code(code)


def test_head_of_a_stream_ends(harness: ServerHarness) -> None:
    with listening(harness) as port, socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
        token = harness.tokens["read"]
        request = f"HEAD /api/events HTTP/1.1\r\nHost: 127.0.0.1:7878\r\nAuthorization: Bearer {token}\r\n\r\n"
        for _ in range(2):  # the connection is usable afterwards
            raw.sendall(request.encode())
            answered = b""
            while b"\r\n\r\n" not in answered:
                answered += raw.recv(4096)
            assert answered.startswith(b"HTTP/1.1 200") and answered.endswith(b"\r\n\r\n"), answered
            assert b"text/event-stream" in answered


def test_texts_are_compressed_as_the_client_accepts(client: TestClient) -> None:
    unpacked: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.decompress,
        "zstd": zstandard.ZstdDecompressor().decompress,
    }
    for path in ("/", "/api/sessions", "/openapi.json", "/assets/relight.css", "/metrics"):
        plain = client.get(path, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers and "Accept-Encoding" in plain.headers["vary"]
        for coding, unpack in unpacked.items():
            with client.stream("GET", path, headers={"Accept-Encoding": f"br, {coding};q=0.5"}) as packed:
                raw = b"".join(packed.iter_raw())
            assert packed.headers["content-encoding"] == coding and int(packed.headers["content-length"]) == len(raw)
            text = unpack(raw)
            assert len(text) >= MIN_BYTES and len(raw) * 2 < len(text), path
            if path not in ("/metrics", "/"):
                assert text == plain.content
                assert packed.headers["etag"] != plain.headers["etag"]
                again = client.get(path, headers={"If-None-Match": packed.headers["etag"]})
                assert again.status_code == 304 and again.content == b""
    for refused in ({"Accept-Encoding": "gzip;q=0"}, {"Accept-Encoding": "gzip", "Sec-Fetch-Site": "cross-site"}):
        assert "content-encoding" not in client.get("/api/sessions", headers=refused).headers
    made = client.post(f"{LOGIN}/fork", json={}, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in made.headers, "an answer to a change may hold a secret"


def test_an_answer_that_has_not_changed_has_the_headers_of_the_one_it_stands_for(client: TestClient) -> None:
    for path in ("/api/sessions", "/openapi.json", LOGIN, "/assets/live.js"):
        for coding in ("gzip", "zstd", "identity"):
            first = client.get(path, headers={"Accept-Encoding": coding})
            tag = first.headers["etag"]
            for given in (tag, f'"other", W/{tag}'):
                again = client.get(path, headers={"Accept-Encoding": coding, "If-None-Match": given})
                assert (again.status_code, again.content) == (304, b""), (path, coding, given)
                for name in ("etag", "vary", "cache-control"):
                    assert again.headers[name] == first.headers[name], (path, coding, name)


def test_an_asset_is_kept_for_ever_under_its_digest_only(client: TestClient) -> None:
    (address,) = re.findall(r'href="(/assets/relight\.css\?v=\w+)"', client.get("/").text)
    assert "immutable" in client.get(address).headers["cache-control"]
    for other in ("/assets/relight.css", "/assets/relight.css?v=old"):
        assert client.get(other).headers["cache-control"] == "private, no-cache"
        assert client.get(other, headers={"If-None-Match": client.get(other).headers["etag"]}).status_code == 304


def test_lists_have_one_envelope_and_operations_their_names(harness: ServerHarness, client: TestClient) -> None:
    document = harness.app.openapi()
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(names) == len(set(names)) and all(re.fullmatch("[a-z]+(_[a-z]+)*", name) for name in names)
    kept = {"list_sessions", "get_session", "start_session", "remove_session", "resume", "fork", "rewind", "stop"}
    assert kept | {"send", "approve", "deny", "settle", "list_checkpoints", "search_all", "all_events"} <= set(names)
    lists = 0
    for path, one in document["paths"].items():
        if "get" in one and "{ref}" not in path and not path.endswith("events") and path.startswith("/api/"):
            answered = client.get(path, params={"q": "login"} if path == "/api/search" else {}).json()
            if "items" in answered:
                lists += 1
                assert {"items", "next", "total", "exact"} <= answered.keys(), path
                assert answered["total"] >= len(answered["items"])
    assert lists >= 10
    assert document["servers"][0]["url"] == "/"
    assert document["components"]["securitySchemes"]["cookie"]["name"] == harness.guard.cookie_name


def test_a_problem_names_its_request_and_speaks_http(client: TestClient) -> None:
    for method, path, body in (
        ("GET", "/api/sessions/nobody", None),
        ("POST", f"{LOGIN}/rewind", {}),
        ("POST", f"{LOGIN}/settle", {"call": "c1"}),
        ("POST", f"{LOGIN}/clear", {}),
        ("POST", f"{LOGIN}/restore", {}),
        ("POST", "/api/sessions/changelog/resume", {}),
        ("POST", "/api/sessions/port-to-uv/approve", {}),
        ("DELETE", "/api/sessions/nobody", None),
    ):
        problem = Answer(client.request(method, path, json=body) if body is not None else client.request(method, path))
        said = [problem.document["detail"], *problem.document["hints"], *problem.document["evidence"]]
        assert problem.document["instance"] == path
        command = (
            r"(?<!\w)--[a-z]|\brelight (list|show|resume|rewind|fork|settle|clear|send|stop|approve|deny|undo|rm)\b"
        )
        assert not any(re.search(command, text) for text in said), (path, said)


def test_an_order_leaves_out_the_same_sessions_whether_few_or_most_are_asked_for(harness: ServerHarness) -> None:
    for n in range(6):
        with harness.rl.session(f"ordered-{n}") as s:
            s.append({"role": "assistant", "content": "x"}, usage={"cost": float(n)})
            s.complete(n)
    rest = [one for one in STATUSES if one != "archived"]
    for archived in range(7):
        names = [info.name for info in harness.rl.sessions.list(sort="-cost", status=rest, search="ordered-", limit=3)]
        assert names == [f"ordered-{n}" for n in range(5, archived - 1, -1)][:3]
        if archived < 6:
            harness.rl.sessions.archive(f"ordered-{archived}")
