"""Pause over HTTP: it is set, seen, audited, refuses a start in HTTP's words, and is ended."""

from __future__ import annotations

from pathlib import Path

from tests.support.server_harness import Answer, ServerHarness
from tests.unit.server.conftest import fill


def test_a_pause_is_set_seen_and_ended_and_refuses_starts_meanwhile(tmp_path: Path) -> None:
    harness = ServerHarness(tmp_path / "p.db")
    fill(harness.rl)
    client = harness.client("operate")
    assert client.get("/api/pause").json() == {"pause": None, "ended": [], "running": []}
    assert harness.client("read").post("/api/pause", json={}).status_code == 403
    made = client.post("/api/pause", json={"why": "the bill"}).json()
    assert made["pause"]["by"] == "operate over HTTP" and made["pause"]["reason"] == "the bill"
    assert client.get("/api/pause").json()["pause"] == made["pause"]
    refused = Answer(harness.client().post("/api/sessions", json={"command": ["true"], "directory": str(tmp_path)}))
    told = str(refused.document)
    assert refused.status == 409 and "paused since" in told and "POST /api/unpause" in told
    verbs = [one["verb"] for one in harness.client().get("/api/actions").json()["items"]]
    assert "pause" in verbs
    assert client.post("/api/unpause", json={}).json()["pause"] is None
    assert harness.rl.admin.paused() is None
    harness.close()


def test_every_page_has_one_button_that_pauses_and_says_who_did(tmp_path: Path) -> None:
    harness = ServerHarness(tmp_path / "p.db")
    fill(harness.rl)
    client = harness.client("operate")
    pages = ("/", "/operations", "/costs", f"/sessions/{harness.rl.sessions.get('fix-login').id}")
    html = {"Accept": "text/html"}
    for page in pages:
        assert 'href="/do/pause"' in client.get(page, headers=html).text, page
    assert "ended within two seconds" in client.get("/do/pause", headers=html).text
    harness.rl.admin.pause(by="ada <b>", reason="the bill")
    for page in pages:
        shown = client.get(page, headers=html).text
        assert "Everything is paused" in shown and "ada &lt;b&gt;: the bill" in shown, page
    assert "/api/unpause" in client.get("/do/pause", headers=html).text
    harness.close()
