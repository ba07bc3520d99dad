"""Several sessions at once: what would be done is shown, each has its own outcome, and one that moved is left alone."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient

from relight.journal.bulk_resume import cause_of, group_by_failure, should_resume
from relight.values.options import RunOptions
from relight.values.status import Failure
from tests.support.server_harness import ServerHarness
from tests.unit.server.conftest import fill


def stopped(harness: ServerHarness, directory: Path, name: str, reason: str, kind: str | None = None) -> str:
    """A session of a program that can be started again, and failed."""
    made = harness.rl.runs.create(["true"], RunOptions(directory=str(directory), agent="command", name=name))
    with harness.rl.session(name) as s:
        s.fail(reason, failure=Failure(kind=kind) if kind else None)
    return made.id


def dialog(client: TestClient, path: str) -> tuple[str, dict[str, Any]]:
    answer = client.get(path, headers={"accept": "text/html"})
    assert answer.status_code == 200, answer.text
    found = re.search(r'data-body="([^"]*)"', answer.text)
    assert found is not None
    return answer.text, json.loads(unescape(found[1]))


def test_those_that_stopped_for_the_same_reason_are_one_group(harness: ServerHarness, tmp_path: Path) -> None:
    for n in range(3):
        stopped(harness, tmp_path, f"key-{n}", f"auth: refused ({n})", "auth")
    for n in range(2):
        stopped(harness, tmp_path, f"odd-{n}", f"exit status {n}: boom")
    stopped(harness, tmp_path, "alone", "something else")
    groups = group_by_failure(harness.rl.sessions.list())
    assert [(one.cause, len(one.sessions)) for one in groups] == [
        ("the provider refused the key", 3),
        ("exit status", 2),
    ]


@pytest.mark.parametrize("reason", ["stopped by relight stop", "stopped (SIGINT)", "left by its user", "interrupted"])
def test_what_a_person_stopped_does_not_come_back_by_itself(
    harness: ServerHarness, tmp_path: Path, reason: str
) -> None:
    for n in range(2):
        stopped(harness, tmp_path, f"s{n}", reason)
    infos = [replace(info, status="terminated", reason=reason) for info in harness.rl.sessions.list()]
    assert not any(should_resume(info) for info in infos) and group_by_failure(infos) == []
    lost = [replace(info, reason="its process died (pid 7 on here)") for info in infos]
    assert all(should_resume(info) for info in lost) and cause_of(lost[0]) == "its process died"


def test_the_list_offers_what_can_be_done_together_and_says_what_it_is(harness: ServerHarness, tmp_path: Path) -> None:
    fill(harness.rl)
    stopped(harness, tmp_path, "a", "401", "auth")
    client = harness.client("read")
    text = client.get("/", headers={"accept": "text/html"}).text
    assert "Resume them…" not in text and "Archive finished…" in text
    stopped(harness, tmp_path, "b", "401", "auth")
    text = client.get("/", headers={"accept": "text/html"}).text
    assert "2 stopped for the same reason: the provider refused the key" in text and "Resume them…" in text
    shown, given = dialog(client, "/do/resume?cause=the+provider+refused+the+key")
    assert shown.count("data-list checked") == 2 and len(given["plans"]) == 2
    assert 'for s in b a; do relight resume --detach "$s"; done' in unescape(shown)
    assert client.get("/do/resume?cause=none", headers={"accept": "text/html"}).status_code == 404
    assert client.get("/api/resume").json()["items"][0]["cause"] == "the provider refused the key"


def test_what_is_chosen_is_archived_and_the_rest_stays(harness: ServerHarness) -> None:
    for n in range(3):
        with harness.rl.session(f"done-{n}") as s:
            s.complete(n)
    client = harness.client()
    _, given = dialog(client, "/do/archive")
    chosen = [harness.rl.sessions.get("done-0").id, harness.rl.sessions.get("done-2").id]
    listed = client.get("/api/archive").json()["items"]
    assert len(given["plans"]) == 3 == len(listed)
    times = {one["session"]: client.get(f"/api/sessions/{one['session']}").json()["updated_at"] for one in listed}
    assert {one["session"]: one["updated_at"] for one in listed} == times, "written as everywhere else"
    answer = client.post("/api/archive", json={**given, "sessions": chosen}).json()
    assert (answer["done"], answer["refused"]) == (2, 0)
    assert {info.name for info in harness.rl.sessions.list(status="completed")} == {"done-1"}
    verbs = [row[0] for row in harness.service.state.rows("SELECT verb FROM actions ORDER BY id")]
    assert verbs == ["archive-several", "archive", "archive"], "each has its own entry"


def test_one_that_moved_or_is_gone_is_left_alone_and_told_and_the_others_are_done(harness: ServerHarness) -> None:
    for name in ("moved", "gone", "same"):
        with harness.rl.session(name) as s:
            s.complete(1)
    ids = {name: harness.rl.sessions.get(name).id for name in ("moved", "gone", "same")}
    client = harness.client()
    _, given = dialog(client, "/do/archive")
    harness.rl.runs.send("moved", "one more thing")
    harness.rl.sessions.remove("gone")
    once = {"Idempotency-Key": "k1"}
    body = {**given, "sessions": [*ids.values(), ids["same"]]}
    answer = client.post("/api/archive", json=body, headers=once)
    reported = {one["session"]: one for one in answer.json()["items"]}
    assert {name: reported[session]["done"] for name, session in ids.items()} == {
        "moved": False, "gone": False, "same": True,
    }  # fmt: skip
    assert reported[ids["moved"]]["detail"] and reported[ids["gone"]]["code"] == "RL-2001"
    assert client.post("/api/archive", json=body, headers=once).json() == answer.json(), "a double click is one act"
    assert (
        harness.rl.sessions.get("moved").status != "archived"
        and harness.rl.sessions.get(ids["same"]).status == "archived"
    )


def test_several_are_started_each_or_told_why_not(harness: ServerHarness, tmp_path: Path) -> None:
    first = stopped(harness, tmp_path, "a", "401", "auth")
    away = tmp_path / "away"
    away.mkdir()
    second = stopped(harness, away, "b", "401", "auth")
    away.rmdir()
    client = harness.client()
    answer = client.post("/api/resume", json={"sessions": [second, first]}).json()
    assert [one["done"] for one in answer["items"]] == [False, True] and answer["items"][0]["detail"]
    assert harness.rl.sessions.get("a").attempt == 2 and harness.rl.sessions.get("b").attempt == 1


@pytest.mark.parametrize("body", [{}, {"sessions": []}, {"sessions": ["x"] * 101}, {"sessions": ["x"], "all": True}])
def test_what_names_no_sessions_or_too_many_is_refused(harness: ServerHarness, body: dict[str, Any]) -> None:
    client = harness.client()
    for path in ("/api/archive", "/api/resume"):
        assert client.post(path, json=body).status_code == 400


def test_why_they_stopped_is_only_text_wherever_it_is_shown(harness: ServerHarness, tmp_path: Path) -> None:
    hostile = '"><img src=x onerror=alert\x1b[2J>&cause=none'
    for n in range(2):
        stopped(harness, tmp_path, f"s{n}", hostile)
    client = harness.client("read")
    text = client.get("/", headers={"accept": "text/html"}).text
    found = re.search(r'href="(/do/resume[^"]*)"', text)
    assert found is not None
    shown, given = dialog(client, unescape(found[1]))
    assert len(given["plans"]) == 2
    for page in (text, shown):
        assert "<img" not in page and "\x1b" not in page


def test_all_that_match_are_chosen_and_what_cannot_be_done_is_left_alone(
    harness: ServerHarness, tmp_path: Path
) -> None:
    for n in range(3):
        stopped(harness, tmp_path, f"night-{n}", "boom", "auth")
    with harness.rl.session("done") as s:
        s.complete(1)
    client = harness.client("admin")
    text, body = dialog(client, "/do/several/remove?status=failed")
    assert "Delete 3 sessions" in text and len(body["plans"]) == 3 and 'data-typed="3"' in text
    text, body = dialog(client, f"/do/several/resume?ids={harness.rl.sessions.get('done').id},nothing-here")
    assert "left alone" in text and "Not possible now: for none of these sessions" in text and "for s in ;" not in text
    ids = [harness.rl.sessions.get(f"night-{n}").id for n in range(3)]
    harness.rl.history.fork(ids[0], name="needs-it")
    done = client.post("/api/remove", json={"sessions": ids, "plans": {ids[1]: "older"}}).json()
    assert [one["done"] for one in done["items"]] == [False, False, True], "a fork needs one, one has moved"
    assert client.post("/api/stop", json={"sessions": [ids[0]]}).json()["refused"] == 1
    assert harness.client("operate").post("/api/remove", json={"sessions": ids}).status_code == 403
    assert client.get("/do/several/rename", headers={"accept": "text/html"}).status_code == 404


def test_a_label_is_given_to_several_and_taken_away_once_or_told(harness: ServerHarness) -> None:
    with harness.rl.session("done", labels={"prio": "1", "team": "docs"}) as s:
        s.complete(1)
    client, rl = harness.client(), harness.rl
    with rl.session("runs") as s:
        text, body = dialog(client, "/do/several/label")
        assert "Label 2 sessions" in text and body == {} and 'name="key"' in text and 'data-unless="unset"' in text
        assert 'for s in runs done; do relight label --add KEY=VALUE "$s"; done' in unescape(text)
        ids = [rl.sessions.get("done").id, "0" * 32, s.id]
        given, once = {"sessions": ids, "key": "team", "value": "web", "why": "moved"}, {"Idempotency-Key": "k1"}
        answer = client.post("/api/label", json=given, headers=once).json()
        assert [one["done"] for one in answer["items"]] == [True, False, True]
        rl.sessions.update("done", labels={"team": "later"})
        assert client.post("/api/label", json=given, headers=once).json() == answer, (
            "the same request again does nothing"
        )
        assert rl.sessions.get("done").labels == {"prio": "1", "team": "later"} and s.append(
            {"role": "user", "content": "go"}
        )
    assert rl.sessions.get("runs").labels == {"team": "web"}
    gone = client.post("/api/label", json={"sessions": ids[::2], "key": "team", "unset": True}).json()
    assert gone["done"] == 2 and rl.sessions.get("done").labels == {"prio": "1"}
    for odd in ({}, {"value": "a", "unset": True}, {"key": ""}):
        assert client.post("/api/label", json={"sessions": ids, "key": "team", **odd}).status_code == 400, odd
    assert harness.client("read").post("/api/label", json=given).status_code == 403
    rows = harness.service.state.rows("SELECT verb, asked FROM actions WHERE session = ? ORDER BY id", (ids[0],))
    assert [(verb, json.loads(asked)) for verb, asked in rows] == [
        ("label", {"labels": {"team": "web"}}),
        ("label", {"labels": {"team": None}}),
    ]
