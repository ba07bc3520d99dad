"""Effects of forks of forks: what is known about an effect of an ancestor is what somebody who saw it recorded."""

from __future__ import annotations

import pytest

import relight
from relight.errors import InDoubt
from tests.support.calls import call
from tests.support.simulation import Simulation
from tests.unit.sessions.test_effects import Died, user


def test_a_doubt_of_an_ancestor_is_not_settled_by_a_fork_that_never_saw_it() -> None:
    """The fork was made from before it, and has run an effect of its own under the same key."""
    world = Simulation()

    def die() -> str:
        raise Died

    s = world.start().session("main")
    first = s._recorder.head.seq
    with pytest.raises(Died):
        s.once("mail", die)
    rl = world.restart()
    rl.history.rewind(f"main@{first}")
    with rl.session("main") as s:
        s.append(user("on"))  # the fork begins after the step of the doubt, which it does not have in view
    fork = rl.history.fork("main")
    with rl.session(fork.id) as s:
        assert s.once("mail", lambda: "sent by the fork") == "sent by the fork"
    later = rl.history.fork(f"{fork.id}@{first + 1}")
    with rl.session(later.id) as s, pytest.raises(InDoubt):
        s.once("mail", lambda: "sent again")


def test_a_forks_own_call_is_not_its_parents_of_the_same_number() -> None:
    """After a fork both sessions go on with the same numbers, and models reuse ids of calls: the parent's outcome of
    such a call was given to the fork's, which did not run."""
    world, ran = Simulation(), list[str]()

    @relight.tool
    def pay(idempotency_key: str) -> str:
        ran.append(idempotency_key)
        return f"paid {idempotency_key}"

    def die() -> str:
        raise Died

    s = world.start().session("main")
    s.append(user("go"))
    with pytest.raises(Died):
        s.once("mail", die)  # in doubt, so that a fork asks what its parent knows
    rl = world.restart()
    begins = rl.sessions.get("main").head
    keys = []
    for name in ("main", "fork"):
        if name == "fork":
            rl.history.fork(f"main@{begins}", name=name)
        with rl.session(name) as s:
            asked = s.append(call("c1", "pay", "{}"))
            keys.append(f"{s.id}:{asked.seq}:c1")
        with rl.session(name) as s:
            (pending,) = s.pending_calls()
            assert s.run_tool(pending, [pay]).result == f"paid {keys[-1]}"
    assert keys[0].split(":")[1:] == keys[1].split(":")[1:], "their numbers are equal"
    assert ran == keys
