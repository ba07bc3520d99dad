"""G18: sweeping is safe and deletion complete. G9's other half: only what is finished and over goes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import relight
from relight.errors import HasForks, LeaseHeld, NotFound, RelightError
from relight.library.facade import Relight
from relight.ports.store import Store
from relight.values.policy import Retention
from tests.support.figures import Figure
from tests.support.simulation import Simulation

ALL = Retention(finished_days=0, statuses=frozenset({"completed", "failed", "halted", "terminated", "archived"}))
OVER = Retention(finished_days=7)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def finished(rl: Relight, name: str, *words: str) -> str:
    with rl.session(name) as s:
        for word in words or ("x",):
            s.append(user(word))
        s.complete("done")
    return s.id


class Meanwhile:
    """A store in front of which something else happens, just before the first deletion."""

    def __init__(self, store: Store, act: Callable[[], Any]) -> None:
        self.store, self.act = store, act
        self.acted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def delete(self, *arguments: Any, **options: Any) -> None:
        if not self.acted:
            self.acted = True
            self.act()
        self.store.delete(*arguments, **options)


def test_a_session_resumed_while_a_sweep_looks_is_not_removed(world: Simulation) -> None:
    rl = world.start()
    finished(rl, "a", "1")
    finished(rl, "b", "1")
    opened = []

    def resume() -> None:
        rl.runs.send("a", "more")
        opened.append(world.start().session("a"))

    removed = world.start(Meanwhile(world.open_store(), resume)).admin.sweep(ALL)
    assert removed.names == ["b"]
    assert [message["content"] for message in rl.history.load("a").messages] == ["1", "more"]


def test_a_session_forked_while_a_sweep_looks_is_not_removed(world: Simulation) -> None:
    rl = world.start()
    finished(rl, "a", "1")
    finished(rl, "b", "1")
    sweeper = world.start(Meanwhile(world.open_store(), lambda: rl.history.fork("a", name="f")))
    assert sweeper.admin.sweep(ALL).names == ["b"]
    assert rl.history.load("f").messages == [user("1")]


def test_a_session_resumed_while_it_is_dropped_is_refused_or_gone_and_never_half(world: Simulation) -> None:
    rl = world.start()
    finished(rl, "a", "1")
    opened = []

    def resume() -> None:
        rl.runs.send("a", "more")
        opened.append(world.start().session("a"))

    with pytest.raises(RelightError):
        world.start(Meanwhile(world.open_store(), resume)).sessions.remove("a")
    opened[0].append(user("still here"))
    assert len(rl.history.load("a").messages) == 3


def test_only_finished_sessions_whose_time_is_over_go(world: Simulation) -> None:
    rl = world.start()
    for status in ("complete", "fail", "halt"):
        with rl.session(status) as s:
            s.append(user(status))
            getattr(s, status)("why")
    with pytest.raises(relight.Waiting), rl.session("waiting") as s:
        s.ask("?")
    with rl.session("left") as s:
        s.append(user("left"))
    rl.session("working").append(user("working"))
    with rl.session("queued") as s:
        s.append(user("x"))
    rl.runs.send("queued", "more")
    world.time.advance(6.9 * 86400)
    assert rl.admin.sweep(OVER).names == []
    world.time.advance(0.2 * 86400)
    dry = rl.admin.sweep(OVER, dry_run=True)
    assert len(list(rl.sessions.list())) == 7
    assert rl.admin.sweep(OVER).sessions == dry.sessions
    left = {info.name for info in rl.sessions.list()}
    assert {"waiting", "left", "working", "queued"} <= left
    assert "complete" not in left
    assert rl.history.verify().ok


@pytest.mark.parametrize("days", [1e5, 999_999_999, 1e30, float("inf"), float("nan")])
def test_a_retention_longer_than_any_age_keeps_everything(world: Simulation, days: float) -> None:
    """It was an OverflowError, of Python or of the database."""
    rl = world.start()
    with rl.session("a") as s:
        s.complete("done")
    assert rl.admin.sweep(Retention(finished_days=days)).sessions == []
    assert rl.admin.kept_longer_than(days).sessions == 0


def test_a_session_that_a_kept_fork_reads_from_stays_and_goes_with_it(world: Simulation) -> None:
    rl = world.start()
    finished(rl, "a", *"123")
    rl.history.fork("a@3", name="b")
    rl.history.fork("b", name="c")
    with pytest.raises(HasForks) as caught:
        rl.sessions.remove("a")
    assert set(caught.value.forks) == {"b", "c"}
    assert rl.admin.sweep(ALL).sessions == []
    assert [message["content"] for message in rl.history.load("c").messages] == ["1", "2"]
    removed = rl.sessions.remove("a", with_forks=True)
    assert sorted(removed.names) == ["a", "b", "c"]
    for name in "abc":
        with pytest.raises(NotFound):
            rl.sessions.get(name)


def test_what_somebody_owns_is_not_dropped(world: Simulation) -> None:
    rl = world.start()
    s = rl.session("a")
    with pytest.raises(LeaseHeld):
        world.start().sessions.remove("a")
    s.append(user("still here"))


def test_an_id_is_never_used_again_and_a_dropped_writer_is_told(world: Simulation) -> None:
    rl = world.start()
    s = rl.session("a")
    world.machine.alive.clear()
    world.start().sessions.remove("a")
    with pytest.raises(NotFound):
        s.append(user("ghost"))
    with world.start().session("a") as fresh:
        assert fresh.id != s.id
        assert fresh.is_new


@pytest.mark.guarantee("G18")
def test_after_a_drop_no_byte_of_the_session_is_left(tmp_path: Path, sample: Any, figure: Figure) -> None:
    rng = Random(7)
    rounds = sample(6, proof=300, teeth=3)
    path = tmp_path / "relight.db"
    looked = 0
    for number in range(rounds):
        canary = f"CANARY{rng.randbytes(12).hex()}"
        text = f"{canary} {rng.randbytes(rng.choice([10, 300, 9000])).hex()}"
        with relight.open(path) as rl:
            keep = rl.session(f"keep{number}")
            with rl.session(
                f"drop{number}", task=canary, key=canary, labels={"c": canary}, metadata={"m": canary}
            ) as s:
                for _ in range(rng.randint(1, 12)):
                    s.append(user(text if rng.random() < 0.5 else canary))
                    keep.append(user("kept"))
                s.state[canary] = canary
                s.checkpoint(canary)
                s.fail(canary)
            keep.close()
            assert number % 2 or rl.admin.migrate() == 0
            assert any(_holds(one, canary if number % 2 else canary.lower()) for one in _files(tmp_path)), (
                "the test looks for something that was never there"
            )
            rl.sessions.remove(f"drop{number}")
            for one in _files(tmp_path):
                assert not _holds(one, canary), f"{one.name} still holds it"
                assert not _holds(one, canary.lower()), f"{one.name} still holds it, in the index of words"
                assert not _holds(one, s.id), f"{one.name} still holds the id"
                looked += 1
            assert rl.history.load(f"keep{number}").messages
            assert rl.history.verify().ok
    figure("G18", f"{rounds} sessions dropped, {looked} files scanned, 0 canaries left, write-ahead log included")


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def _holds(path: Path, canary: str) -> bool:
    return canary.encode() in path.read_bytes()


@pytest.mark.guarantee("G18")
def test_sweeps_that_race_commits_and_forks_lose_nothing(tmp_path: Path, sample: Any, figure: Figure) -> None:
    rounds = sample(15, proof=1_000, teeth=10)
    swept: list[str] = []
    errors: list[BaseException] = []
    done = threading.Event()
    with relight.open(tmp_path / "relight.db") as rl:

        def sweeper() -> None:
            try:
                while not done.is_set():
                    swept.extend(rl.admin.sweep(ALL).sessions)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=sweeper)
        thread.start()
        forks, held = {}, []
        try:
            for number in range(rounds):
                s = rl.session(f"a{number}")
                s.append(user(str(number)))
                fork = rl.history.fork(s.id).id
                forks[fork] = [user(str(number))]
                held.append(s.id)
                s.complete("done")
        finally:
            done.set()
            thread.join()
        assert errors == []
        for fork, messages in forks.items():
            assert rl.history.load(fork).messages == messages, "a fork lost what it reads from its parent"
        assert not set(swept) & set(forks)
        assert rl.history.verify().ok
    figure("G18", f"{rounds} commits and forks beside a running sweep, 0 lost")
