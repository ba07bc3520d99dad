"""The HTTP interface does what the command line does, says what it did, and answers nonsense with a problem."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import relight
from relight.history.documents import session_document
from tests.support.calls import call, send_mail
from tests.support.server_harness import Answer, ServerHarness

pytestmark = pytest.mark.usefixtures("some")

SESSION_KEYS = (
    "id name key agent provider model task labels metadata status reason failure resumed_from head seq attempt parent"
    " workspace runtime handle created_at updated_at usage attention doing last_step_at saved_at wake_at cost cost_rate"
    " cost_tree evidence worked_seconds limits spawned_by subagent attach env secrets queued_as"
)
"""as docs/reference has them; clients rely on each"""


def test_the_list_is_that_of_the_command_line(harness: ServerHarness, client: TestClient) -> None:
    listed = client.get("/api/sessions").json()
    assert [one["name"] for one in listed["items"]] == ["port-to-uv", "nightly-docs", "changelog", "fix-login"]
    assert " ".join(listed["items"][0]) == SESSION_KEYS
    described = harness.app.openapi()["components"]["schemas"]["SessionDocument"]
    assert " ".join(described["properties"]) == " ".join(described["required"]) == SESSION_KEYS
    shown = json.loads(json.dumps(session_document(harness.rl.sessions.get("fix-login")), default=str))
    assert client.get("/api/sessions/fix-login").json() == shown
    assert sum(listed["counts"].values()) == 4


FILTERS: list[tuple[dict[str, str], list[str]]] = [
    ({"agent": "claude"}, ["fix-login"]),
    ({"provider": "openai"}, ["changelog"]),
    ({"status": "failed"}, ["nightly-docs"]),
    ({"label": "team=web"}, ["fix-login"]),
    ({"q": "login"}, ["fix-login"]),
    ({"q": "LOGIN", "agent": "codex"}, []),
    ({"since": "2099-01-01T00:00:00Z"}, []),
    ({"since": "1h", "until": "2099-01-01", "status": "waiting,failed"}, ["nightly-docs", "fix-login"]),
    ({"until": "1h"}, []),
    ({"sort": "name"}, ["changelog", "fix-login", "nightly-docs", "port-to-uv"]),
    ({"sort": "-cost", "limit": "1"}, ["fix-login"]),
    ({"sort": "created", "archived": "false"}, ["fix-login", "changelog", "nightly-docs", "port-to-uv"]),
]


def test_a_filter_finds_what_it_names(client: TestClient) -> None:
    for asked, names in FILTERS:
        assert [one["name"] for one in client.get("/api/sessions", params=asked).json()["items"]] == names


def test_pages_by_cursor_hold_everything_once(harness: ServerHarness, client: TestClient) -> None:
    for number in range(7):
        with harness.rl.session(f"more-{number}"):
            pass
    names: list[str] = []
    cursor: str | None = None
    for _ in range(20):
        page = client.get("/api/sessions", params={"limit": 3} | ({"cursor": cursor} if cursor else {})).json()
        assert len(page["items"]) <= 3
        names += [one["name"] for one in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert len(names) == len(set(names)) == 11
    steps: list[int] = []
    cursor = None
    for _ in range(20):
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = client.get("/api/sessions/fix-login/steps", params=params).json()
        steps += [one["seq"] for one in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert steps == list(range(1, harness.rl.sessions.get("fix-login").seq + 1))


def test_a_page_has_a_bounded_size_and_a_cursor_of_ours(client: TestClient) -> None:
    for limit in (0, -1, 501, 1_000_000, "many", 10**40):
        assert Answer(client.get("/api/sessions", params={"limit": limit})).status == 400
    for cursor in ("x", "====", "W10", "WyJhIl0", "AAAA", "\u00e9", "a" * 400):
        assert Answer(client.get("/api/sessions", params={"cursor": cursor})).status == 400


HOSTILE = [
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "a%00b",
    "%2e%2e",
    "%2e%2e%2f",
    "x" * 300,
    "%ff%fe",
    "a%0d%0ab",
    "'%20OR%201=1",
    "@",
    "@1",
]


@pytest.mark.guarantee("G21")
def test_a_hostile_id_is_an_unknown_one(client: TestClient) -> None:
    for ref in HOSTILE:
        for path in ("", "/can-resume", "/events", "/checkpoints", "/tree", "/files"):
            answered = client.get(f"/api/sessions/{ref}{path}")
            assert answered.status_code in (400, 404), (ref, path, answered.text)
            assert Answer(answered).code.startswith("RL-")
        assert client.post(f"/api/sessions/{ref}/resume", json={}).status_code in (400, 404, 405)
        assert client.get(f"/api/checkpoints/{ref}").status_code in (400, 404)


def test_a_malformed_body_is_a_problem(client: TestClient) -> None:
    deep = b'{"call":"x","result":' + b"[" * 5000 + b"]" * 5000 + b"}"
    for body in (b"{", b"[]", b'"x"', b"\xff\xfe", b'{"text": 1}', b'{"other": 1}', b"", b"null", deep):
        kind = {"Content-Type": "application/json"}
        for verb in ("send", "settle", "rewind"):
            answered = client.post(f"/api/sessions/fix-login/{verb}", content=body, headers=kind)
            assert Answer(answered).status == 400, (body[:30], verb, answered.text)


@pytest.mark.guarantee("G27")
def test_a_body_over_the_bound_is_not_read(client: TestClient) -> None:
    answered = client.post("/api/sessions/fix-login/send", json={"text": "x" * 1_000_000})
    assert Answer(answered).code == "RL-6004" and answered.status_code == 413


def test_an_etag_spares_the_answer(client: TestClient) -> None:
    first = client.get("/api/sessions/changelog")
    again = client.get("/api/sessions/changelog", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304 and not again.content
    client.post("/api/sessions/changelog/archive", json={})
    assert client.get("/api/sessions/changelog", headers={"If-None-Match": first.headers["etag"]}).status_code == 200


def test_everything_one_can_look_at_is_there(harness: ServerHarness, client: TestClient) -> None:
    base = "/api/sessions/fix-login"
    assert [one["seq"] for one in client.get(f"{base}/checkpoints").json()["items"]] == [
        one.seq for one in harness.rl.history.checkpoints("fix-login")
    ]
    assert client.get(f"{base}/messages").json()["items"] == harness.rl.history.load("fix-login").messages
    assert [one["name"] for one in client.get(f"{base}/calls").json()["items"]] == ["send_mail"]
    plan = client.get(f"{base}/can-resume").json()
    assert plan["plan"] == harness.rl.runs.plan("fix-login").plan and plan["effects_since"] == [] and plan["ok"]
    old = client.get("/api/checkpoints/fix-login@2/can-resume").json()
    assert old["forks"] and [one["name"] for one in old["effects_since"]] == ["send_mail"]
    hits = client.get(f"{base}/search", params={"q": "LOCK test", "limit": 1}).json()
    assert hits["count"] == 1 and "expects the old path" in hits["items"][0]["text"]
    found = client.get("/api/search", params={"q": '"the old path"', "limit": 1}).json()
    assert found["complete"] and [one["ref"] for one in found["items"]] == [f"fix-login@{hits['items'][0]['seq']}"]
    assert client.get("/api/search", params={"q": "* ("}).status_code == 400
    assert client.get(f"{base}/files").json() == {"files": None}
    assert client.get(f"{base}/operations").json()["items"] == []
    head = client.get("/api/checkpoints/fix-login").json()
    assert head["seq"] == harness.rl.sessions.get("fix-login").head
    assert client.get("/api/checkpoints/fix-login@tests-red").json()["label"] == "tests-red"
    assert len(client.get("/api/checkpoints").json()["items"]) == 4
    assert client.get("/api/attention").json()["counts"] == {"waiting": 1, "failed": 1, "terminated": 1}
    stats = client.get("/api/stats").json()
    assert stats["failures"] == [{"day": stats["failures"][0]["day"], "failure": "exception", "count": 1}]
    assert client.get("/api/store").json()["durability"] == "power-loss"


def test_reading_changes_nothing(harness: ServerHarness, client: TestClient) -> None:
    from tests.support.shell import logical_dump

    before = logical_dump(harness.store)
    paths = [
        path for path, one in harness.app.openapi()["paths"].items() if "get" in one and not path.endswith("/events")
    ]
    for path in paths:
        asked = [one["name"] for one in harness.app.openapi()["paths"][path]["get"].get("parameters", [])]
        answered = client.get(
            path.replace("{ref}", "fix-login"),
            params={"q": "x", "code": "x"} if "q" in asked or "code" in asked else {},
        )
        assert answered.status_code < 500, (path, answered.text)
    assert logical_dump(harness.store) == before


def test_plans_name_open_calls_and_a_rewind_lets_them_run_again_under_a_new_key(
    harness: ServerHarness, client: TestClient
) -> None:
    with harness.rl.session("mail") as s:
        s.append({"role": "user", "content": "go"})
        s.append(call("c9", "send_mail", '{"to": "bob"}'))
        first = s.run_tool(s.pending_calls()[0], [send_mail])
        s.complete("done")
    at = f"/api/sessions/mail@{first.asked_seq}"
    plan = client.get(f"{at}/can-resume").json()
    for calls in (plan["calls"], plan["rewind_calls"], plan["fork_calls"]):
        assert [(one["id"], one["action"], one["carried_from"]) for one in calls] == [
            ("c9", "carry", f"{s.id}@{first.result_seq}")
        ]
    dialog = client.get(f"/checkpoints/{s.id}@{first.asked_seq}/do/rewind", headers={"accept": "text/html"}).text
    ticked = re.search(
        r'<fieldset data-when="conversation both" hidden>.*?name="again" value="([^"]*)" data-list>', dialog
    )
    assert ticked is not None and ticked[1] == first.key, "it is offered, and not needed"
    assert f"it gets the result that was recorded at @{first.result_seq}" in dialog
    refused = client.post(f"{at}/rewind", json={"scope": "conversation", "again": ["c1"]})
    assert refused.status_code == 404
    assert harness.rl.sessions.get("mail").status == "completed"
    assert client.post(f"{at}/rewind", json={"scope": "conversation", "again": ["c9"]}).status_code == 200
    (open_call,) = client.get("/api/sessions/mail/can-resume").json()["calls"]
    assert (open_call["action"], open_call["key"]) == ("run", f"{first.key}/2")
    assert client.post("/api/sessions/mail/undo", json={}).status_code == 200
    shown = client.get("/api/sessions/mail").json()
    assert (shown["status"], shown["reason"]) == ("completed", None)


def test_a_fork_a_rewind_and_its_undo(harness: ServerHarness, client: TestClient) -> None:
    made = client.post("/api/sessions/fix-login@2/fork", json={"name": "other", "prompt": "again"})
    assert made.status_code == 201 and made.json()["parent"].endswith("@2")
    family = client.get("/api/sessions/other/tree").json()["items"]
    assert [(one["session"]["name"], one["depth"]) for one in family] == [("fix-login", 0), ("other", 1)]
    asked: Any = {}
    assert Answer(client.post("/api/sessions/fix-login@3/rewind", json=asked)).code == "RL-1004"
    head = harness.rl.sessions.get("fix-login").head
    back = client.post("/api/sessions/fix-login@3/rewind", json={"scope": "conversation"})
    assert back.status_code == 200 and harness.rl.sessions.get("fix-login").head == 3
    undone = client.post("/api/sessions/fix-login/undo", json={})
    assert undone.json()["head"] == head == harness.rl.sessions.get("fix-login").head
    assert Answer(client.delete("/api/sessions/fix-login")).code == "RL-4007"
    assert client.delete("/api/sessions/fix-login", params={"with_forks": True}).json()["names"] == [
        "fix-login",
        "other",
    ]
    assert Answer(client.get("/api/sessions/fix-login")).status == 410


def test_an_answer_a_settlement_a_label_and_an_archive(harness: ServerHarness, client: TestClient) -> None:
    sent = client.post("/api/sessions/fix-login/send", json={"text": "yes"}).json()
    assert sent["checkpoint"]["kind"] == "mark" and harness.rl.sessions.get("fix-login").status == "queued"
    with pytest.raises(SystemExit), harness.rl.session("doubt") as s:
        s.append(call("c9", "send_mail"))
        raise_in_tool(s)
    asked = {"call": "c9", "result": "it was sent"}
    assert client.post("/api/sessions/doubt/settle", json=asked).status_code == 200
    assert harness.rl.history.load("doubt").calls[0].result == "it was sent"
    labelled = client.post("/api/checkpoints/changelog/label", json={"label": "shipped"})
    assert labelled.status_code == 200 and client.get("/api/checkpoints/changelog@shipped").status_code == 200
    forgotten = client.delete("/api/checkpoints/changelog@shipped").json()
    assert forgotten["labels"] == 1 and Answer(client.get("/api/checkpoints/changelog@shipped")).status == 404
    assert harness.rl.history.verify("changelog").ok  # the step stays
    assert client.post("/api/sessions/changelog/archive", json={}).status_code == 200
    assert Answer(client.post("/api/sessions/changelog/resume", json={"prompt": "x"})).code == "RL-4003"


def raise_in_tool(s: relight.Session) -> None:
    @relight.tool
    def send_mail() -> None:
        raise SystemExit

    s.run_tool(s.pending_calls()[0], [send_mail])


def test_a_stuck_lease_is_cleared_by_force_and_written_down(harness: ServerHarness, client: TestClient) -> None:
    with pytest.raises(relight.errors.LeaseLost), harness.rl.session("held") as s:
        s.append({"role": "user", "content": "x"})
        leases = client.get("/api/leases").json()["items"]
        assert [one["name"] for one in leases] == ["held"] and leases[0]["owner_gone"] is False
        assert Answer(harness.client("operate").post("/api/sessions/held/clear", json={})).status == 403
        cleared = client.post("/api/sessions/held/clear", json={"why": "the host is gone", "forget_native": True})
        assert cleared.status_code == 200
        s.append({"role": "user", "content": "y"})
    entry = client.get("/api/actions").json()["items"][0]
    assert entry["verb"] == "clear" and entry["who"] == "admin" and entry["why"] == "the host is gone"
    assert entry["before"]["status"] == "working" and entry["before"]["evidence"]
    assert entry["after"]["status"] == "terminated" and entry["outcome"] == "done"
    assert entry["undo"] == "relight resume held"


def test_a_session_is_put_in_line_for_a_worker(harness: ServerHarness, client: TestClient, tmp_path: Path) -> None:
    body = {"command": [sys.executable, "x.py"], "queue": "nightly", "name": "queued", "directory": str(tmp_path)}
    status, made = (answered := client.post("/api/sessions", json=body)).status_code, answered.json()
    assert status == 201 and made["pid"] is None and made["session"]["status"] == "queued", made
    assert [one["name"] for one in client.get("/api/queues").json()["items"]] == ["nightly"]
    assert client.post("/api/sessions/queued/stop", json={}).status_code == 200
    assert harness.rl.sessions.get("queued").status == "terminated"
    again = client.post("/api/sessions/queued/resume", json={"queue": "nightly"})
    assert again.status_code == 201 and again.json()["session"]["status"] == "queued"
    assert client.get("/api/workers").json()["items"] == []
    for wrong, why in (
        ({}, "no command given"),
        ({"agent": "nobody", "prompt": "x"}, "'nobody'"),
        ({"agent": "claude"}, "claude is started with a prompt"),
        ({"agent": "claude", "prompt": "-x"}, "must not begin with a dash"),
    ):
        refused = Answer(client.post("/api/sessions", json=wrong))
        assert refused.status == 400 and why in refused.document["detail"], refused.document


def test_files_are_previewed_restored_and_put_forward_again(
    harness: ServerHarness, client: TestClient, tmp_path: Path
) -> None:
    (work := tmp_path / "work").mkdir()
    (work / "a.txt").write_text("one\n")
    with harness.rl.session("files", workspace=work) as s:
        s.append({"role": "user", "content": "x"})
        (work / "a.txt").write_text("two\n")
        s.append({"role": "user", "content": "y"})
    old, base = 2, "/api/sessions/files"
    (differing,) = client.get(f"{base}@{old}/diff").json()["items"]
    assert (differing["path"], differing["what"], differing["lines_added"]) == ("a.txt", "changed", 1)
    shown = client.post(f"{base}@{old}/restore", json={"dry_run": True}).json()
    assert shown["plans"]["main"]["written"] == ["a.txt"] and (work / "a.txt").read_text() == "two\n"
    done = client.post(f"{base}@{old}/restore", json={})
    assert done.status_code == 200 and (work / "a.txt").read_text() == "one\n"
    assert len(client.get(f"{base}/operations").json()["items"]) == 1
    assert client.post(f"{base}/undo", json={}).status_code == 200 and (work / "a.txt").read_text() == "two\n"
    (work / "a.txt").write_text("mine\n")
    refused = Answer(client.post(f"{base}@{old}/rewind", json={"scope": "files"}))
    assert refused.code == "RL-4103" and (work / "a.txt").read_text() == "mine\n"
    assert client.get(f"{base}/files", params={"disk": True}).json()["files"]["differ"][0]["later"]


def test_a_sweep_is_shown_before_it_is_done(harness: ServerHarness, client: TestClient) -> None:
    shown = client.get("/api/sweep", params={"days": 0}).json()
    assert shown["names"] == ["changelog"] and shown["dry_run"] and harness.rl.sessions.find("changelog") is not None
    done = client.post("/api/sweep", json={"days": 0}).json()
    assert done["names"] == ["changelog"] and harness.rl.sessions.find("changelog") is None


def test_a_damaged_session_is_a_problem_and_no_fault(harness: ServerHarness, client: TestClient) -> None:
    import apsw

    harness.rl.close()
    with apsw.Connection(str(harness.store)) as damaged:
        damaged.execute("UPDATE bodies SET data = zeroblob(length(data)) WHERE id = (SELECT max(id) FROM bodies)")
    answered = client.get("/api/sessions/port-to-uv/messages")
    assert 400 <= answered.status_code < 504 and Answer(answered).code.startswith("RL-")


def test_a_name_in_any_script_works_in_addresses_answers_and_pages(harness: ServerHarness, client: TestClient) -> None:
    for name in ("修复-登录", "عاجل", "می‌خواهم"):
        with harness.rl.session(name) as s:
            s.append({"role": "user", "content": "hi"})
        assert client.get(f"/api/sessions/{name}").json()["name"] == name
        assert client.post(f"/api/checkpoints/{name}@1/label", json={"label": "перед этим"}).status_code == 200
        assert client.get(f"/api/checkpoints/{name}@перед этим").json()["seq"] == 1
        forked = client.post(f"/api/sessions/{name}/fork", json={"name": f"{name}-2"})
        assert forked.status_code == 201 and forked.json()["name"] == f"{name}-2", forked.text
        with harness.client() as looking:
            page = looking.get(f"/sessions/{name}")
            assert page.status_code == 200 and name in page.text
