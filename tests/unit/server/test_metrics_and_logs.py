"""Metrics, health, logs, traces and the daily sweep: what a server tells those who watch it."""

from __future__ import annotations

import io
import json
import logging
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from starlette.testclient import TestClient

from relight.history.events import Event
from relight.server.http.logs import LOG, JsonLines, PlainLines
from relight.server.live.overview import Overview
from relight.server.resume_stats import resumes_of
from tests.docs.pages import ROOT
from tests.support.recorded_spans import RecordedSpans
from tests.support.server_harness import ServerHarness
from tests.unit.server.conftest import fill

PROMISED = [
    *("relight_sessions", "relight_steps_total", "relight_save_seconds", "relight_resumes_total"),
    *("relight_failures_total", "relight_lease_takeovers_total", "relight_store_errors_total"),
    *("relight_snapshot_seconds", "relight_snapshot_bytes_total", "relight_stream_clients", "relight_store_up"),
    "relight_request_seconds",
]


def numbers(client: TestClient) -> dict[str, float]:
    text = client.get("/metrics").text
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if not line.startswith("#")
    }


def test_the_metrics_count_what_happened(harness: ServerHarness) -> None:
    client, overview = harness.client(), Overview(harness.rl, harness.service.metrics)
    list(overview._changes())
    fill(harness.rl)
    list(overview._changes())
    found = numbers(client)
    assert found['relight_sessions{status="waiting"}'] == 1 and found['relight_sessions{status="working"}'] == 0
    assert found['relight_failures_total{class="exception"}'] == 1
    steps = sum(value for name, value in found.items() if name.startswith("relight_steps_total"))
    assert steps == sum(one.seq for one in harness.rl.sessions.list())
    assert found["relight_save_seconds_count"] == steps
    assert found['relight_attempts_total{rung="none"}'] == 4
    client.get("/api/sessions/fix-login")
    assert any('route="/api/sessions/{ref}"' in name for name in numbers(client)), "routes are named, not addresses"
    assert not any("fix-login" in name for name in numbers(client))


def test_captures_are_timed_and_counted(harness: ServerHarness, tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    (work / "a.txt").write_text("one\n")
    with harness.rl.session("files", workspace=work) as s:
        s.append({"role": "user", "content": "x"})
        (work / "a.txt").write_text("two\n")
        s.append({"role": "user", "content": "y"})
    client = harness.client()
    assert client.get("/api/sessions/files@2/diff").status_code == 200
    assert client.post("/api/sessions/files@2/restore", json={}).status_code == 200
    found = numbers(client)
    assert found["relight_snapshot_seconds_count"] >= 2 and found["relight_snapshot_bytes_total"] > 0


def test_every_promised_metric_is_there_and_every_alert_asks_for_one(harness: ServerHarness) -> None:
    text = harness.client().get("/metrics").text
    declared = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    for name in PROMISED:
        assert name in declared or name.removesuffix("_total") in declared, name
    rules = yaml.safe_load((ROOT / "docs" / "alerts.yaml").read_text())
    asked = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len(asked) >= 6
    for rule in asked:
        assert {"alert", "expr", "for", "labels", "annotations"} <= rule.keys()
        for name in re.findall(r"relight_[a-z_]+", rule["expr"]):
            stem = re.sub(r"_(bucket|count|sum)$", "", name)
            assert stem in declared or stem.removesuffix("_total") in declared, name


def test_a_store_that_does_not_answer_is_a_number_and_a_problem(harness: ServerHarness) -> None:
    client = harness.client()
    assert client.get("/healthz").json()["durability_text"].startswith("every acknowledged step survives")
    harness.rl.close()
    assert client.get("/healthz").status_code == 503
    assert client.get("/api/sessions").status_code == 503
    assert numbers(client)["relight_store_up"] == 0


def test_health_tells_nobody_where_the_store_is(harness: ServerHarness) -> None:
    answered = harness.client(None).get("/healthz")
    assert answered.status_code == 200 and str(harness.store.parent) not in answered.text


@pytest.mark.parametrize("form", [JsonLines(), PlainLines()])
def test_a_log_line_is_one_line_with_session_and_seq(form: logging.Formatter) -> None:
    session = "fc8daee4bffd3d85cb50829172601efc"  # long enough to be taken for the id of a login
    record = logging.makeLogRecord({"msg": "did\n\x1b[31m", "session": session, "seq": 12, "levelname": "INFO"})
    line = form.format(record)
    assert "\n" not in line and "\x1b" not in line and session in line and "12" in line
    if isinstance(form, JsonLines):
        assert json.loads(line)["seq"] == 12


def test_a_change_is_logged_with_its_session(some: ServerHarness) -> None:
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    handler.setFormatter(JsonLines())
    LOG.addHandler(handler)
    level = LOG.level
    LOG.setLevel(logging.INFO)
    try:
        some.client().post("/api/sessions/fix-login/send", json={"text": "yes"})
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)
    said = [json.loads(line) for line in heard.getvalue().splitlines()]
    did = next(one for one in said if one["event"] == "did")
    info = some.rl.sessions.get("fix-login")
    assert (did["session"], did["seq"], did["verb"], did["who"]) == (info.id, info.seq, "send", "admin")


def test_requests_and_commits_are_traced_where_there_is_a_tracer(
    some: ServerHarness, recorded_spans: RecordedSpans
) -> None:
    some.client().post("/api/sessions/fix-login/send", json={"text": "yes"})
    save, request = recorded_spans.named("relight commit")[-1], recorded_spans.one("relight POST")
    assert save.attributes is not None and save.attributes["relight.session"] == some.rl.sessions.get("fix-login").id
    assert request.attributes is not None and request.attributes["http.route"] == "/api/sessions/{ref}/send"
    assert request.attributes["http.response.status_code"] == 200
    assert save.context is not None and request.context is not None
    assert save.context.trace_id == request.context.trace_id


def test_what_a_resume_saved_is_counted_from_the_journal(harness: ServerHarness) -> None:
    with harness.rl.session("job") as s:
        s.append({"role": "assistant", "content": "one"}, {"input_tokens": 1000, "output_tokens": 50})
    with harness.rl.session("job") as s:
        s.append({"role": "assistant", "content": "two"}, {"input_tokens": 10, "output_tokens": 5})
    with harness.rl.session("job"):
        pass
    first, second = resumes_of(harness.rl.history.events("job"))
    assert (first.tokens_saved, first.verdict, first.rung) == (1050, "progressed", "library")
    assert (second.tokens_saved, second.verdict) == (15, "open"), "what was saved before is not saved again"
    stats = harness.client().get("/api/stats").json()
    assert stats["resumes"] == 2 and stats["tokens_saved"] == 1065


def test_minutes_saved_are_minutes_of_work_and_counted_once() -> None:
    began = datetime(2026, 11, 15, tzinfo=UTC)

    def event(seq: int, second: float, attempt: int, kind: Any, **more: Any) -> Event:
        at = began + timedelta(seconds=second)
        return Event(session="s", seq=seq, kind=kind, at=at, attempt=attempt, label=None, **more)

    def starts(number: int) -> dict[str, Any]:
        working = {"status": "working"}
        return {"started": {"number": number, "reason": "died" if number > 1 else None}, "status": working}

    story = resumes_of(
        [
            event(1, 0, 1, "attempt", **starts(1)),
            event(2, 5, 1, "message"),
            event(3, 6, 1, "mark", note={"turn": "ended"}),
            event(4, 306, 1, "message"),  # five minutes in which its user thought
            event(5, 308, 1, "status", status={"status": "completed"}),
            event(6, 800, 1, "mark"),  # a label, after it was completed
            event(7, 900, 2, "attempt", **starts(2)),
            event(8, 903, 2, "message"),
            event(9, 2000, 3, "attempt", **starts(3)),
        ]
    )
    assert [one.seconds_saved for one in story] == [8.0, 3.0]
