"""Effects of forks of forks: what is known about an effect of an ancestor is what somebody who saw it recorded."""

from __future__ import annotations

import pytest

from relight.errors import InDoubt
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
