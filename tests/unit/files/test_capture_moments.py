"""When files are captured, that step and snapshot are one commit, and what a failed capture costs: a note."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from relight.errors import OverQuota, UsageError, WorkspaceUnusable
from relight.ports import faults
from relight.values.snapshot import Snapshot
from relight.workspaces.policy import TreePolicy
from tests.support.figures import Figure
from tests.support.files_harness import FilesHarness, captured, note_at, reply, rows, user


def steps(harness: FilesHarness, moments: str | float) -> tuple[list[str], list[str]]:
    """All kinds of steps after a change of a file each; those that carry a snapshot."""
    rl = harness.start()
    with rl.session("agent", workspace=harness.root, snapshot=moments) as s:
        for number, act in enumerate(
            (
                lambda: s.append(user("do it")),
                lambda: s.append(reply("done")),
                lambda: s.checkpoint("here"),
                lambda: s.partial(1),
                lambda: s.once("k", lambda: 1),
            )
        ):
            harness.world.time.advance(4)
            harness.write("file", str(number))
            act()
        harness.write("file", "last")
        s.complete()
    held = rows(rl)
    return [row.kind for row in held], [f"{row.seq} {row.kind}" for row in held if row.snapshots]


@pytest.mark.parametrize(
    ("moments", "wanted"),
    [
        ("step", ["2 message", "3 message", "4 mark", "5 mark", "7 result", "8 status"]),
        ("turn", ["3 message", "4 mark", "8 status"]),
        (10.0, ["4 mark", "8 status"]),
        ("manual", []),
    ],
)
def test_files_are_captured_at_the_moments_of_the_policy(
    harness: FilesHarness, moments: str | float, wanted: list[str]
) -> None:
    kinds, found = steps(harness, moments)
    assert kinds == ["attempt", "message", "message", "mark", "mark", "intent", "result", "status"]
    assert found == wanted


def test_an_unknown_moment_is_refused_and_nothing_is_recorded(harness: FilesHarness) -> None:
    rl = harness.start()
    for wrong in ("always", 0, -1.0, True):
        with pytest.raises(UsageError):
            rl.session("agent", workspace=harness.root, snapshot=wrong)


def test_a_snapshot_joins_the_next_step_and_nothing_changed_adds_nothing(harness: FilesHarness) -> None:
    rl = harness.start()
    harness.write("file", "one")
    with rl.session("agent", workspace=harness.root, snapshot="manual") as s:
        first = s.snapshot()
        assert isinstance(first, Snapshot) and not captured(rl)
        s.append(user("1"))
        assert rows(rl)[-1].snapshots == {"main": first.id}
        again = s.snapshot()
        assert isinstance(again, Snapshot) and again.id == first.id and not again.is_new
        s.append(user("2"))
        assert captured(rl) == [2], "the same snapshot was named twice"
    assert harness.damage(rl) == []


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("name", ["commit.begun", "commit.written"])
def test_step_and_snapshot_are_one_commit(harness: FilesHarness, name: str, figure: Figure) -> None:
    rl = harness.start()
    harness.write("file", "one")
    with rl.session("agent", workspace=harness.root) as s:
        s.append(user("1"))
        before = rows(rl)
        harness.write("file", "two")

        def fail(_: str) -> None:
            raise faults.InjectedFault(name)

        faults.arm(name, fail)
        try:
            with pytest.raises(faults.InjectedFault):
                s.append(user("2"))
        finally:
            faults.disarm()
        assert rows(rl) == before, "a step that failed left its snapshot, or itself"
        s.append(user("2"))
        assert rows(rl)[-1].snapshots and len(rows(rl)) == len(before) + 1
    assert harness.damage(rl) == []
    figure("G2", f"a commit that failed at {name} left neither step nor snapshot")


@pytest.mark.guarantee("G27")
def test_a_capture_that_fails_costs_a_note_and_not_the_step(harness: FilesHarness, figure: Figure) -> None:
    rl = harness.start()
    harness.write("file", "one")
    with rl.session("agent", workspace=harness.root) as s:
        s.append(user("1"))
    harness.policy = TreePolicy(quota_bytes=100)
    rl = harness.restart()
    harness.write("file", os.urandom(5000))
    with rl.session("agent") as s:
        paid = s.append(reply("a paid reply"))
        assert paid is not None
        assert s.messages[-1] == reply("a paid reply")
        reported = note_at(rl, paid.seq)["files_not_captured"]
        assert "100" in reported and "bytes" in reported, "the note does not name the numbers"
        assert f'workspace "main" ({harness.root})' in reported, "the note does not name root and path"
        assert any("could not be captured" in line for line in harness.world.reported)
        with pytest.raises(OverQuota) as refused:
            s.snapshot()
        assert refused.value.bound_bytes == 100 < refused.value.would_bytes
        with pytest.raises(OverQuota):
            s.checkpoint("asked-for")
    assert harness.damage(rl) == []
    assert rl.history.load("agent").messages[-1] == reply("a paid reply")
    figure("G27", "a quota of 100 bytes: refused with its numbers, the step kept and noted")


def test_a_floor_of_free_space_is_kept(harness: FilesHarness) -> None:
    harness.policy = TreePolicy(floor_bytes=1 << 60)
    rl = harness.start()
    harness.write("file", "x" * 100)
    with (
        rl.session("agent", workspace=harness.root, snapshot="manual") as s,
        pytest.raises(OverQuota, match="1,152,921,504"),
    ):
        s.snapshot()
    assert [path for path in harness.blobs.rglob("*.seg") if path.stat().st_size > 8] == [], "something was written"


@pytest.mark.guarantee("G26")
def test_secrets_do_not_enter_the_store_by_a_step(harness: FilesHarness, figure: Figure) -> None:
    rl = harness.start()
    secrets = [".env", ".env.local", "deploy/id_rsa", "tls/server.key", "home/.netrc", ".aws/credentials"]
    for name in secrets:
        harness.write(name, b"CANARY-2b81")
    harness.write("README", "public")
    with rl.session("agent", workspace=harness.root) as s:
        s.append(reply("1"))
    shutil.rmtree(harness.root)
    harness.root.mkdir()
    left = [one.path for one in rl.files.diff("agent@2", "agent@2") if one.what == "left out" and one.kind == "secret"]
    assert sorted(left) == sorted(secrets)
    stored = b"".join(path.read_bytes() for path in harness.path.rglob("*") if path.is_file())
    assert b"CANARY-2b81" not in stored
    figure("G26", f"{len(secrets)} secret files in the workspace, none in the store, all told")


def test_a_finished_session_that_goes_on_captures_its_files_again(harness: FilesHarness) -> None:
    rl = harness.start()

    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        harness.write("file", f"after {len(messages)} messages")
        return reply("done")

    for prompt in ("one", "two"):
        with rl.session("agent", workspace=harness.root) as s:
            s.run(model, tools=[], prompt=prompt)
    assert rl.files.diff("agent") == [], "what the second prompt changed is in no snapshot"
    assert rl.sessions.get("agent").attempt == 2


@pytest.mark.parametrize("wrong", ["/nowhere/at/all", "/", "a\0b", "", 3, {}, {"": "."}, {"a": None}], ids=repr)
def test_an_unusable_workspace_leaves_nothing_behind(harness: FilesHarness, wrong: Any) -> None:
    rl = harness.start()
    with rl.session("there") as s:
        s.append(user("hello"))
    for name, resume in (("new", True), ("there", True), ("there", False)):
        with pytest.raises((WorkspaceUnusable, UsageError)):
            rl.session(name, workspace=wrong, resume=resume)
    assert rl.sessions.find("new") is None
    assert rl.sessions.get("there").workspace in (None, {}) and [one.name for one in rl.sessions.list()] == ["there"]
    with rl.session("there") as s:
        assert s.messages == [user("hello")]


def test_a_missing_workspace_is_refused_before_anything_is_touched(harness: FilesHarness) -> None:
    rl = harness.start()
    harness.working(rl, "one")
    before = rows(rl)
    shutil.rmtree(harness.root)
    with pytest.raises(WorkspaceUnusable, match="workspace missing") as refused:
        rl.session("agent")
    assert "main" in str(refused.value) and str(harness.root) in str(refused.value)
    assert rows(rl) == before and not harness.root.exists()


def test_a_replaced_directory_is_refused(harness: FilesHarness) -> None:
    rl = harness.start()
    seqs = harness.working(rl, "one", "two")
    harness.root.rename(harness.path / "away")
    harness.root.mkdir()
    harness.write("mine", "another directory")
    for act in (lambda: rl.session("agent"), lambda: rl.files.restore(f"agent@{seqs[0]}", choice="force")):
        with pytest.raises(WorkspaceUnusable, match="not the directory that was recorded"):
            act()
    assert harness.picture().keys() == {b"mine"}


@pytest.mark.parametrize("location", ["/", "home", "store"])
def test_places_that_are_no_workspace_are_refused(
    harness: FilesHarness, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rl = harness.start()
    monkeypatch.setenv("HOME", str(harness.root))
    harness.blobs.mkdir(exist_ok=True)
    path = {"/": Path("/"), "home": harness.root, "store": harness.blobs}[location]
    with pytest.raises(WorkspaceUnusable, match="failed to prepare workspace"):
        rl.session("agent", workspace=path)


def test_several_roots_are_captured_together_and_an_error_names_root_and_path(harness: FilesHarness) -> None:
    rl = harness.start()
    other = harness.path / "other"
    other.mkdir()
    (other / "o").write_text("o")
    harness.write("file", "m")
    with rl.session("agent", workspace={"code": str(harness.root), "docs": str(other)}) as s:
        s.append(reply("1"))
        assert rows(rl)[-1].snapshots.keys() == {"code", "docs"}
        (other / "o").write_text("changed")
        s.append(reply("2"))
        assert rows(rl)[-1].snapshots.keys() == {"docs"}, "a root that did not change was named again"
    assert harness.damage(rl) == []
    shutil.rmtree(other)
    with pytest.raises(WorkspaceUnusable, match=f'workspace "docs" \\({other}\\)'):
        rl.session("agent")


def test_the_checkpoint_that_is_returned_names_its_snapshot(harness: FilesHarness) -> None:
    rl = harness.start()
    with rl.session("agent", workspace=harness.root) as s:
        harness.write("file", "one")
        returned = [s.append(user("hello")), s.checkpoint("same")]
        harness.write("file", "two")
        with s.batch():
            s.append(reply("in a block"))
        returned.append(s.checkpoint("two"))
        harness.write("file", "three")
        returned.append(s.checkpoint("three"))
    listed = {one.seq: one for one in rl.history.checkpoints("agent")}
    for one in returned:
        assert one is not None and one.snapshot == listed[one.seq].snapshot
    assert [one is not None and one.snapshot is not None for one in returned] == [True, False, False, True]


@pytest.mark.parametrize("roots", [1, 2])
def test_a_checkpoint_after_a_program_went_back_holds_the_files_that_were_there(
    harness: FilesHarness, tmp_path: Path, roots: int
) -> None:
    """The conversation goes back, the files stay: they are not those of the checkpoint it went back to."""
    rl = harness.start()
    places = {f"root{number}": tmp_path / f"root{number}" for number in range(roots)}

    def put(text: str) -> None:
        for place in places.values():
            (place / "file").write_text(text)

    def there(seq: int) -> set[tuple[str, bytes]]:
        return {
            (one.root, rl.files.read(f"agent@{seq}", one.path, root=one.root)) for one in rl.files.list(f"agent@{seq}")
        }

    for place in places.values():
        place.mkdir()
    with rl.session("agent", workspace={name: str(place) for name, place in places.items()}) as s:
        put("one")
        one = s.checkpoint("one")
        put("two")
        two = s.checkpoint("two")
        for back in (one, 1, two, one):
            s.rewind(back)
            asked = s.checkpoint()
            assert asked.snapshot is not None
            assert there(asked.seq) == {(name, b"two") for name in places}
        s.rewind(one)
        (places["root0"] / "file").write_text("three")  # of several roots, one that changed since
        last = s.append(reply("a turn"))
        assert there(last.seq) == {(name, b"three" if name == "root0" else b"two") for name in places}
        assert there(one.seq) == {(name, b"one") for name in places}
    put("elsewhere")
    rl.files.restore(f"agent@{asked.seq}", choice="force")
    assert {place.joinpath("file").read_text() for place in places.values()} == {"two"}


def test_a_finished_session_that_was_rewound_by_others_and_goes_on_holds_the_files_that_are_there(
    harness: FilesHarness,
) -> None:
    rl = harness.start()
    with rl.session("agent", workspace=harness.root) as s:
        harness.write("file", "one")
        one = s.checkpoint()
        harness.write("file", "two")
        s.complete("done")
        rl.history.rewind(f"agent@{one.seq}")
        s.prompt("more")
        asked = s.checkpoint()
    assert rl.files.read(f"agent@{asked.seq}", "file") == b"two"
