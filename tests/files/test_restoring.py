"""Restore, rewind, undo, redo and fork, through the library: what comes back, what stays, what is refused."""

from __future__ import annotations

import os
import shutil

import pytest

from relight.errors import Conflict, LeaseHeld, NotFound, RestoreConflict, RestoreUnfinished
from relight.ports import faults
from relight.values.snapshot import Choice
from tests.figures import Figure
from tests.files.desk import Desk, note_at, reply, rows, user

CHOICES: tuple[Choice, ...] = ("stop", "theirs", "ours", "force")


def test_a_checkpoint_brings_its_files_back(desk: Desk) -> None:
    rl = desk.start()
    one, two = desk.working(rl, "one", "two")
    report = rl.restore(f"agent@{one}", dry_run=True)
    assert [action.path for action in report.plans["main"].decision.writes] == [b"file"]
    assert report.checkpoint is None and desk.read("file") == "two"
    rl.restore(f"agent@{one}")
    assert desk.read("file") == "one"
    rl.restore(f"agent@{two}")
    assert desk.read("file") == "two"
    assert desk.damage(rl) == []


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("choice", CHOICES)
def test_what_no_snapshot_of_the_session_holds_survives_every_restore(
    desk: Desk, choice: Choice, figure: Figure
) -> None:
    rl = desk.start()
    one, two = desk.working(rl, "one", "two")
    desk.write("mine", "no snapshot of the session holds this")
    desk.write("new/mine", "nor this")
    for seq in (one, two, one, two):
        rl.restore(f"agent@{seq}", choice=choice)
        assert desk.read("mine") == "no snapshot of the session holds this"
        assert desk.read("new/mine") == "nor this"
    rl.rewind(f"agent@{one}", files=True, choice=choice)
    rl.undo("agent", choice=choice)
    assert desk.read("mine") == "no snapshot of the session holds this"
    figure("G16", f"6 restores in a row ({choice}), what only their safety snapshots hold still there")


def test_exact_deletes_it_and_undo_brings_it_back(desk: Desk) -> None:
    rl = desk.start()
    one, _ = desk.working(rl, "one", "two")
    desk.write("mine", "kept by the safety snapshot")
    before = desk.picture()
    rl.restore(f"agent@{one}", exact=True)
    assert desk.read("mine") is None
    rl.undo("agent")
    assert desk.picture() == before


def test_a_change_by_somebody_else_stops_everything_and_is_listed(desk: Desk) -> None:
    rl = desk.start()
    desk.write("quiet", "1")
    with rl.session("agent", workspace=desk.root) as s:
        desk.write("file", "one")
        s.append(reply("one"))
        desk.write("file", "two")
        desk.write("quiet", "2")
        s.append(reply("two"))
    desk.write("file", "the user's")
    before, steps = desk.picture(), rows(rl)
    with pytest.raises(RestoreConflict) as refused:
        rl.restore("agent@2")
    assert refused.value.conflicts == ((b"file", "changed since the last snapshot"),)
    assert desk.picture() == before and rows(rl) == steps, "something was touched, or noted"
    rl.restore("agent@2", choice="theirs")
    assert (desk.read("file"), desk.read("quiet")) == ("the user's", "1")
    rl.undo("agent")
    assert desk.picture() == before
    rl.restore("agent@2", choice="ours")
    assert (desk.read("file"), desk.read("quiet")) == ("one", "1")
    rl.undo("agent")
    assert desk.picture() == before


def test_a_conflict_in_one_of_several_roots_names_the_root(desk: Desk) -> None:
    rl = desk.start()
    other = desk.path / "other"
    other.mkdir()
    with rl.session("agent", workspace={"code": str(desk.root), "docs": str(other)}) as s:
        for content in ("one", "two"):
            desk.write("file", content)
            (other / "page").write_text(content)
            s.append(reply(content))
    (other / "page").write_text("the user's")
    with pytest.raises(RestoreConflict) as refused:
        rl.restore("agent@2")
    assert [path for path, _ in refused.value.conflicts] == [b"docs:page"]
    assert desk.read("file") == "two", "the other root was touched"
    rl.restore("agent@2", choice="ours")
    assert (desk.read("file"), (other / "page").read_text()) == ("one", "one")
    rl.undo("agent")
    assert (desk.read("file"), (other / "page").read_text()) == ("two", "the user's")


def test_named_paths_alone_are_restored(desk: Desk) -> None:
    rl = desk.start()
    with rl.session("agent", workspace=desk.root) as s:
        for content in ("one", "two"):
            for name in ("a", "dir/b", "dir/deep/c", "d"):
                desk.write(name, content)
            s.append(reply(content))
    rl.restore("agent@2", paths=["a", "dir/deep/"])
    found = {name: desk.read(name) for name in ("a", "dir/b", "dir/deep/c", "d")}
    assert found == {"a": "one", "dir/b": "two", "dir/deep/c": "one", "d": "two"}
    rl.undo("agent")
    assert desk.read("a") == desk.read("dir/deep/c") == "two"


def test_undo_is_a_log(desk: Desk) -> None:
    rl = desk.start()
    one, two, three = desk.working(rl, "one", "two", "three")
    rl.restore(f"agent@{one}")
    rl.restore(f"agent@{two}")
    seen = []
    for redo in (False, False, True, True, False, False, True):
        rl.undo("agent", redo=redo)
        seen.append(desk.read("file"))
    assert seen == ["one", "three", "one", "two", "one", "three", "one"]
    rl.restore(f"agent@{three}")
    with pytest.raises(NotFound, match="operation to redo"):
        rl.undo("agent", redo=True)
    assert [one.verb for one in rl.operations("agent")].count("restore") == 3
    rl.undo("agent")
    rl.undo("agent")
    with pytest.raises(NotFound, match="operation to undo"):
        rl.undo("agent")
    assert desk.read("file") == "three"
    assert desk.damage(rl) == []


def test_a_restore_with_nothing_to_do_is_not_what_undo_takes_back(desk: Desk) -> None:
    rl = desk.start()
    one, _ = desk.working(rl, "one", "two")
    rl.restore(f"agent@{one}")
    rl.restore(f"agent@{one}")
    rl.undo("agent")
    assert desk.read("file") == "two"


def test_rewind_takes_conversation_or_files_or_both_and_undo_both(desk: Desk) -> None:
    rl = desk.start()
    one, _ = desk.working(rl, "one", "two")

    def state() -> tuple[int, str | None]:
        return len(rl.load("agent").messages), desk.read("file")

    rl.rewind(f"agent@{one}", files=True)
    assert state() == (1, "one")
    rl.undo("agent")
    assert state() == (2, "two")
    rl.undo("agent", redo=True)
    assert state() == (1, "one")
    rl.undo("agent")
    rl.rewind(f"agent@{one}", conversation=False, files=True)
    assert state() == (2, "one")
    rl.undo("agent")
    rl.rewind(f"agent@{one}")
    assert state() == (1, "two")
    rl.undo("agent")
    assert state() == (2, "two")
    assert desk.damage(rl) == []


def test_undoing_a_rewind_of_words_needs_no_directory(desk: Desk) -> None:
    rl = desk.start()
    one, _ = desk.working(rl, "one", "two")
    rl.rewind(f"agent@{one}")
    shutil.rmtree(desk.root)
    rl.undo("agent")
    assert len(rl.load("agent").messages) == 2


def test_a_fork_in_a_directory_of_its_own_shares_the_content(desk: Desk) -> None:
    rl = desk.start()
    desk.write("large", os.urandom(200_000))
    one, _ = desk.working(rl, "one", "two")
    before = sum(path.stat().st_size for path in desk.blobs.rglob("*.seg"))
    fork = rl.fork(f"agent@{one}", name="fork", workspace=str(desk.path / "fork"))
    assert (desk.path / "fork/file").read_text() == "one"
    assert (desk.path / "fork/large").read_bytes() == (desk.root / "large").read_bytes()
    with rl.session("fork") as s:
        (desk.path / "fork/file").write_text("the fork's")
        s.append(reply("3"))
    assert sum(path.stat().st_size for path in desk.blobs.rglob("*.seg")) - before < 20_000
    assert desk.read("file") == "two"
    assert desk.damage(rl, fork.id) == desk.damage(rl) == []
    rl.restore(f"fork@{one}")
    assert (desk.path / "fork/file").read_text() == "one" and desk.read("file") == "two"
    with pytest.raises(Conflict, match="not empty"):
        rl.fork(f"agent@{one}", workspace=str(desk.path / "fork"))


def test_a_session_that_runs_is_not_restored_under_it(desk: Desk) -> None:
    rl = desk.start()
    one, _ = desk.working(rl, "one", "two")
    with rl.session("agent"):
        with pytest.raises(LeaseHeld):
            desk.start().restore(f"agent@{one}")
        assert desk.read("file") == "two"


@pytest.mark.guarantee("G16")
def test_nobody_starts_on_files_that_are_half_restored(desk: Desk, figure: Figure) -> None:
    rl = desk.start()
    one, two = desk.working(rl, "one", "two")
    met: list[type[BaseException]] = []

    def meet(_: str) -> None:
        faults.disarm()
        for act in (lambda: desk.start().restore(f"agent@{two}"), lambda: desk.start().session("agent")):
            with pytest.raises((LeaseHeld, RestoreUnfinished)) as refused:
                act()
            met.append(refused.type)
        raise faults.InjectedFault("the restore stops here")

    faults.arm("restore.written", meet)
    with pytest.raises(faults.InjectedFault):
        rl.restore(f"agent@{one}")
    assert met == [LeaseHeld, RestoreUnfinished], "somebody could work in the middle of a restore"
    with pytest.raises(RestoreUnfinished, match='workspace "main"'):
        rl.session("agent")
    with pytest.raises(RestoreUnfinished):
        rl.restore(f"agent@{two}", choice="force")
    rl.undo("agent")
    assert desk.read("file") == "two"
    with rl.session("agent") as s:
        s.append(user("on we go"))
    figure("G16", "an interrupted restore: no agent starts on it, undo brings the original back")


def test_the_operations_are_told_by_the_journal(desk: Desk) -> None:
    rl = desk.start()
    one, _ = desk.working(rl, "one", "two")
    report = rl.restore(f"agent@{one}")
    assert report.checkpoint is not None
    [operation] = rl.operations("agent")
    assert operation.verb == "restore" and operation.done and operation.restores["main"]
    before, aimed = operation.files["main"]
    assert aimed == next(row.snapshots["main"] for row in rows(rl) if row.seq == one)
    assert rows(rl)[-2].snapshots == {"main": before}, "the safety snapshot is not named by the beginning"
    assert note_at(rl, report.checkpoint.seq)["operation_end"]["begun"] == operation.id
    assert rl.get("agent").status == "terminated", "a restore left the session owned"
