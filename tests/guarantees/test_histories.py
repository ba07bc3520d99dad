"""G10: over any history, no key and generation takes effect twice, nothing that ran is silently forgotten, and each
result belongs to its own call.

Random conversations with tools of every effect, verdicts, rewinds (some let calls run again), undo, redo, forks,
compaction and settling, killed at random places. What takes effect is counted outside. Undo is compared on the way: it
leaves no difference but seq and times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import relight
from relight.ports import faults
from tests.support.child_processes import ForkServer, lines_of
from tests.support.figures import Figure
from tests.support.programs.random_history import History, forgotten, misattributed
from tests.support.simulation import Simulation

POINTS = (
    "commit.enter",
    "commit.begun",
    "commit.committed",
    "tool.asked",
    "tool.intended",
    "tool.done",
    "tool.recorded",
)
LIVES = 6
ACTS = 10


class Died(BaseException):
    """The process ends here."""


def _arm(rng: Random) -> None:
    left = rng.randint(1, 25)

    def die(_: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Died

    faults.arm(rng.choice(POINTS), die)


def _live(seed: int) -> tuple[int, int, int]:
    """One history: deaths, effects, undos that were compared."""
    rng, taken, world = Random(seed), Counter[str](), Simulation(seed=seed)
    deaths = undos = 0
    with world.start().session("main") as s:
        s.append({"role": "user", "content": "go"})
    history: History | None = None
    for life in range(LIVES):
        rl = world.restart()

        def take(key: str) -> None:
            if rng.random() < 0.05:
                raise Died
            taken[key] += 1
            if rng.random() < 0.1:
                raise Died

        history = History(rl, rng, take, lambda key: taken[key] > 0)
        try:
            if life < LIVES - 1:
                _arm(rng)
            history.play(ACTS)
        except Died:
            deaths += 1
        finally:
            faults.disarm()
            undos += history.undos
    twice = {key: count for key, count in taken.items() if count > 1}
    assert twice == {}, twice
    rl = world.restart()
    assert forgotten(rl, set(taken)) == []
    assert misattributed(rl) == []
    assert rl.history.verify().ok
    world.close()
    return deaths, len(taken), undos


@pytest.mark.guarantee("G10")
def test_no_key_takes_effect_twice_and_nothing_that_ran_is_forgotten_in_any_history(
    sample: Callable[..., int], figure: Figure
) -> None:
    histories = sample(25, proof=1_000, teeth=40)
    deaths = effects = undos = 0
    for seed in range(histories):
        try:
            found = _live(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        deaths, effects, undos = deaths + found[0], effects + found[1], undos + found[2]
    figure(
        "G10",
        f"{histories} histories with rewinds, undo, redo and forks, {deaths} deaths, {effects} effects: 0 keys twice, 0"
        f" forgotten; {undos} undos and redos without a difference",
    )


@pytest.mark.guarantee("G10")
def test_no_key_takes_effect_twice_where_the_process_of_a_history_is_killed(
    memory_path: Path, fork_server: ForkServer, sample: Callable[..., int], figure: Figure
) -> None:
    rng, killed, effects = Random(7), 0, 0
    histories = sample(1, proof=100, teeth=2)
    for number in range(histories):
        store, taken = memory_path / f"{number}.db", memory_path / f"{number}.txt"
        for life in range(4):
            fault = f"{rng.choice(POINTS)}:{rng.randint(2, 40)}:kill"
            child = fork_server.run("random_history", fault, store=store, seed=f"{number}/{life}", taken=taken, acts=12)
            status = child.wait()
            assert child.was_killed or status == 0, child.said
            killed += child.was_killed
        reported = Counter(lines_of(taken))
        assert [key for key, count in reported.items() if count > 1] == []
        with relight.open(str(store)) as rl:
            assert forgotten(rl, set(reported)) == []
            assert misattributed(rl) == []
        effects += len(reported)
    figure("G10", f"{histories} histories of real processes, {killed} SIGKILLs, {effects} effects: 0 keys twice")
