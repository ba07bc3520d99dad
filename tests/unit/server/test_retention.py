"""Retention over HTTP: a policy is set and seen, a server sweeps by it alone; what went is logged and answers 410."""

from __future__ import annotations

from pathlib import Path

from relight.server.jobs.housekeeping import Housekeeping
from relight.system.machine import SystemClock
from relight.testing.clock import ManualClock
from tests.support.server_harness import Answer, ServerHarness
from tests.unit.server.conftest import fill


def test_a_server_removes_nothing_until_somebody_sets_a_policy(tmp_path: Path) -> None:
    """W-A1."""
    harness = ServerHarness(tmp_path / "p.db", sweep=True)
    fill(harness.rl)
    housekeeping, client = Housekeeping(harness.service), harness.client()
    session = harness.rl.sessions.get("changelog").id
    housekeeping._sweep()
    assert client.get("/api/retention").json()["retention"] is None
    assert harness.rl.admin.last_sweep_us() is None and harness.rl.sessions.find("changelog") is not None
    assert client.post("/api/retention", json={"retention": "a week"}).status_code == 400
    assert harness.client("operate").post("/api/retention", json={"retention": "7d"}).status_code == 403
    set_ = client.post("/api/retention", json={"retention": "0d"}).json()
    assert (set_["retention"], set_["set_by"]) == ("0d", "admin over HTTP")
    assert harness.rl.sessions.find("changelog") is not None, "setting it removes nothing"
    housekeeping._sweep()
    assert harness.rl.sessions.find("changelog") is None and harness.rl.sessions.find("fix-login") is not None
    entries = [one for one in client.get("/api/actions").json()["items"] if one["verb"] == "sweep"]
    assert [(one["session"], one["name"], one["scope"]) for one in entries] == [(session, "changelog", "policy")]
    assert "retention policy" in entries[0]["why"] and entries[0]["who"].startswith("serve on")
    for ref in (session, "changelog", f"{session}@1"):
        gone = Answer(client.get(f"/api/sessions/{ref}"))
        assert (gone.status, gone.code) == (410, "RL-2001"), ref
    page = client.get(f"/sessions/{session}", headers={"Accept": "text/html"})
    assert page.status_code == 410 and "retention policy" in page.text
    harness.close()


def test_what_other_processes_removed_answers_410_and_policies_are_in_the_log(some: ServerHarness) -> None:
    client = some.client()
    asked, swept = some.rl.sessions.get("port-to-uv").id, some.rl.sessions.get("changelog").id
    some.rl.sessions.remove("port-to-uv")  # as `relight rm` does
    some.rl.admin.set_retention(0.0)
    assert some.rl.admin.sweep_if_due(by="worker w1") is not None
    assert [client.get(f"/api/sessions/{one}").status_code for one in (asked, swept)] == [410, 410]
    assert client.get(f"/api/checkpoints/{asked}@1").status_code == 410
    housekeeping = Housekeeping(some.service)
    housekeeping._audit_new_removals()
    housekeeping._audit_removals()
    entries = [(one["verb"], one["session"], one["who"]) for one in client.get("/api/actions").json()["items"]]
    assert entries == [("sweep", swept, "worker w1")], "once, and nothing of what a person removed by command"
    assert client.get("/api/sessions/never-was").status_code == 404
    with some.rl.session("again") as s:
        s.append({"role": "user", "content": "x"})
    assert client.get("/api/checkpoints/again@99").status_code == 404


def test_a_server_sweeps_once_a_day(tmp_path: Path) -> None:
    clock = ManualClock(now_us=SystemClock().now_us())
    harness = ServerHarness(tmp_path / "p.db", clock=clock, sweep=True)
    harness.rl.admin.set_retention(7.0)
    housekeeping = Housekeeping(harness.service)
    housekeeping._sweep()
    first = harness.rl.admin.last_sweep_us()
    housekeeping._sweep()
    assert harness.rl.admin.last_sweep_us() == first is not None
    harness.close()


def test_the_operations_page_says_the_policy_and_offers_to_change_it(some: ServerHarness) -> None:
    client = some.client()
    page = client.get("/operations").text
    assert "no policy: nothing is removed automatically" in page and "/operations/do/retention" in page
    asked = client.get("/operations/do/retention").text
    assert "/api/retention" in asked and "relight sweep --set 7d" in asked
    some.rl.admin.set_retention(14.0, by="ada")
    assert (
        "finished sessions are removed 14d after their end, once a day (set by ada)" in client.get("/operations").text
    )
