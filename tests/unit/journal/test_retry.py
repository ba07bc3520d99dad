"""What follows an ending: who tries again, when, how often, and when a person has to look."""

from __future__ import annotations

import pytest

from relight.journal.retry import MAX_FRUITLESS, History, Move, decide
from relight.values.ending import Backoff, Cure, FailureClass, Scope, Verdict
from relight.values.policy import RunPolicy

NOW_US = 1_800_000_000_000_000
HOUR_US = 3_600_000_000


def verdict(
    kind: FailureClass,
    cure: Cure,
    *,
    text: str = "",
    counts: bool = True,
    backoff: Backoff | None = None,
    wake_us: int | None = None,
) -> Verdict:
    return Verdict(
        kind=kind,
        source="result",
        scope=Scope(provider="anthropic"),
        text=text,
        cure=cure,
        counts=counts,
        backoff=backoff,
        wake_us=wake_us,
    )


def after(verdicts: list[Verdict], *, progressed: bool = False, policy: RunPolicy | None = None) -> Move:
    """The move after these endings in a row."""
    history, move = History(), None
    for one in verdicts:
        move = decide(
            one, history, progressed=progressed, policy=policy or RunPolicy(), now_us=NOW_US, jitter=0.5, name="job"
        )
        history = move.history
    assert move is not None
    return move


def killed(text: str = "") -> Verdict:
    return verdict("killed", "resume", text=text)


def test_a_good_end_completes() -> None:
    move = after([verdict("ok", "none")])
    assert move.change.status == "completed" and not move.again


def test_a_killed_agent_starts_again_at_once() -> None:
    move = after([killed()])
    assert move.again and move.wake_us is None and move.change.status == "terminated"


def test_a_usage_limit_waits_for_its_reset_and_costs_no_attempt() -> None:
    limit = verdict("usage_limit", "wait_until", counts=False, wake_us=NOW_US + HOUR_US)
    move = after([limit] * 20)
    assert move.again and move.wake_us == NOW_US + HOUR_US
    assert move.change.status == "queued" and move.change.wake_us == NOW_US + HOUR_US


def test_a_pause_grows_and_has_an_end() -> None:
    slow = verdict("overloaded", "backoff", text="529", backoff=Backoff(first_seconds=10, most_seconds=60, tries=4))
    waits = []
    for endings in range(1, 5):
        move = after([slow] * endings, policy=RunPolicy(same_failures=100))
        assert move.again and move.wake_us is not None
        waits.append((move.wake_us - NOW_US) / 1e6)
    assert waits == sorted(waits) and waits[-1] <= 60
    assert after([slow] * 5, policy=RunPolicy(same_failures=100)).change.status == "failed"


def test_the_same_failure_again_and_again_is_put_into_quarantine_with_the_way_out() -> None:
    crash = verdict("crashed", "resume", text="segmentation fault")
    assert after([crash] * 2).again
    move = after([crash] * 3)
    assert not move.again and move.change.status == "halted"
    assert "3 times" in (move.change.reason or "") and "relight resume job" in (move.change.reason or "")


def test_different_failures_without_progress_are_given_up_after_some() -> None:
    crashes = [verdict("crashed", "resume", text=f"number {number}") for number in range(MAX_FRUITLESS + 1)]
    assert after(crashes[:MAX_FRUITLESS]).again
    assert after(crashes).change.status == "failed"


def test_progress_wipes_the_slate() -> None:
    crash = verdict("crashed", "resume", text="segmentation fault")
    assert after([crash] * 50, progressed=True).again


@pytest.mark.parametrize("kind", ["auth", "billing", "model_not_found"])
def test_what_only_a_person_can_cure_is_not_tried_again(kind: FailureClass) -> None:
    move = after([verdict(kind, "ask", text="no")])
    assert not move.again and move.change.status == "failed"
    assert move.change.failure is not None and move.change.failure.kind == kind


def test_one_retry_is_one() -> None:
    context = verdict("context", "resume_once", text="too long")
    assert after([context]).again
    assert after([context] * 2).change.status == "failed"


def test_what_somebody_stopped_stays_stopped() -> None:
    move = after([verdict("interrupted", "stop")])
    assert not move.again and move.change.status == "terminated"


def test_no_retries_means_none() -> None:
    assert after([killed()], policy=RunPolicy(retries=0)).change.status == "failed"
