"""The plan of a resume is one value: what it says of orphans, of a usage limit, of an agent that lives."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from relight.journal.resume_plan import as_it_lives
from relight.text.format import ended_first, started_with
from relight.values.call import Call
from relight.values.info import AgentState, ResumePlan

PLAN = ResumePlan(
    ok=True,
    session="ab" * 16,
    name="job",
    checkpoint="ab" * 16 + "@7",
    status="terminated",
    stopped_at=None,
    why_stopped=None,
    forks=False,
    message_count=3,
    in_doubt=[],
    told="outcome unknown",
    command=["claude", "-p", "do it"],
    reasons=[],
    plan="0" * 16,
    directory="/src",
    orphans=[12],
    wait_until=datetime(2026, 1, 2, 23, 1, tzinfo=UTC),
)


def test_of_an_agent_that_lives_nothing_is_told_and_nothing_is_ended() -> None:
    lives = msgspec.structs.replace(PLAN, agent=AgentState(agent="claude", rung="native", living=12))
    assert as_it_lives(PLAN) == PLAN
    plan = as_it_lives(lives)
    assert (plan.told, plan.calls, plan.orphans, plan.wait_until) == (None, [], [], None)
    assert ended_first(plan) == "" and started_with(plan).startswith("claude -p 'do it'  in ")
    assert "pid 12" in ended_first(PLAN)
    assert isinstance(plan.in_doubt, list) and all(isinstance(one, Call) for one in plan.in_doubt)
