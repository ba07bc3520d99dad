"""Limits and variables over HTTP: the same as on the command line, in the words of a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from relight.errors import LimitReached
from relight.values.policy import RunPolicy
from tests.support.server_harness import Answer, ServerHarness
from tests.support.shell import eventually


def test_a_start_takes_limits_and_variables_and_a_resume_needs_more(harness: ServerHarness, tmp_path: Path) -> None:
    client = harness.client()
    shape = {"command": ["sleep", "30"], "directory": str(tmp_path), "name": "job", "env": {"MODE": "fast"}}
    refused = Answer(client.post("/api/sessions", json={**shape, "budget": 5}))
    assert refused.status == 400 and "budget" in refused.document["detail"], refused.document
    assert "--" not in str(refused.document["hints"])
    secret = Answer(client.post("/api/sessions", json={**shape, "env": {"API_TOKEN": "not-a-real-" + "value-4711"}}))
    assert secret.status == 400 and "looks like a secret" in secret.document["detail"]
    unset = Answer(client.post("/api/sessions", json={**shape, "secrets": ["NOWHERE_AT_ALL"]}))
    assert unset.status == 400 and "NOWHERE_AT_ALL" in unset.document["detail"]
    assert harness.rl.sessions.find("job") is None, "a refusal leaves nothing behind"
    started = client.post("/api/sessions", json={**shape, "time_limit": 1})
    assert started.status_code == 201, started.text
    assert started.json()["session"]["limits"]["time_limit"] == 1
    assert started.json()["session"]["env"] == {"MODE": "fast"}
    eventually(lambda: harness.rl.sessions.get("job").status == "halted", seconds=30, what="the time limit")
    more = Answer(client.post("/api/sessions/job/resume", json={}))
    assert more.status == 409 and "time limit reached" in more.document["detail"]
    again = client.post("/api/sessions/job/resume", json={"time_limit": 60})
    assert again.status_code == 201, again.text
    assert again.json()["session"]["limits"]["time_limit"] == 60
    harness.rl.runs.stop("job")
    assert harness.rl.sessions.get("job").attempt == 2


def test_a_budget_for_a_model_without_a_price_is_refused_in_the_words_of_a_request(
    harness: ServerHarness, tmp_path: Path
) -> None:
    client = harness.client()
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    command = [str(program), "--model", "nobodys-1", "-p", "hi"]
    shape = {"command": command, "directory": str(tmp_path), "name": "job", "retries": 0}
    for where in ({}, {"queue": "default"}):
        refused = Answer(client.post("/api/sessions", json={**shape, **where, "budget": 5}))
        assert refused.status == 400 and "no price is known" in refused.document["detail"], refused.document
        assert any('"budget_tokens"' in hint for hint in refused.document["hints"])
    assert harness.rl.sessions.find("job") is None
    assert client.post("/api/sessions", json={**shape, "time_limit": 50}).status_code == 201
    eventually(lambda: harness.rl.sessions.get("job").status == "failed", seconds=30, what="its end")
    before = harness.rl.sessions.get("job")
    for body in ({"budget": 5}, {"budget": 5, "queue": "default"}):
        refused = Answer(client.post("/api/sessions/job/resume", json=body))
        assert refused.status == 400 and "no price is known" in refused.document["detail"], refused.document
        assert "--" not in str(refused.document["hints"])
        assert any('"budget_tokens"' in hint for hint in refused.document["hints"])
    assert harness.rl.sessions.get("job") == before


def test_a_plan_says_that_a_limit_is_reached_and_the_page_asks_for_a_higher_one(harness: ServerHarness) -> None:
    harness.rl.queues.submit(["true"], name="job", policy=RunPolicy(library=True, budget=2.0))
    harness.rl.runs.stop("job")
    with harness.rl.session("job") as s, pytest.raises(LimitReached):
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        s.append({"role": "assistant", "tool_calls": [call]}, usage={"cost": 2.0})
    client = harness.client()
    plan = client.get("/api/sessions/job/can-resume").json()
    assert not plan["ok"]
    assert [reason["text"] for reason in plan["reasons"]] == ["budget reached: $2.00 of $2.00"]
    assert client.get("/api/sessions/job/can-resume?budget=9").json()["ok"]
    needed = harness.rl.sessions.get("job").attention
    assert needed is not None and needed.cure == "relight resume job --budget N"
    assert client.post("/api/sessions/job/resume", json={}).status_code == 409
    page = client.get("/sessions/job/do/resume").text
    assert 'name="budget"' in page and "data-number" in page and "budget reached: $2.00 of $2.00" in page
    assert 'name="budget_tokens"' not in page
