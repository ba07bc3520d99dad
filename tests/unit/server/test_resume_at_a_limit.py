"""A resume that would wait for a usage limit says so before it is pressed, with a way to start all the same."""

from __future__ import annotations

from relight.system.machine import SystemClock
from relight.values.session import Head, Identity
from relight.values.status import Failure
from tests.support.server_harness import ServerHarness

HOUR_US = 3_600_000_000


def agent(harness: ServerHarness, name: str, number: int, **head: object) -> str:
    session = f"{number:032x}"
    identity = Identity(id=session, name=name, created_us=number, agent="claude", command=["claude", "-p", "x"])
    harness.rl.store.create(identity, Head(session=session, **head))  # type: ignore[arg-type]
    return session


def test_the_plan_names_the_limit_that_another_session_met(harness: ServerHarness) -> None:
    """W-A8."""
    now_us = SystemClock().now_us()
    slow = agent(harness, "cc-slow", 2, status="terminated", updated_us=1)
    assert not [one for one in harness.rl.runs.plan(slow).reasons if one.code == "usage_limit"]
    failure = Failure(kind="usage_limit", fields={"provider": "anthropic"})
    agent(harness, "cc-met", 1, status="queued", wake_us=now_us + HOUR_US, failure=failure, updated_us=1)
    reason = next(one for one in harness.rl.runs.plan(slow).reasons if one.code == "usage_limit")
    assert not reason.blocks and "is queued until" in reason.text and reason.cure == "relight resume cc-slow --now"
    asked = harness.client().get(f"/sessions/{slow}/do/resume").text
    assert "is queued until" in asked and 'name="now"' in asked
    reported = harness.client().get(f"/api/sessions/{slow}/can-resume", params={"disk": False}).json()
    assert "usage_limit" in [one["code"] for one in reported["reasons"]]
