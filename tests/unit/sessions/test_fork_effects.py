"""Effects of a parent as its forks know them: nothing that ran is run again, and every doubt is counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.simulation import Simulation
from tests.unit.sessions.test_effects import Bench, Died, asks, user


@pytest.fixture
def world() -> Iterator[Simulation]:
    made = Simulation()
    yield made
    made.close()


def test_what_a_compacted_parent_had_run_stays_known_to_a_fork_that_is_rewound_before_it(world: Simulation) -> None:
    ran: list[str] = []
    with world.start() as rl:
        with rl.session("a") as s:
            s.append(user("go"))
            first = s._recorder.head.seq
            s.once("pay", lambda: ran.append("a"))
        rl.history.rewind(f"a@{first}")
        with rl.session("a") as s:
            s.replace([user("short")])
        rl.history.fork("a", name="b")
        rl.history.rewind("b@1")
        with rl.session("b") as s:
            s.once("pay", lambda: ran.append("b"))
    assert ran == ["a"]


def test_a_fork_counts_a_call_that_its_parent_began_after_the_checkpoint(world: Simulation) -> None:
    bench = Bench()
    bench.dies = True
    s = world.start().session("a")
    s.append(user("go"))
    s.append(asks(("c1", "t")))
    asked = s._recorder.head.seq
    s.checkpoint("asked")
    with pytest.raises(Died):
        s.run_tool(s.pending_calls()[0], [bench.tool("t")])
    rl = world.restart()
    made = rl.history.fork(f"a@{asked}", name="b")
    assert rl.sessions.get(made.id).in_doubt == len(rl.runs.plan(made.id).in_doubt) == 1


def test_what_a_parent_settled_stays_known_to_a_fork_that_was_rewound_before_it_and_reopened(world: Simulation) -> None:
    def dies() -> None:
        raise Died

    s = world.start().session("a")
    s.append(user("go"))
    first = s._recorder.head.seq
    with pytest.raises(Died):
        s.once("pay", dies)
    begun = s._recorder.head.seq
    with world.restart().session("a") as s:
        s.settle("pay", "paid")
    rl = world.restart()
    rl.history.fork(f"a@{begun}", name="b")
    rl.history.rewind(f"b@{first}")
    rl.session("b")  # an attempt that dies; the next one follows on the fork's own steps
    assert world.restart().session("b").once("pay", lambda: "again") == "paid"
