"""G1: an acknowledged step is never lost; G12: and nobody waits for a dead owner.

A child appends and tells each seq it was given; it is killed with SIGKILL at random moments and at every fault point,
twice in a row, and inside the resume. Every seq it told is there with what it said, and the next child starts at once,
although the dead one's lease was good for ten minutes.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import relight
from relight.library.facade import Relight
from relight.ports import faults
from tests.support.child_processes import ForkServer, lines_of, spin, wait_until
from tests.support.figures import Figure
from tests.support.processes import alive

pytestmark = pytest.mark.crash
PLACES = {
    "commit": [name for name in faults.POINTS if name.startswith("commit.")],
    "opening": [name for name in faults.POINTS if name.startswith(("session.", "resume."))],
}


def check(rl: Relight, reported: Path, name: str) -> int:
    """All that was told is there and whole; how many were told."""
    pairs = [line.split() for line in lines_of(reported) if line != "open"]
    acknowledged = {int(seq): int(number) for seq, number in pairs}
    steps = {event.seq: event for event in rl.history.events(name)}
    for seq, number in acknowledged.items():
        assert seq in steps, f"step {seq} was acknowledged and is lost"
        assert steps[seq].messages == [{"role": "user", "content": str(number)}]
    contents = [int(message["content"]) for message in rl.history.load(name).messages]
    assert contents == list(range(len(contents)))
    assert len(contents) >= len(acknowledged)
    assert list(steps) == list(range(1, len(steps) + 1))
    assert rl.history.verify(name).ok
    return len(acknowledged)


def is_waiting_for_nobody(rl: Relight, name: str) -> None:
    """G12: after a kill the session is shown as what it is, and can go on at once."""
    info = rl.sessions.get(name)
    assert info.status in ("terminated", "queued"), info
    assert rl.runs.plan(name).ok
    assert name in [one.name for one in rl.sessions.list(status=info.status)]


@pytest.mark.guarantee("G1")
def test_an_acknowledged_step_survives_a_kill_at_any_moment(
    fork_server: ForkServer, memory_path: Path, sample: Any, figure: Figure
) -> None:
    store, rng = str(memory_path / "relight.db"), Random(1)
    kills = sample(50, proof=500, teeth=15)
    acknowledged = sessions = 0
    with relight.open(store) as rl:
        for number in range(kills):
            if number % 20 == 0:
                sessions += 1
                name, reported, total = f"s{sessions}", memory_path / f"told{sessions}", 0
            child = fork_server.run("appender", store=store, session=name, reported=reported)
            before, wanted = len(lines_of(reported)), rng.randint(0, 6)
            wait_until("it appends", lambda: len(lines_of(reported)) >= before + wanted or not alive(child.pid))  # noqa: B023
            spin(rng.random() * 0.004)
            child.kill()
            assert child.was_killed, child.said
            if lines_of(reported):
                now = check(rl, reported, name)
                acknowledged, total = acknowledged + now - total, now
                is_waiting_for_nobody(rl, name)
        assert rl.history.verify().ok
    figure("G1", f"{kills} SIGKILLs at random moments, {acknowledged} acknowledged steps, 0 lost, 0 waits for a lease")


@pytest.mark.guarantee("G2")
@pytest.mark.guarantee("G12")
@pytest.mark.parametrize("where", PLACES)
def test_a_kill_at_any_point_of_a_commit_or_a_resume_loses_nothing(
    fork_server: ForkServer, memory_path: Path, where: str, figure: Figure, sample: Any
) -> None:
    store = str(memory_path / "relight.db")
    kills = checkpoints = 0
    with relight.open(store) as rl:
        for point in PLACES[where]:
            for nth in range(1, sample(4, proof=12, teeth=3)):
                name, reported = f"{point}.{nth}", memory_path / f"{point}.{nth}"
                for fault in (f"{point}:{nth}:kill", f"{point}:{nth}:kill", f"{point}:1:kill", "commit.told:3:kill"):
                    child = fork_server.run("appender", fault, store=store, session=name, reported=reported)
                    wait_until("it dies or appends", lambda: not alive(child.pid) or len(lines_of(reported)) > 40)  # noqa: B023
                    child.kill()  # where the point is passed only once in the session's life it lives on
                    assert child.was_killed, child.said
                    kills += 1
                    if rl.sessions.find(name) is not None:
                        check(rl, reported, name)
                        is_waiting_for_nobody(rl, name)
                        checkpoints += all_whole(rl, name)
                assert len(lines_of(reported)) >= 2
        assert rl.history.verify().ok
    figure("G2", f"{kills} crash states, {checkpoints} listed checkpoints loaded, 0 broken")
    figure(
        "G12", f"{kills} kills at {len(PLACES[where])} {where} points, twice in a row, inside the resume: 0 stranded"
    )


def all_whole(rl: Relight, name: str) -> int:
    """G2: what is listed loads. How many were listed."""
    listed = rl.history.checkpoints(name)
    for checkpoint in listed[-3:]:
        assert len(rl.history.load(checkpoint.id).messages) == checkpoint.message_count
    return len(listed)
