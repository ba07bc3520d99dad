"""Undo is a log: after it a reader sees what he saw before the operation, after a redo what he saw before the undo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import relight
from relight.errors import NotFound, Waiting
from relight.library.facade import Relight
from relight.sessions.session import Session, writer_of
from relight.values.options import RunOptions
from relight.values.queues import QueueKey
from relight.values.status import Failure, StatusChange
from relight.values.step import Changes
from tests.support.simulation import Simulation
from tests.unit.sessions.test_branching import texts, user, write

TIMES = {"updated_at", "last_step_at", "saved_at", "created_at", "cost_rate"}
COUNTED = {"seq", "size_bytes"}
WORK = {"attempt", "usage", "cost", "cost_tree", "resumed_from"}
"""what only grows, or belongs to the newest attempt"""


@pytest.fixture
def world() -> Iterator[Simulation]:
    made = Simulation()
    yield made
    made.close()


def seen(rl: Relight, ref: str, *, but: set[str] = frozenset()) -> dict[str, Any]:  # type: ignore[assignment]
    """Everything a reader sees, but seq and times."""
    info, loaded = msgspec.to_builtins(rl.sessions.get(ref)), msgspec.to_builtins(rl.history.load(ref))
    attention = info.pop("attention")
    plan = rl.runs.plan(ref)
    reported = {key: value for key, value in info.items() if key not in TIMES | COUNTED | but}
    head = rl.store.find(info["id"]).head  # type: ignore[union-attr]
    assert head is not None
    return {
        **reported,
        "loaded": loaded,
        "attention": {**attention, "since": None} if attention else None,
        "native": head.native,
        "line": head.queue_position,
        "plan": (plan.ok, plan.why_stopped, [reason.code for reason in plan.reasons]),
    }


def complete(s: Session) -> None:
    s.complete("RESULT")


def fail(s: Session) -> None:
    s.fail("the API said no", failure=Failure(kind="auth", text="401", fields={"status": 401}))


def halt(s: Session) -> None:
    s.halt("a loop")


def leave(s: Session) -> None:
    s.close()


def raise_(s: Session) -> None:
    with pytest.raises(ValueError), s:
        raise ValueError("boom")


def wait(s: Session) -> None:
    with pytest.raises(Waiting):
        s.ask("which colour?")


def meet_a_limit(s: Session) -> None:
    change = StatusChange(status="queued", reason="usage limit", wake_us=2_000_000_000_000_000)
    writer_of(s).record("status", Changes(status=change), release=True)


ENDS = [complete, fail, halt, leave, raise_, wait, meet_a_limit]


def begin(world: Simulation, end: Callable[[Session], None]) -> Relight:
    rl = world.start()
    s = rl.session("a")
    for word in "12":
        s.append(user(word))
    s.append({"role": "assistant", "content": "said late"}, {"input_tokens": 3, "cost": 0.5})
    s.state["k"] = 1
    s.partial("half")
    end(s)
    s.close()
    return rl


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_undo_leaves_no_difference_but_seq_and_times(world: Simulation, end: Callable[[Session], None]) -> None:
    rl = begin(world, end)
    before = seen(rl, "a")
    rl.history.rewind("a@2")
    rewound = seen(rl, "a")
    assert rewound["head"] == 2 and rewound["said"] is None
    rl.history.undo("a")
    assert seen(rl, "a") == before
    rl.history.redo("a")
    assert seen(rl, "a") == rewound
    rl.history.undo("a")
    assert seen(rl, "a") == before


def test_a_rewind_to_where_it_stands_lets_a_completed_session_go_on_and_is_undone(world: Simulation) -> None:
    rl = begin(world, complete)
    before = seen(rl, "a")
    rl.history.rewind(f"a@{before['head']}")
    assert rl.sessions.get("a").status == "queued"
    rl.history.undo("a")
    assert seen(rl, "a") == before
    with pytest.raises(NotFound):
        rl.history.undo("a")


def test_undo_after_a_death_shows_the_death(world: Simulation) -> None:
    s = world.start().session("a")
    s.append(user("1"))
    s.append(user("2"))
    rl = world.restart()
    before = seen(rl, "a", but={"evidence"})
    assert before["status"] == "terminated"
    rl.history.rewind("a@2")
    rl.history.undo("a")
    assert seen(rl, "a", but={"evidence"}) == before


def test_undo_after_a_death_in_a_pause_shows_no_time_at_which_it_goes_on(
    world: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        """The process ends here."""

    def die(*_: object) -> None:
        raise Died

    s = world.start().session("a")
    s.append(user("1"))
    with monkeypatch.context() as asleep, pytest.raises(Died):
        asleep.setattr(world.time, "sleep", die)
        s.sleep(1000, key="nap")
    rl = world.restart()
    before = seen(rl, "a", but={"evidence"})
    assert (before["status"], before["wake_at"]) == ("terminated", None)
    rl.history.rewind("a@2")
    rl.history.undo("a")
    assert seen(rl, "a", but={"evidence"}) == before
    began = world.time.now_us()
    with rl.session("a") as s:
        s.sleep(1000, key="nap")
    assert 900 < (world.time.now_us() - began) / 1e6 <= 1000, "the rest of the pause is still to come"


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_redo_brings_back_what_was_done_since_the_rewind(world: Simulation, end: Callable[[Session], None]) -> None:
    rl = begin(world, complete)
    before = seen(rl, "a", but=WORK)
    rl.history.rewind("a@2")
    with rl.session("a") as s:
        for word in ("new0", "new1"):
            s.append(user(word))
        end(s)
    worked = seen(rl, "a", but=WORK)
    for _ in range(2):
        rl.history.undo("a")
        assert seen(rl, "a", but=WORK) == before
        assert rl.session("a").is_finished
        rl.history.redo("a")
        assert seen(rl, "a", but=WORK) == worked
    assert texts(rl, "a") == ["1", "new0", "new1"]


def test_work_between_an_undo_and_its_redo_comes_back_with_the_next_undo(world: Simulation) -> None:
    rl = world.start()
    write(rl, "a", *"123")
    rl.history.rewind("a@2")
    write(rl, "a", "left")
    rl.history.undo("a")
    write(rl, "a", "right")
    rl.history.redo("a")
    assert texts(rl, "a") == ["1", "left"]
    rl.history.undo("a")
    assert texts(rl, "a") == ["1", "2", "3", "right"]


def test_undo_goes_back_operation_by_operation_and_redo_forward(world: Simulation) -> None:
    rl = world.start()
    write(rl, "a", *"1234")
    stood = [seen(rl, "a", but=WORK)]
    for target, word in ((4, "x"), (3, "y"), (2, "z")):
        rl.history.rewind(f"a@{target}")
        write(rl, "a", word)
        stood.append(seen(rl, "a", but=WORK))
    for one in reversed(stood[:-1]):
        rl.history.undo("a")
        assert seen(rl, "a", but=WORK) == one
    with pytest.raises(NotFound):
        rl.history.undo("a")
    for one in stood[1:]:
        rl.history.redo("a")
        assert seen(rl, "a", but=WORK) == one
    with pytest.raises(NotFound):
        rl.history.redo("a")


def test_a_place_in_line_is_left_and_taken_again(tmp_path: Path) -> None:
    rl = relight.open(f"sqlite:///{tmp_path}/relight.db")
    rl.runs.create(["true"], RunOptions(directory="/", agent="command", name="a"))
    write(rl, "a", *"12")
    with rl.session("a") as s:
        s.complete("x")
    before = seen(rl, "a", but=WORK)
    rl.history.rewind("a@2")
    rl.queues.enqueue("a", queue="nightly")
    line = QueueKey("nightly")
    (waits,) = rl.store.list_waiting(line, 9)
    queued = seen(rl, "a", but=WORK)
    rl.history.undo("a")
    assert (seen(rl, "a", but=WORK), rl.store.list_waiting(line, 9)) == (before, [])
    rl.history.redo("a")
    assert (seen(rl, "a", but=WORK), rl.store.list_waiting(line, 9)) == (queued, [waits])
    rl.close()


def test_the_agents_last_line_survives_a_compaction_and_is_there_again_after_an_undo(world: Simulation) -> None:
    rl = world.start()
    with rl.session("a") as s:
        s.append(user("q"))
        s.append({"role": "assistant", "content": "one"})
        s.replace([user("so far")])
    before = seen(rl, "a")
    assert before["said"] == "one"
    rl.history.rewind("a@2")
    assert rl.sessions.get("a").said is None
    rl.history.undo("a")
    assert seen(rl, "a") == before


@pytest.mark.parametrize(("at", "said"), [("", "two"), ("@5", "two"), ("@4", "one"), ("@3", "one"), ("@2", None)])
def test_a_fork_shows_the_agents_last_line_and_so_does_its_undo(world: Simulation, at: str, said: str | None) -> None:
    rl = world.start()
    with rl.session("a") as s:
        s.append(user("q1"))
        s.append({"role": "assistant", "content": "one"})
        s.append(user("q2"))
        s.append({"role": "assistant", "content": "two"})
    rl.history.fork(f"a{at}", name="f")
    before = seen(rl, "f")
    assert before["said"] == said
    rl.history.rewind("f@1")
    rl.history.undo("f")
    assert seen(rl, "f") == before


def test_a_forks_log_begins_with_the_fork(world: Simulation) -> None:
    rl = world.start()
    write(rl, "a", *"123")
    rl.history.rewind("a@2")
    write(rl, "a", "x")
    rl.history.fork("a", name="f")
    assert rl.history.operations("f") == []
    with pytest.raises(NotFound):
        rl.history.undo("f")


def test_redo_brings_back_the_files_of_the_work_since(tmp_path: Path) -> None:
    rl = relight.open(f"sqlite:///{tmp_path}/relight.db")
    location = tmp_path / "work"
    location.mkdir()

    def files() -> dict[str, str]:
        return {one.name: one.read_text() for one in location.iterdir()}

    with rl.session("a", workspace=location) as s:
        for number in range(3):
            (location / "file").write_text(f"v{number}")
            s.append(user(str(number)))
            s.checkpoint(f"v{number}")
        (location / "late").write_text("late")
        s.append(user("late"))
        s.complete("done")
    before = files()
    rl.history.rewind("a@v0", files=True)
    with rl.session("a") as s:
        (location / "file").write_text("new")
        (location / "mine").write_text("mine")
        s.append(user("new"))
        s.checkpoint()
    worked = files()
    for _ in range(2):
        rl.history.undo("a")
        assert (files(), rl.sessions.get("a").status) == (before, "completed")
        rl.history.redo("a")
        assert (files(), texts(rl, "a")) == (worked, ["0", "new"])
    rl.close()


def test_redo_brings_back_the_files_where_the_undo_had_none_to_change(tmp_path: Path) -> None:
    location = tmp_path / "work"
    location.mkdir()
    with relight.open(tmp_path / "relight.db") as rl:

        def work(content: str, *said: str) -> None:
            with rl.session("a", workspace=location) as s:
                if content:
                    (location / "file").write_text(content)
                for text in said:
                    s.append(user(text))

        work("first", "1", "2")
        rl.history.rewind("a@2", files=True)
        work("", "3")
        rl.history.undo("a")
        work("other", "4")
        rl.history.redo("a")
        assert ((location / "file").read_text(), texts(rl, "a")) == ("first", ["1", "3"])
        rl.history.undo("a")
        assert ((location / "file").read_text(), texts(rl, "a")) == ("other", ["1", "2", "4"])


class Undoing:
    """A session with two directories, and what was in them and said before each operation."""

    def __init__(self, rl: Relight, base: Path, rng: Random) -> None:
        self.rl, self.rng = rl, rng
        self.roots = {name: base / name for name in ("one", "two")}
        for root in self.roots.values():
            root.mkdir(parents=True)
        self.existing: list[Any] = []
        self.undone: list[Any] = []

    def seen(self) -> Any:
        files = {str(path): path.read_text() for root in self.roots.values() for path in root.iterdir()}
        return files, texts(self.rl, "a"), self.rl.sessions.get("a").head

    def work(self) -> None:
        with self.rl.session("a", workspace={name: str(root) for name, root in self.roots.items()}) as s:
            for _ in range(self.rng.randint(1, 3)):
                path = self.rng.choice(list(self.roots.values())) / self.rng.choice("xy")
                if self.rng.random() < 0.3:
                    path.unlink(missing_ok=True)
                elif self.rng.random() < 0.6:
                    path.write_text(self.rng.choice("123"))
                s.append(user(str(self.rng.random())))

    def rewind(self) -> None:
        target = self.rng.choice([one for one in self.rl.history.checkpoints("a") if one.kind == "message"])
        before = self.seen()
        self.rl.history.rewind(target.id, files=True)
        if not self.rl.history.operations("a")[-1].is_void:
            self.existing.append(before)
            self.undone.clear()

    def undo(self) -> None:
        self._move(self.rl.history.undo, self.existing, self.undone)

    def redo(self) -> None:
        self._move(self.rl.history.redo, self.undone, self.existing)

    def _move(self, move: Callable[[str], Any], come_from: list[Any], go_to: list[Any]) -> None:
        if not come_from:
            with pytest.raises(NotFound):
                move("a")
            return
        go_to.append(self.seen())
        move("a")
        assert self.seen() == come_from.pop()


def test_over_any_sequence_undo_and_redo_bring_back_the_files_of_every_root(
    tmp_path: Path, sample: Callable[..., int]
) -> None:
    for seed in range(sample(6, proof=200, teeth=12)):
        base, rng = tmp_path / str(seed), Random(seed)
        base.mkdir()
        with relight.open(base / "relight.db") as rl:
            undoing = Undoing(rl, base, rng)
            undoing.work()
            for _ in range(20):
                acts = [undoing.work, undoing.rewind, undoing.undo, undoing.redo]
                rng.choices(acts, [4, 3, 4, 3])[0]()
