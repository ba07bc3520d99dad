"""Restore, rewind, undo, redo and fork, through the library: what comes back, what stays, what is refused."""

from __future__ import annotations

import os
import shutil

import pytest

from relight.errors import Conflict, LeaseHeld, NotFound, RestoreConflict, RestoreUnfinished
from relight.ports import faults
from relight.values.snapshot import Choice
from tests.support.figures import Figure
from tests.support.files_harness import FilesHarness, note_at, reply, rows, user

CHOICES: tuple[Choice, ...] = ("stop", "theirs", "ours", "force")


def test_a_checkpoint_brings_its_files_back(harness: FilesHarness) -> None:
    rl = harness.start()
    one, two = harness.working(rl, "one", "two")
    report = rl.files.restore(f"agent@{one}", dry_run=True)
    assert [action.path for action in report.plans["main"].decision.writes] == [b"file"]
    assert report.checkpoint is None and harness.read("file") == "two"
    rl.files.restore(f"agent@{one}")
    assert harness.read("file") == "one"
    rl.files.restore(f"agent@{two}")
    assert harness.read("file") == "two"
    assert harness.damage(rl) == []


@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("choice", CHOICES)
def test_what_no_snapshot_of_the_session_holds_survives_every_restore(
    harness: FilesHarness, choice: Choice, figure: Figure
) -> None:
    rl = harness.start()
    one, two = harness.working(rl, "one", "two")
    harness.write("mine", "no snapshot of the session holds this")
    harness.write("new/mine", "nor this")
    for seq in (one, two, one, two):
        rl.files.restore(f"agent@{seq}", choice=choice)
        assert harness.read("mine") == "no snapshot of the session holds this"
        assert harness.read("new/mine") == "nor this"
    rl.history.rewind(f"agent@{one}", files=True, choice=choice)
    rl.history.undo("agent", choice=choice)
    assert harness.read("mine") == "no snapshot of the session holds this"
    figure("G16", f"6 restores in a row ({choice}), what only their safety snapshots hold still there")


def test_exact_deletes_it_and_undo_brings_it_back(harness: FilesHarness) -> None:
    rl = harness.start()
    one, _ = harness.working(rl, "one", "two")
    harness.write("mine", "kept by the safety snapshot")
    before = harness.picture()
    rl.files.restore(f"agent@{one}", exact=True)
    assert harness.read("mine") is None
    rl.history.undo("agent")
    assert harness.picture() == before


def test_a_change_by_somebody_else_stops_everything_and_is_listed(harness: FilesHarness) -> None:
    rl = harness.start()
    harness.write("quiet", "1")
    with rl.session("agent", workspace=harness.root) as s:
        harness.write("file", "one")
        s.append(reply("one"))
        harness.write("file", "two")
        harness.write("quiet", "2")
        s.append(reply("two"))
    harness.write("file", "the user's")
    before, steps = harness.picture(), rows(rl)
    with pytest.raises(RestoreConflict) as refused:
        rl.files.restore("agent@2")
    assert refused.value.conflicts == ((b"file", "changed since the last snapshot"),)
    assert harness.picture() == before and rows(rl) == steps, "something was touched, or noted"
    rl.files.restore("agent@2", choice="theirs")
    assert (harness.read("file"), harness.read("quiet")) == ("the user's", "1")
    rl.history.undo("agent")
    assert harness.picture() == before
    rl.files.restore("agent@2", choice="ours")
    assert (harness.read("file"), harness.read("quiet")) == ("one", "1")
    rl.history.undo("agent")
    assert harness.picture() == before


def test_a_conflict_in_one_of_several_roots_names_the_root(harness: FilesHarness) -> None:
    rl = harness.start()
    other = harness.path / "other"
    other.mkdir()
    with rl.session("agent", workspace={"code": str(harness.root), "docs": str(other)}) as s:
        for content in ("one", "two"):
            harness.write("file", content)
            (other / "page").write_text(content)
            s.append(reply(content))
    (other / "page").write_text("the user's")
    with pytest.raises(RestoreConflict) as refused:
        rl.files.restore("agent@2")
    assert [path for path, _ in refused.value.conflicts] == [b"docs:page"]
    assert harness.read("file") == "two", "the other root was touched"
    rl.files.restore("agent@2", choice="ours")
    assert (harness.read("file"), (other / "page").read_text()) == ("one", "one")
    rl.history.undo("agent")
    assert (harness.read("file"), (other / "page").read_text()) == ("two", "the user's")


def test_named_paths_alone_are_restored(harness: FilesHarness) -> None:
    rl = harness.start()
    with rl.session("agent", workspace=harness.root) as s:
        for content in ("one", "two"):
            for name in ("a", "dir/b", "dir/deep/c", "d"):
                harness.write(name, content)
            s.append(reply(content))
    rl.files.restore("agent@2", paths=["a", "dir/deep/"])
    found = {name: harness.read(name) for name in ("a", "dir/b", "dir/deep/c", "d")}
    assert found == {"a": "one", "dir/b": "two", "dir/deep/c": "one", "d": "two"}
    rl.history.undo("agent")
    assert harness.read("a") == harness.read("dir/deep/c") == "two"


def test_undo_is_a_log(harness: FilesHarness) -> None:
    rl = harness.start()
    one, two, three = harness.working(rl, "one", "two", "three")
    rl.files.restore(f"agent@{one}")
    rl.files.restore(f"agent@{two}")
    seen = []
    undo, redo = rl.history.undo, rl.history.redo
    for move in (undo, undo, redo, redo, undo, undo, redo):
        move("agent")
        seen.append(harness.read("file"))
    assert seen == ["one", "three", "one", "two", "one", "three", "one"]
    rl.files.restore(f"agent@{three}")
    with pytest.raises(NotFound, match="operation to redo"):
        rl.history.redo("agent")
    assert [one.verb for one in rl.history.operations("agent")].count("restore") == 3
    rl.history.undo("agent")
    rl.history.undo("agent")
    with pytest.raises(NotFound, match="operation to undo"):
        rl.history.undo("agent")
    assert harness.read("file") == "three"
    assert harness.damage(rl) == []


def test_a_restore_with_nothing_to_do_is_not_what_undo_takes_back(harness: FilesHarness) -> None:
    rl = harness.start()
    one, _ = harness.working(rl, "one", "two")
    rl.files.restore(f"agent@{one}")
    rl.files.restore(f"agent@{one}")
    rl.history.undo("agent")
    assert harness.read("file") == "two"


def test_rewind_takes_conversation_or_files_or_both_and_undo_both(harness: FilesHarness) -> None:
    rl = harness.start()
    one, _ = harness.working(rl, "one", "two")

    def state() -> tuple[int, str | None]:
        return len(rl.history.load("agent").messages), harness.read("file")

    rl.history.rewind(f"agent@{one}", files=True)
    assert state() == (1, "one")
    rl.history.undo("agent")
    assert state() == (2, "two")
    rl.history.redo("agent")
    assert state() == (1, "one")
    rl.history.undo("agent")
    rl.history.rewind(f"agent@{one}", conversation=False, files=True)
    assert state() == (2, "one")
    rl.history.undo("agent")
    rl.history.rewind(f"agent@{one}")
    assert state() == (1, "two")
    rl.history.undo("agent")
    assert state() == (2, "two")
    assert harness.damage(rl) == []


def test_undoing_a_rewind_of_words_needs_no_directory(harness: FilesHarness) -> None:
    rl = harness.start()
    one, _ = harness.working(rl, "one", "two")
    rl.history.rewind(f"agent@{one}")
    shutil.rmtree(harness.root)
    rl.history.undo("agent")
    assert len(rl.history.load("agent").messages) == 2


def test_a_fork_in_a_directory_of_its_own_shares_the_content(harness: FilesHarness) -> None:
    rl = harness.start()
    harness.write("large", os.urandom(200_000))
    one, _ = harness.working(rl, "one", "two")
    before = sum(path.stat().st_size for path in harness.blobs.rglob("*.seg"))
    fork = rl.history.fork(f"agent@{one}", name="fork", workspace=str(harness.path / "fork"))
    assert (harness.path / "fork/file").read_text() == "one"
    assert (harness.path / "fork/large").read_bytes() == (harness.root / "large").read_bytes()
    with rl.session("fork") as s:
        (harness.path / "fork/file").write_text("the fork's")
        s.append(reply("3"))
    assert sum(path.stat().st_size for path in harness.blobs.rglob("*.seg")) - before < 20_000
    assert harness.read("file") == "two"
    assert harness.damage(rl, fork.id) == harness.damage(rl) == []
    rl.files.restore(f"fork@{one}")
    assert (harness.path / "fork/file").read_text() == "one" and harness.read("file") == "two"
    with pytest.raises(Conflict, match="not empty"):
        rl.history.fork(f"agent@{one}", workspace=str(harness.path / "fork"))


def test_a_session_that_runs_is_not_restored_under_it(harness: FilesHarness) -> None:
    rl = harness.start()
    one, _ = harness.working(rl, "one", "two")
    with rl.session("agent"):
        with pytest.raises(LeaseHeld):
            harness.start().files.restore(f"agent@{one}")
        assert harness.read("file") == "two"


@pytest.mark.guarantee("G16")
def test_nobody_starts_on_files_that_are_half_restored(harness: FilesHarness, figure: Figure) -> None:
    rl = harness.start()
    one, two = harness.working(rl, "one", "two")
    met: list[type[BaseException]] = []

    def meet(_: str) -> None:
        faults.disarm()
        for act in (lambda: harness.start().files.restore(f"agent@{two}"), lambda: harness.start().session("agent")):
            with pytest.raises((LeaseHeld, RestoreUnfinished)) as refused:
                act()
            met.append(refused.type)
        raise faults.InjectedFault("the restore stops here")

    faults.arm("restore.written", meet)
    with pytest.raises(faults.InjectedFault):
        rl.files.restore(f"agent@{one}")
    assert met == [LeaseHeld, RestoreUnfinished], "somebody could work in the middle of a restore"
    with pytest.raises(RestoreUnfinished, match='workspace "main"'):
        rl.session("agent")
    with pytest.raises(RestoreUnfinished):
        rl.files.restore(f"agent@{two}", choice="force")
    rl.history.undo("agent")
    assert harness.read("file") == "two"
    with rl.session("agent") as s:
        s.append(user("on we go"))
    figure("G16", "an interrupted restore: no agent starts on it, undo brings the original back")


def test_the_operations_are_told_by_the_journal(harness: FilesHarness) -> None:
    rl = harness.start()
    one, _ = harness.working(rl, "one", "two")
    report = rl.files.restore(f"agent@{one}")
    assert report.checkpoint is not None
    [operation] = rl.history.operations("agent")
    assert operation.verb == "restore" and operation.done and operation.restores["main"]
    before, aimed = operation.files["main"]
    assert aimed == next(row.snapshots["main"] for row in rows(rl) if row.seq == one)
    assert rows(rl)[-2].snapshots == {"main": before}, "the safety snapshot is not named by the beginning"
    assert note_at(rl, report.checkpoint.seq)["operation_end"]["begun"] == operation.id
    assert rl.sessions.get("agent").status == "terminated", "a restore left the session owned"
