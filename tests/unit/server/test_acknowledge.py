"""What a person has acknowledged is not asked again, in any entry point, and a new reason never hides behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

import relight
from relight.errors import Conflict
from relight.testing.clock import ManualClock
from tests.support.server_harness import ServerHarness


def failed(rl: relight.Relight, name: str) -> str:
    with rl.session(name) as s:
        s.fail("boom")
    return str(s.id)


def test_the_counts_are_exact_and_a_new_reason_is_shown(harness: ServerHarness) -> None:
    rl = harness.rl
    for number in range(12):
        failed(rl, f"f{number}")
    assert rl.sessions.needing(most=5).total == 12
    rl.sessions.acknowledge("f0")  # the oldest: no page reads it to count the others
    for number in range(6, 12):
        rl.sessions.acknowledge(f"f{number}")
    found = rl.sessions.needing(most=5)
    assert found.total == 5 and found.counts == {"failed": 5}
    assert {info.name for info in found.sessions} == {"f1", "f2", "f3", "f4", "f5"}, "older ones take their place"
    with rl.session("f0") as s:
        s.fail("another boom")
    assert rl.sessions.needing(most=5).total == 6
    assert rl.sessions.remind("f7") and not rl.sessions.remind("f7")
    assert rl.sessions.needing(most=5).total == 7
    with rl.session("fine") as s:
        s.complete(1)
    with pytest.raises(Conflict):
        rl.sessions.acknowledge("fine")


def test_it_is_asked_for_and_withdrawn_over_http(harness: ServerHarness) -> None:
    session = failed(harness.rl, "nightly")
    client = harness.client("operate")
    done = client.post(f"/api/sessions/{session}/acknowledge", json={"hours": 2})
    assert done.status_code == 200 and done.json()["acknowledged"] and done.json()["until"]
    assert client.get("/api/attention").json()["total"] == 0
    page = client.get("/", headers={"accept": "text/html"}).text
    assert "Nothing needs you." in page and "nightly" in page, "the row stays, the strip does not"
    assert client.post(f"/api/sessions/{session}/acknowledge", json={"withdraw": True}).json()["acknowledged"] is False
    assert client.get("/api/attention").json()["total"] == 1
    assert client.post(f"/api/sessions/{session}/acknowledge", json={"hours": -1}).status_code == 400
    dialog = client.get(f"/sessions/{session}/do/acknowledge", headers={"accept": "text/html"}).text
    assert "relight acknowledge nightly" in dialog and "failed: boom" in dialog


def test_after_its_time_it_needs_a_person_again(tmp_path: Path) -> None:
    clock = ManualClock()
    with relight.open(f"sqlite:///{tmp_path}/a.db", clock=clock) as rl:
        failed(rl, "later")
        rl.sessions.acknowledge("later", seconds=3600)
        assert rl.sessions.needing().total == 0
        clock.advance(3601)
        assert rl.sessions.needing().total == 1
