"""Limits and variables over HTTP: the same as on the command line, in the words of a request."""

from __future__ import annotations

from pathlib import Path

from tests.cli.shell import eventually
from tests.server.desk import Answer, Desk


def test_a_start_takes_limits_and_variables_and_a_resume_needs_more(desk: Desk, tmp_path: Path) -> None:
    client = desk.client()
    shape = {"command": ["sleep", "30"], "directory": str(tmp_path), "name": "job", "env": {"MODE": "fast"}}
    refused = Answer(client.post("/api/sessions", json={**shape, "budget": 5}))
    assert refused.status == 400 and "budget" in refused.document["detail"], refused.document
    assert "--" not in str(refused.document["hints"])
    secret = Answer(client.post("/api/sessions", json={**shape, "env": {"API_TOKEN": "not-a-real-" + "value-4711"}}))
    assert secret.status == 400 and "looks like a secret" in secret.document["detail"]
    unset = Answer(client.post("/api/sessions", json={**shape, "secrets": ["NOWHERE_AT_ALL"]}))
    assert unset.status == 400 and "NOWHERE_AT_ALL" in unset.document["detail"]
    assert desk.rl.find("job") is None, "a refusal leaves nothing behind"
    started = client.post("/api/sessions", json={**shape, "time_limit": 1})
    assert started.status_code == 201, started.text
    assert started.json()["session"]["limits"]["time_limit"] == 1
    assert started.json()["session"]["env"] == {"MODE": "fast"}
    eventually(lambda: desk.rl.get("job").status == "halted", seconds=30, what="the time limit")
    more = Answer(client.post("/api/sessions/job/resume", json={}))
    assert more.status == 409 and "time limit reached" in more.document["detail"]
    again = client.post("/api/sessions/job/resume", json={"time_limit": 60})
    assert again.status_code == 201, again.text
    assert again.json()["session"]["limits"]["time_limit"] == 60
    desk.rl.stop("job")
    assert desk.rl.get("job").attempt == 2
